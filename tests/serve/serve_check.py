#!/usr/bin/env python3
"""Tests a running server: endpoints, equal bytes, streams, limits, bad HTTP, security, the end.

usage: serve_check.py KVSHIFT MODEL
"""
import json
import os
import signal
import socket
import sys
import threading
import time

from serve_clients import open_stream
from server import Server, flat, join_events

command, model = sys.argv[1:3]
PROMPTS = ["the cat", "line 3: the", "und die Bäume", "a", "sat on the mat and the"]
LONG = "line 1: the cat sat on the mat and the line was long. " * 12


def check(holds, what):
    if not holds:
        print("FAILED:", str(what)[:1500])
        sys.exit(1)


def refused(server, status, param, text, path="/v1/completions", **fields):
    got, answer = server.post(path, **fields)
    error = answer.get("error", {})
    check(got == status and error.get("param") == param and text in error.get("message", ""),
          f"{fields} gives {got} {answer}")
    check(set(error) >= {"message", "type", "param", "code"}, answer)


# ---- endpoints ----

def endpoints(s):
    check(s.get("/health") == (200, {"status": "ok"}), "health")
    status, models = s.get("/v1/models")
    name = models["data"][0]["id"]
    check(status == 200 and name == "te/st" and models["data"][0]["max_model_len"] == 1024, models)
    check(s.get("/v1/models/te/st")[0] == 200 and s.get("/v1/models/te%2Fst")[0] == 200,
          "a model by its id")
    check(s.get("/v1/models/other")[0] == 404, "another model")
    status, props = s.get("/props")
    check(status == 200 and props["n_ctx"] == 1024 and props["total_slots"] == 8, props)
    check({"temperature", "logit_bias"} <= {f["name"] for f in props["fields"]}, props)
    status, info = s.get("/tokenizer_info")
    check(status == 200 and info["eos_token"] == "<|endoftext|>", info)
    for text in ["the cat sat", "", "Bäume — ", "<|endoftext|>"]:
        _, ids = s.post("/tokenize", prompt=text, add_special_tokens=False)
        check(ids["count"] == len(ids["tokens"]), ids)
        _, back = s.post("/detokenize", tokens=ids["tokens"])
        check(back["prompt"] == back["content"] == text, f"'{text}' comes back as {back}")
    check(s.post("/tokenize", content="the cat")[1] == s.post("/tokenize", prompt="the cat")[1],
          "the name 'content'")
    eos = s.post("/tokenize", prompt=info["eos_token"], add_special_tokens=False)[1]["tokens"]
    check(eos == [info["eos_token_id"]], eos)

    answer = s.complete(prompt="the cat", max_tokens=5, temperature=0, return_token_ids=True)
    choice = answer["choices"][0]
    check(answer["object"] == "text_completion" and answer["model"] == "te/st", answer)
    check(choice["finish_reason"] == "length" and len(choice["token_ids"]) == 5, answer)
    check(answer["usage"]["completion_tokens"] == 5 and
          answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] + 5, answer)
    again = s.complete(prompt=choice["prompt_token_ids"], max_tokens=5, temperature=0)
    check(again["choices"][0]["text"] == choice["text"], "ids give another text than the string")
    check(s.post("/nowhere", a=1)[0] == 404, "a path that does not exist")
    check(s.request("GET", "/v1/completions")[0] == 405, "GET of a POST path")
    check(s.request("POST", "/health", b"")[0] == 405, "POST of a GET path")
    check(s.request("HEAD", "/health")[0] == 200, "HEAD")
    check(s.request("OPTIONS", "/v1/completions")[0] == 405, "OPTIONS")


