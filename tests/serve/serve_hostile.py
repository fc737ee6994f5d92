#!/usr/bin/env python3
"""Sends ten thousand requests in which HTTP or JSON is broken.  The server answers with a status, or
closes, and is as before afterwards.  Where only the JSON, the method or the path is wrong, the status
must be the right one.

usage: serve_hostile.py KVSHIFT MODEL [COUNT]
"""
import json
import random
import socket
import sys
import threading

from server import Server

command, model = sys.argv[1:3]
count = int(sys.argv[3]) if len(sys.argv) > 3 else 10000
CLIENTS = 8
STATUSES = {"100", "200", "400", "403", "404", "405", "413", "414", "415", "431", "501", "505"}
METHODS = [b"POST"] * 6 + [b"GET", b"HEAD", b"PUT", b"OPTIONS", b"\x01"]
PATHS = [b"/v1/completions"] * 4 + [b"/v1/chat/completions", b"/tokenize", b"/detokenize", b"/props",
                                    b"/v1/models/%2F%zz%", b"/metrics", b"*", b"//", b"/../health"]
VERSIONS = [b"HTTP/1.1"] * 12 + [b"HTTP/1.0", b"HTTP/9.9", b""]
HEADERS = [b"Content-Length: 5", b"Content-Length: 99999999", b"Transfer-Encoding: chunked",
           b"Host: localhost", b"Host: other", b"Expect: 100-continue", b"Connection: close",
           b"X-Api-Key: a", b"Origin: null", b"X: " + b"a" * 3000, b"Content-Encoding: gzip", b": x",
           b"Authorization: Bearer " + b"z" * 900, b"\x00: \xff"]


def changed(r, data):
    """One byte becomes another."""
    at = r.randrange(len(data))
    return data[:at] + bytes([r.randrange(256)]) + data[at + 1:]


def is_json(body):
    try:
        return isinstance(json.loads(body), dict)
    except ValueError:
        return False


def statuses(method, path, body, fields):
    """The statuses that are right for a request whose HTTP is sound.  `fields` are those of the body,
    None = a byte of it was changed."""
    posts = {b"/v1/completions", b"/v1/chat/completions", b"/tokenize", b"/detokenize"}
    gets = {b"/props", b"/metrics", b"/v1/models/%2F%zz%"}
    if method not in (b"POST", b"GET", b"HEAD", b"PUT", b"OPTIONS") or path == b"*":
        return None
    if path not in posts | gets:
        return {"404"}
    if (method == b"POST") != (path in posts) or method in (b"PUT", b"OPTIONS"):
        return {"405"}
    if path in gets:
        return {"404"} if path == b"/v1/models/%2F%zz%" else {"200"}
    if not is_json(body) or path in (b"/v1/chat/completions", b"/detokenize"):
        return {"400"}  # these two lack a field that they need
    if fields is None:
        return {"200", "400"}
    if path == b"/tokenize":
        return {"200"} if isinstance(fields["prompt"], str) else {"400"}
    return {"200"} if fields["max_tokens"] > 0 or (fields["max_tokens"] == 0 and fields["echo"]) else {"400"}


def make(r):
    """Returns the bytes of a request, and the statuses that are right for it; None = any."""
    fields = dict(prompt=r.choice(["a", "the cat", [65, 66], ["a", "b"]]),
                  max_tokens=r.choice([0, 1, 5, -1]), stream=r.random() < 0.3,
                  echo=r.random() < 0.3, logprobs=r.choice([None, 0, 1]))
    body = json.dumps(fields).encode()
    if r.random() < 0.4:
        body, fields = changed(r, body), None
    method, path, version = r.choice(METHODS), r.choice(PATHS), r.choice(VERSIONS)
    lines = [method + b" " + path + b" " + version]
    sound = version == b"HTTP/1.1"
    if r.random() < 0.9:
        lines.append(b"Host: localhost")
    if r.random() < 0.8:
        lines.append(b"Content-Length: %d" % (len(body) + r.choice([0, 0, 0, 0, 1, -1])))
    sound = sound and lines[1:] == [b"Host: localhost", b"Content-Length: %d" % len(body)]
    others = [r.choice(HEADERS) for _ in range(r.choice([0, 0, 0, 1, 2]))]
    ends = r.choice([b"\r\n"] * 6 + [b"\n"])
    data = ends.join(lines + others) + b"\r\n\r\n" + body
    sound = sound and not others and ends == b"\r\n"
    if r.random() < 0.2:
        data, sound = changed(r, data), False
    if r.random() < 0.1:
        data, sound = data[: r.randrange(len(data))], False
    return data * 2 if r.random() < 0.1 else data, statuses(method, path, body, fields) if sound else None


def client(number):
    r = random.Random(number)
    for _ in range(count // CLIENTS):
        status, (data, right) = "closed", make(r)
        try:
            with socket.create_connection(("127.0.0.1", s.port), timeout=10) as c:
                c.settimeout(0.15 if r.random() < 0.9 else 0.01)
                c.sendall(data)
                got = c.recv(64)
                status = got[9:12].decode("latin1") if got.startswith(b"HTTP/1.") else str(got)
        except OSError:
            pass  # it waits for the rest, or has closed
        with lock:
            found[status] = found.get(status, 0) + 1
            if right and status[:1] in "12345":
                checked.append(status)
                if status not in right:
                    wrong.append((data, status, right))


with Server(command, model, "--http-timeout", "5", "--template", "raw") as s:
    found, checked, wrong, lock = {}, [], [], threading.Lock()
    s.complete(prompt="the cat", max_tokens=2)  # the first pass starts threads
    start_descriptors, start_threads = s.descriptors(), s.threads()
    clients = [threading.Thread(target=client, args=(i,)) for i in range(CLIENTS)]
    for c in clients:
        c.start()
    for c in clients:
        c.join()
    print(dict(sorted(found.items())), f"{len(checked)} statuses were known before")
    assert not wrong, wrong[0]
    assert set(found) <= STATUSES | {"closed", "b''"}, found
    assert len(checked) > count / 20, "too few statuses were checked"
    assert {"200", "400", "403", "404", "405"} <= set(found), found
    assert s.wait_idle() and s.get("/health")[0] == 200
    assert s.descriptors() <= start_descriptors + 1, (s.descriptors(), start_descriptors)
    assert s.threads() == start_threads, (s.threads(), start_threads)
    assert s.stop() == 0, "the exit code is not 0"
