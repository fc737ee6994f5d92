#!/usr/bin/env python3
"""32 clients for a while: answers as alone, clients that leave or do not read, and requests that are
broken.  The memory stays flat, and no descriptor or thread is left over.

usage: serve_soak.py KVSHIFT MODEL [SECONDS]
"""
import json
import random
import socket
import sys
import threading
import time

from server import Server, flat, join_events

command, model = sys.argv[1:3]
seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 60
CLIENTS = 32
LONG = "line 1: the cat sat on the mat and the line was long. " * 10
VALUES = ["null", "true", "1", "-1", "0.5", "1e308", "9223372036854775807", '"x"', '""', "[]", "[1]",
          '["a"]', "[[1],[2]]", "{}", '{"1":1}', "[[[[[[[[[[[[[[[[[[[[[[1", '"\\u0000"']


def requests():
    result = []
    for i in range(24):
        prompt = random.Random(i).choice(["the cat", LONG, LONG[: 40 * i + 3], "und die Bäume", "a"])
        result.append(dict(prompt=prompt, max_tokens=1 + 5 * (i % 6), temperature=(i % 3) * 0.7,
                           seed=i, n=1 + (i % 5 == 0), echo=i % 4 == 0))
        if i % 2:
            result[-1]["logprobs"] = i % 3
    return result


def mutate(r, text):
    """A request in which something is wrong or strange."""
    kind = r.randrange(4)
    if kind == 0:
        return text[: r.randrange(len(text))]
    if kind == 1:
        at = r.randrange(len(text))
        return text[:at] + r.choice(VALUES + ['"', "}", "\\", ","]) + text[at + r.randrange(5):]
    fields = json.loads(text)
    name = r.choice(list(fields) + ["stop", "logit_bias", "stream", "top_p", "min_tokens", "suffix"])
    rest = json.dumps({k: v for k, v in fields.items() if k != name})
    return rest[:-1] + f', "{name}": {r.choice(VALUES)}}}'


class Client(threading.Thread):
    def __init__(self, server, number, expected):
        super().__init__()
        self.server, self.number, self.expected = server, number, expected
        self.done = {"whole": 0, "stream": 0, "left": 0, "slow": 0, "broken": 0}
        self.wrong = None

    def run(self):
        try:
            r = random.Random(self.number)
            while time.time() < end and not self.wrong:
                self.turn(r)
        except Exception as error:  # a thread's exception would be lost
            self.wrong = repr(error)

    def turn(self, r):
        fields, choices = r.choice(self.expected)
        fields = dict(fields, cache_salt=r.choice(["", "a", str(r.random())]))
        what = r.choices(list(self.done), [5, 4, 2, 1, 4])[0]
        if what == "whole":
            if self.server.complete(**fields)["choices"] != choices:
                self.wrong = ("whole", fields)
        elif what == "stream":
            if join_events(self.server.events("/v1/completions", **fields)) != flat(choices):
                self.wrong = ("stream", fields)
        elif what == "broken":
            body = mutate(r, json.dumps(fields)).encode()
            status, _, answer = self.server.request("POST", "/v1/completions", body)
            if status not in (200, 400) or (status == 400 and "error" not in json.loads(answer)):
                self.wrong = (status, body, answer)
        else:
            body = json.dumps(dict(fields, stream=r.random() < 0.7)).encode()
            with socket.create_connection(("127.0.0.1", self.server.port), timeout=60) as c:
                c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d"
                          b"\r\n\r\n" % len(body) + body[: r.choice([len(body), len(body) // 2])])
                time.sleep(r.random() * (0.5 if what == "slow" else 0.05))
        self.done[what] += 1


with Server(command, model, "--prefix-cache", "20000000", "--slice-ms", "5", "--queue", "200") as s:
    expected = [(r, s.complete(cache_salt="alone", **r)["choices"]) for r in requests()]
    end = time.time() + seconds
    half = time.time() + seconds / 2
    clients = [Client(s, i, expected) for i in range(CLIENTS)]
    start_descriptors, start_threads = s.descriptors(), s.threads()
    for c in clients:
        c.start()
    time.sleep(max(0, half - time.time()))
    memory = s.memory()
    for c in clients:
        c.join()
    wrong = [c.wrong for c in clients if c.wrong]
    total = {k: sum(c.done[k] for c in clients) for k in clients[0].done}
    assert not wrong, wrong[0]
    assert s.wait_idle(60), "the server is not idle"
    time.sleep(0.5)
    print(f"{total}; {memory / 1e6:.1f} MB after half of the time, {s.memory() / 1e6:.1f} MB at the end")
    assert all(total.values()), total
    assert s.memory() < 1.1 * memory + 8e6, "the memory grows"
    assert s.descriptors() <= start_descriptors + 1, (s.descriptors(), start_descriptors)
    assert s.threads() == start_threads, (s.threads(), start_threads)
    assert s.stop() == 0, "the exit code is not 0"