def sampling(s):
    def text(**fields):
        return s.complete(prompt="the cat", max_tokens=12, **fields)["choices"][0]["text"]

    check(text(seed=5) == text(seed=5), "a seed gives two texts")
    check(len({text(seed=i, temperature=2) for i in range(6)}) > 1, "all seeds give one text")
    drawn = s.complete(prompt="the cat", max_tokens=12)
    check(text(seed=drawn["seed"]) == drawn["choices"][0]["text"], "the drawn seed is not returned")
    many = s.complete(prompt=["the cat", "a"], n=3, seed=7, max_tokens=12)["choices"]
    check([c["index"] for c in many] == list(range(6)), many)
    check([c["text"] for c in many[:3]] == [text(seed=7 + i) for i in range(3)],
          "sample i has another seed than seed + i")
    greedy = text(temperature=0)
    check(text(top_k=1) == greedy and text(top_p=1e-6) == greedy and text(min_p=1) == greedy,
          "filters that leave one token are not greedy")
    ids = s.post("/tokenize", prompt=greedy, add_special_tokens=False)[1]["tokens"]
    first = s.complete(prompt="the cat", max_tokens=1, temperature=0, return_token_ids=True)
    best = first["choices"][0]["token_ids"][0]
    other = s.complete(prompt="the cat", max_tokens=1, temperature=0, return_token_ids=True,
                       logit_bias={str(best): -100})["choices"][0]["token_ids"][0]
    check(other != best, "logit_bias has no effect")
    check(s.complete(prompt="the cat", max_tokens=3, temperature=0, return_token_ids=True,
                     logit_bias={"65": 100})["choices"][0]["token_ids"] == [65] * 3, "bias 100")
    for name, value in [("frequency_penalty", 2), ("presence_penalty", 2), ("repetition_penalty", 50)]:
        ids = s.complete(prompt="a", max_tokens=40, temperature=0, return_token_ids=True,
                         ignore_eos=True, logit_bias={"65": 20},
                         **{name: value})["choices"][0]["token_ids"]
        plain = s.complete(prompt="a", max_tokens=40, temperature=0, return_token_ids=True,
                           ignore_eos=True, logit_bias={"65": 20})["choices"][0]["token_ids"]
        check(plain == [65] * 40, plain)
        check((ids != plain) == (name != "presence_penalty"), f"{name}: {ids}")
    stopped = s.complete(prompt="the cat", max_tokens=12, temperature=0,
                         stop=["never", greedy[4:7]])["choices"][0]
    check(stopped["text"] == greedy[:greedy.index(greedy[4:7])] and stopped["finish_reason"] == "stop"
          and stopped["stop_reason"] == greedy[4:7], stopped)
    stopped = s.complete(prompt="the cat", max_tokens=12, temperature=0,
                         stop_token_ids=[best])["choices"][0]
    check(stopped["text"] == "" and stopped["stop_reason"] == best, stopped)
    late = s.complete(prompt="the cat", max_tokens=12, temperature=0, stop_token_ids=[best],
                      min_tokens=4, return_token_ids=True)["choices"][0]
    check(len(late["token_ids"]) >= 4 and best not in late["token_ids"][:4], late)


def logprobs(s):
    prompt = "line 3: the cat sat on the mat"
    ids = s.post("/tokenize", prompt=prompt)[1]["tokens"]
    whole = s.complete(prompt=prompt, max_tokens=3, temperature=0, logprobs=3, echo=True)
    choice = whole["choices"][0]
    lp = choice["logprobs"]
    check(len(lp["tokens"]) == len(lp["token_logprobs"]) == len(lp["top_logprobs"]) ==
          len(lp["text_offset"]) == len(ids) + 3, lp)
    check(lp["token_logprobs"][0] is None and lp["top_logprobs"][0] is None, lp)
    check("".join(lp["tokens"]) == choice["text"], "the tokens joined are not the text")
    for i, token in enumerate(lp["tokens"][1:], 1):
        check(choice["text"][lp["text_offset"][i]:].startswith(token), "text_offset")
        top = lp["top_logprobs"][i]
        check(3 <= len(top) <= 4 and top[token] == lp["token_logprobs"][i], (token, top))
    # generated tokens are greedy, and the alternatives contain the best
    for value, top in list(zip(lp["token_logprobs"], lp["top_logprobs"]))[-3:]:
        check(value == max(top.values()), "a greedy token is not the best")
    # Feeding the generated tokens as a prompt gives the same numbers, up to float rounding.
    full = s.complete(prompt=choice["text"], max_tokens=0, logprobs=3, echo=True)["choices"][0]
    check(full["logprobs"]["tokens"] == lp["tokens"], "the text has other tokens as a prompt")
    check(all(abs(a - b) < 1e-6 for a, b in zip(full["logprobs"]["token_logprobs"][1:],
                                                lp["token_logprobs"][1:])),
          "scores of a prompt differ from those of generation")
    check(full["text"] == choice["text"] and full["finish_reason"] == "length", full)
    # With a stored prefix the bytes are the same.
    for k in (0, 1, 2):
        a = s.complete(prompt=prompt, max_tokens=0, logprobs=k, echo=True, cache_salt=f"s{k}")
        b = s.complete(prompt=prompt, max_tokens=0, logprobs=k, echo=True, cache_salt=f"s{k}")
        check(a["choices"] == b["choices"], f"logprobs {k} differ after a stored prefix")
        cached = b["usage"]["prompt_tokens_details"]["cached_tokens"]
        check(cached == (len(ids) if k < 2 else 0), b["usage"])
    chat = s.post("/v1/chat/completions", messages=[{"role": "user", "content": "the cat"}],
                  logprobs=True, top_logprobs=2, max_tokens=6, temperature=0)[1]["choices"][0]
    content = chat["logprobs"]["content"]
    check("".join(t["token"] for t in content) == chat["message"]["content"], chat)
    check(b"".join(bytes(t["bytes"]) for t in content).decode(errors="replace") ==
          chat["message"]["content"], "bytes")
    check(all(len(t["top_logprobs"]) == 2 and t["top_logprobs"][0]["logprob"] == t["logprob"]
              for t in content), content)


def chats(s):
    messages = [{"role": "system", "content": "be"}, {"role": "user", "content": "the cat"}]
    status, answer = s.post("/v1/chat/completions", messages=messages, max_tokens=6, temperature=0)
    check(status == 200 and answer["object"] == "chat.completion" and
          answer["choices"][0]["message"]["role"] == "assistant", answer)
    parts = s.post("/v1/chat/completions", max_tokens=6, temperature=0, messages=[
        messages[0], {"role": "user", "content": [{"type": "text", "text": "the cat"}]}])[1]
    check(parts["choices"] == answer["choices"], "text parts")
    events = s.events("/v1/chat/completions", messages=messages, max_tokens=6, temperature=0)
    check(events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}, events[0])
    check(all("role" not in e["choices"][0]["delta"] for e in events[1:]), events)
    check(len({e["id"] for e in events}) == 1, "events have several ids")
    check(join_events(events) == flat(answer["choices"]), "a streamed chat is another")
    # The raw template ends each message with a line end; continued, it does not.
    continued = s.post("/v1/chat/completions", max_tokens=6, temperature=0,
                       messages=[{"role": "assistant", "content": "the cat"}],
                       continue_final_message=True)[1]["choices"][0]["message"]["content"]
    bos = s.get("/tokenizer_info")[1]["bos_token"] or ""
    plain = s.complete(prompt=bos + "the cat", add_special_tokens=False, max_tokens=6, temperature=0)
    check(continued == plain["choices"][0]["text"], f"continued: {continued!r} {plain}")
    long = s.post("/v1/chat/completions", messages=messages, temperature=0, ignore_eos=True)[1]
    check(long["usage"]["total_tokens"] == 1025 and
          long["choices"][0]["finish_reason"] == "length", long["usage"])


# ---- equal bytes ----

def variants():
    for i, prompt in enumerate(PROMPTS + [LONG]):
        yield dict(prompt=prompt, max_tokens=10 + i, temperature=0, logprobs=2)
        yield dict(prompt=prompt, max_tokens=15, temperature=1.2, seed=i, logprobs=0, echo=True)
        yield dict(prompt=prompt, max_tokens=8, seed=3 + i, n=2, frequency_penalty=0.5,
                   stop=[" the", "q"])
    yield dict(prompt=[LONG, LONG + "x", "a"], max_tokens=1, temperature=0, logprobs=1, echo=True)


def equal_bytes(s):
    requests = list(variants())
    alone = [s.complete(cache_salt=f"alone {i}", **r)["choices"] for i, r in enumerate(requests)]
    wrong = []

    def client(number):
        for turn in range(len(requests)):
            i = (turn * 5 + number * 3) % len(requests)
            salt = f"{number}" if number % 2 else "shared"
            if (turn + number) % 3 == 0:
                got = join_events(s.events("/v1/completions", cache_salt=salt, **requests[i]))
                if got != flat(alone[i]):
                    wrong.append(("stream", requests[i], got, alone[i]))
            else:
                got = s.complete(cache_salt=salt, **requests[i])["choices"]
                if got != alone[i]:
                    wrong.append(("whole", requests[i], got, alone[i]))

    threads = [threading.Thread(target=client, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(not wrong, f"{len(wrong)} answers differ, the first: {wrong[:1]}")
    check(s.metrics()["prefix_hits_total"] > 20, "prefixes were hardly used")


def prefixes(s):
    first = s.complete(prompt=LONG, max_tokens=4, temperature=0, cache_salt="p")
    second = s.complete(prompt=LONG, max_tokens=4, temperature=0, cache_salt="p")
    n = first["usage"]["prompt_tokens"]
    check(first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0, first["usage"])
    check(second["usage"]["prompt_tokens_details"]["cached_tokens"] == n, second["usage"])
    check(second["timings"]["cache_n"] + second["timings"]["prompt_n"] == n, second["timings"])
    other = s.complete(prompt=LONG, max_tokens=4, temperature=0, cache_salt="q")
    check(other["usage"]["prompt_tokens_details"]["cached_tokens"] == 0, "salts share prefixes")
    ids = s.post("/tokenize", prompt=LONG)[1]["tokens"]
    for cut in (33, 64, 65, 100, n - 1):
        changed = ids[:cut] + [66, 67, 68]
        alone = s.complete(prompt=changed, max_tokens=4, temperature=0, logprobs=1,
                           cache_salt=f"cut {cut}")
        hit = s.complete(prompt=changed, max_tokens=4, temperature=0, logprobs=1, cache_salt="p")
        cached = hit["usage"]["prompt_tokens_details"]["cached_tokens"]
        check(cached >= cut, f"{cached} tokens are shared, expected {cut}")
        check(hit["choices"] == alone["choices"], f"a prefix of {cut} tokens changes the answer")


# ---- streams, clients that leave ----

def streams(s):
    fields = dict(prompt="the cat", max_tokens=9, temperature=0)
    events = s.events("/v1/completions", stream_options={"include_usage": True}, **fields)
    check(events[-1]["choices"] == [] and events[-1]["usage"]["completion_tokens"] == 9, events[-1])
    check(all(e["object"] == "text_completion" for e in events), events)
    check(s.post("/v1/completions", prompt="the cat " * 2000, stream=True)[0] == 400,
          "a stream that cannot start is no error")


def cancels(s):
    check(s.wait_idle(), "the server is not idle")
    before = s.metrics()["jobs_cancelled_total"]
    # One that is streamed, one that is not, and one that waits for a slot.
    c = open_stream(s, prompt="a", max_tokens=1000, ignore_eos=True)
    check(c.recv(100).startswith(b"HTTP/1.1 200"), "no stream")
    c.close()
    check(s.wait_idle(10), "a job goes on without its client")
    body = json.dumps(dict(prompt="a", max_tokens=1000, ignore_eos=True)).encode()
    c = socket.create_connection(("127.0.0.1", s.port))
    c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
              % len(body) + body)
    while s.metrics()["slots_active"] == 0:
        time.sleep(0.005)
    c.close()
    check(s.wait_idle(10), "a job goes on without its client")
    busy = [open_stream(s, prompt="a", max_tokens=1000, ignore_eos=True) for _ in range(8)]
    while s.metrics()["slots_active"] < 8:
        time.sleep(0.005)
    queued = open_stream(s, prompt="b", max_tokens=1000)
    while s.metrics()["jobs_waiting"] < 1:
        time.sleep(0.005)
    queued.close()
    end = time.time() + 5
    while s.metrics()["jobs_waiting"] > 0 and time.time() < end:
        time.sleep(0.005)
    check(s.metrics()["jobs_waiting"] == 0, "a queued job is not cancelled")
    for c in busy:
        c.close()
    check(s.wait_idle(10), "jobs go on without their clients")
    check(s.metrics()["jobs_cancelled_total"] >= before + 3, "cancelled jobs are not counted")


def slow_readers(s):
    """Clients that read nothing do not delay others, and their streams are bounded."""
    before = s.metrics()["jobs_cancelled_total"]
    slow = [open_stream(s, prompt="a", n=100, max_tokens=1000, ignore_eos=True, logprobs=20)
            for _ in range(3)]
    start = time.time()
    answer = s.complete(prompt="the cat", max_tokens=5, temperature=0)
    check(answer["usage"]["completion_tokens"] == 5 and time.time() - start < 20, "it is delayed")
    check(s.wait_idle(60), "slow readers keep slots")
    check(s.metrics()["jobs_cancelled_total"] == before + 3, "slow readers are not cut off")
    for c in slow:
        c.close()


# ---- errors ----

def errors(s):
    refused(s, 400, "prompt", "missing")
    refused(s, 400, "temperature", "0 to 2", prompt="a", temperature=3)
    refused(s, 400, "n", "1 to 128", prompt="a", n=10**6)
    refused(s, 400, "prompt", "1 to 1024", prompt=["a"] * 1025)
    refused(s, 400, "prompt", "the context is 1024", prompt="the cat " * 2000)
    refused(s, 400, "prompt", "the context is 1024", prompt="a", max_tokens=1025)
    refused(s, 400, "tools", "not supported", "/v1/chat/completions",
            messages=[{"role": "user", "content": "a"}], tools=[{"type": "function"}])
    refused(s, 400, "logprobs", "log-probabilities", prompt=[[65] * 1000] * 500, echo=True,
            logprobs=20, max_tokens=0)
    got, answer = s.post("/v1/completions", prompt="the cat " * 2000)
    check(answer["error"]["code"] == "context_length_exceeded" and
          answer["error"]["n_ctx"] == 1024 and answer["error"]["n_prompt_tokens"] > 1024, answer)
    # A prompt that fills the context, and one token.
    full = s.complete(prompt=[65] * 1024, max_tokens=1, logprobs=1, echo=True, temperature=0)
    check(len(full["choices"][0]["logprobs"]["tokens"]) == 1025, "context + 1")
    status, headers, _ = s.request("POST", "/v1/completions", {"prompt": "a", "temperature": 9})
    check(headers.get("x-should-retry") == "false", headers)
    status, headers, _ = s.request("POST", "/v1/completions",
                                   {"prompt": "a", "user": "x", "b\r\nad": 1, "max_tokens": 1},
                                   {"X-Request-Id": "abc"})
    check(headers["x-kvshift-ignored"] == "user,b__ad" and headers["X-Request-Id"] == "abc", headers)
    for body in (b"", b"{", b"[]", b"null", b"{\"prompt\":\"a\"}x", b"\xff\xfe", b"[" * 100000):
        status, _, answer = s.request("POST", "/v1/completions", body)
        check(status == 400 and b"error" in answer, (body[:20], status))
    check(s.request("POST", "/v1/completions", b"x" * 4000000)[0] == 413, "a large body")
    check(s.request("POST", "/v1/completions", b"{}", {"Content-Encoding": "gzip"})[0] == 415, "gzip")


def bad_http(s):
    ok = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
    post = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"

    def status(data, seconds=3):
        got = s.raw(data, seconds)
        return got[9:12].decode() if got.startswith(b"HTTP/1.") else got.decode(errors="replace")

    close = b"Connection: close\r\n\r\n"
    check(status(ok + close) == "200", "a plain request")
    check(status(post + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}") == "400", "two lengths")
    check(status(post + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n") == "400",
          "a length and a coding")
    check(status(post + b"Transfer-Encoding : chunked\r\nContent-Length: 2\r\n\r\n{}") == "400",
          "a blank in the name of a header")
    check(status(post + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n") == "400", "gzip coding")
    check(status(post + b"Content-Length: -2\r\n\r\n") in ("400", "413"), "a negative length")
    check(status(post + b"Content-Length: 99999999999999999999\r\n\r\n") in ("400", "413"),
          "a huge length")
    check(status(ok + b"Host: localhost\r\n\r\n") == "400", "two hosts")
    check(status(b"GET /health HTTP/1.1\r\n\r\n") in ("400", "403"), "no host")
    check(status(ok + b"Origin: http://localhost\r\n" + close) == "200", "an origin of its own")
    check(status(ok + b"Origin: http://localhost\r\n" * 2 + close) == "403", "two origins")
    check(status(ok + b"Origin: http://" + b"a" * 2000 + b"\r\n" + close) == "403", "a long origin")
    check(status(ok + b"X: " + b"a" * 200000 + b"\r\n\r\n") in ("413", "414", "431", "reset", ""),
          "a huge header")
    check(status(ok + b"".join(b"X%d: a\r\n" % i for i in range(20000)) + b"\r\n") in
          ("413", "431", "reset", ""), "many headers")
    check(status(b"\x00\xff\x00garbage\r\n\r\n", 3) in ("400", "", "reset"), "garbage")
    check(status(b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n" + close) == "404",
          "a path with dots")
    check(status(post + b"Content-Length: 90000000\r\nExpect: 100-continue\r\n\r\n") == "413",
          "a large body that was announced")
    got = s.raw(post + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
                b"10\r\n{\"prompt\": \"abc\"\r\n1\r\n}\r\n0\r\n\r\n", 3)
    check(b"200 OK" in got and b"tokens" in got, f"a chunked request: {got}")
    chunks = b"".join(b"10000\r\n" + b" " * 65536 + b"\r\n" for _ in range(300))
    check(status(post + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n") in
          ("413", "", "reset"), "a large chunked body")
    got = s.raw(ok + b"\r\n" + ok + b"\r\n" + ok + close, 3)
    check(got.count(b"HTTP/1.1 200") == 3, f"three requests at once: {got}")
    for data in (b"", b"PO", post, post + b"Content-Length: 50\r\n\r\n{\"pro"):
        with socket.create_connection(("127.0.0.1", s.port)) as c:
            c.sendall(data)  # and leave
    check(s.get("/health")[0] == 200, "the server does not answer after bad requests")


# ---- other servers ----

def timeouts():
    with Server(command, model, "--http-timeout", "1") as s:
        start = time.time()
        with socket.create_connection(("127.0.0.1", s.port), timeout=20) as c:
            try:
                for byte in b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 200:
                    c.sendall(bytes([byte]))
                    time.sleep(0.05)
            except OSError:
                pass
            check(time.time() - start < 6, "a slow sender is not cut off")
    with Server(command, model, "--request-timeout", "1", "--slots", "1") as s:
        status, answer = s.post("/v1/completions", prompt="a", n=128, max_tokens=900,
                                ignore_eos=True)
        check(status == 504 and answer["error"]["code"] == "timeout", answer)


def queues():
    with Server(command, model, "--slots", "1", "--queue", "1") as s:
        busy = [open_stream(s, prompt="a", max_tokens=1000, ignore_eos=True) for _ in range(2)]
        while s.metrics()["jobs_waiting"] < 1:
            time.sleep(0.005)
        status, headers, body = s.request("POST", "/v1/completions", {"prompt": "a"})
        check(status == 429 and int(headers["Retry-After"]) > 0 and b"queue_full" in body, body)
        for c in busy:
            c.close()
        check(s.wait_idle(), "not idle")
        check(s.post("/v1/completions", prompt="a", max_tokens=1)[0] == 200, "it stays full")


def fairness():
    """A request with many prompts does not keep others waiting."""
    with Server(command, model, "--slots", "2") as s:
        c = open_stream(s, prompt=["a"] * 300, max_tokens=100, ignore_eos=True)
        while s.metrics()["slots_active"] < 2:
            time.sleep(0.005)
        start = time.time()
        s.complete(prompt="b", max_tokens=1)
        seconds = time.time() - start
        check(s.metrics()["slots_active"] > 0 and seconds < 3, f"it waited {seconds} s")
        c.close()


def keys():
    with open("keys", "w") as f:
        f.write("secret-one\nsecret-two\n")
    with Server(command, model, "--api-key-file", "keys", "--allowed-host", "me.example",
                "--strict-model") as s:
        paths = [("GET", p) for p in ("/v1/models", "/v1/models/x", "/metrics", "/props",
                                      "/tokenizer_info", "/nowhere")]
        paths += [("POST", p) for p in ("/v1/completions", "/v1/chat/completions", "/tokenize",
                                        "/detokenize", "/lens/model", "/lens/run", "/lens/x")]
        for path in ("/", "/page/main.js"):
            check(s.request("GET", path)[0] == 200, f"{path} needs no key")
        for method, path in paths:
            for headers in ({}, {"Authorization": "Bearer secret-on"}, {"X-Api-Key": "wrong"},
                            {"Authorization": "Bearer secret-one2"}, {"Authorization": "secret-one"},
                            {"Authorization": "Bearer "}):
                status, answer_headers, _ = s.request(method, path, b"{}" if method == "POST" else None,
                                                      headers)
                check(status == 401 and "WWW-Authenticate" in answer_headers,
                      f"{method} {path} with {headers} gives {status}")
        check(s.request("GET", "/health")[0] == 200, "health needs a key")
        for headers in ({"Authorization": "Bearer secret-one"}, {"X-Api-Key": "secret-two"},
                        {"Authorization": "bearer  secret-two"}):
            check(s.request("GET", "/v1/models", headers=headers)[0] == 200, headers)
        key = {"X-Api-Key": "secret-one"}
        for host, expected in [("localhost", 200), ("localhost:1", 200), ("127.0.0.1:80", 200),
                               ("[::1]:3", 200), ("me.example", 200), ("ME.example:5", 200),
                               ("evil.com", 403), ("localhost.evil.com", 403),
                               ("notlocalhost", 403), ("[::1", 403), ("localhost:x", 403), ("", 403)]:
            status = s.request("GET", "/v1/models", headers=dict(key, Host=host))[0]
            check(status == expected or (host == "" and status == 400), f"Host '{host}' gives {status}")
        for origin, expected in [("http://localhost:9", 200), ("https://localhost:9", 200),
                                 ("http://evil.com", 403), ("null", 403), ("http://localhost", 403),
                                 ("localhost:9", 403)]:
            status, headers, _ = s.request("GET", "/v1/models",
                                           headers=dict(key, Host="localhost:9", Origin=origin))
            check(status == expected, f"Origin '{origin}' gives {status}")
            check(not any(h.lower().startswith("access-control") for h in headers), headers)
        status, headers, body = s.request(
            "POST", "/v1/completions", {"prompt": "a", "model": "gpt", "max_tokens": 1}, key)
        check(status == 404 and b"The model 'gpt' does not exist" in body, body)
        two = dict(prompt=LONG, max_tokens=1)
        s.request("POST", "/v1/completions", two, key)
        body = s.request("POST", "/v1/completions", two, {"X-Api-Key": "secret-two"})[2]
        check(json.loads(body)["usage"]["prompt_tokens_details"]["cached_tokens"] == 0,
              "two keys share a prefix")
        body = s.request("POST", "/v1/completions", two, key)[2]
        check(json.loads(body)["usage"]["prompt_tokens_details"]["cached_tokens"] > 0, body)


def drain():
    with Server(command, model) as s:
        answers = []
        t = threading.Thread(target=lambda: answers.append(
            s.complete(prompt="a", max_tokens=900, ignore_eos=True)))
        c = open_stream(s, prompt="b", max_tokens=900, ignore_eos=True)
        idle = socket.create_connection(("127.0.0.1", s.port))
        t.start()
        while s.metrics()["slots_active"] < 2:
            time.sleep(0.005)
        s.process.send_signal(signal.SIGTERM)
        t.join()
        check(answers and answers[0]["usage"]["completion_tokens"] == 900, "an answer was cut")
        body = b""
        while True:
            part = c.recv(1 << 16)
            if not part:
                break
            body += part
        check(b"data: [DONE]" in body, "a stream was cut")
        check(s.process.wait(30) == 0, "the exit code is not 0")
        idle.close()
    with Server(command, model, "--drain-timeout", "0") as s:
        c = open_stream(s, prompt="b", max_tokens=1000, ignore_eos=True, n=50)
        c.recv(100)
        check(s.stop() == 0, "the exit code is not 0")
        rest = b""
        try:
            while part := c.recv(1 << 16):
                rest += part
        except OSError:
            pass
        check(b"[DONE]" not in rest, "an answer that was given up looks complete")


with Server(command, model, "--template", "raw", "--alias", "te/st", "--slice-ms", "5",
            "--body-limit", "3000000", "--prefix-cache", "50000000") as server:
    for part in (endpoints, sampling, logprobs, chats, streams, prefixes, errors):
        part(server)
    time.sleep(0.2)
    start_descriptors, start_threads = server.descriptors(), server.threads()
    for part in (equal_bytes, cancels, slow_readers, bad_http):
        begin = time.time()
        part(server)
        print(f"{part.__name__}: {time.time() - begin:.1f} s")
    check(server.wait_idle(), "not idle")
    time.sleep(0.3)
    check(server.descriptors() <= start_descriptors + 1,
          f"{server.descriptors()} descriptors, at first {start_descriptors}")
    check(server.threads() == start_threads, f"{server.threads()} threads, at first {start_threads}")
    check(server.stop() == 0, "the exit code is not 0")
for part in (timeouts, queues, fairness, keys, drain):
    begin = time.time()
    part()
    print(f"{part.__name__}: {time.time() - begin:.1f} s")
