#!/usr/bin/env python3
"""While one client reads a stream, another sends a prompt that is much longer.  The stream goes on in
between, and its tokens come at most three slices later than before.

usage: serve_slices.py KVSHIFT MODEL
"""
import socket
import sys
import threading
import time

from serve_clients import open_stream
from server import Server

command, model = sys.argv[1:3]
SLICE = 0.05
TRIES = 8  # other programs also delay tokens


class Reader(threading.Thread):
    """Notes when the parts of a stream arrive."""

    def __init__(self, server):
        super().__init__()
        self.connection = open_stream(server, prompt="a", max_tokens=1000, ignore_eos=True,
                                      return_token_ids=True)
        self.times = []

    def run(self):
        try:
            while part := self.connection.recv(1 << 16):
                self.times.extend([time.time()] * part.count(b"data: {"))
        except OSError:
            pass

    def wait(self, count):
        while len(self.times) < count:
            time.sleep(0.001)

    def stop(self):
        self.connection.shutdown(socket.SHUT_RDWR)
        self.join()


def attempt(server, number):
    """Returns the tokens during the prompt, and the longest delays before and during it."""
    reader = Reader(server)
    reader.start()
    reader.wait(40)
    start = time.time()
    answer = server.complete(prompt=[65 + number] * 1000, max_tokens=1)
    end = time.time()
    reader.wait(len(reader.times) + 2)
    reader.stop()
    assert answer["usage"]["prompt_tokens"] == 1000, answer
    delays = [(b - a, b) for a, b in zip(reader.times, reader.times[1:])]
    return (sum(start < at < end for at in reader.times),
            max(d for d, at in delays if at < start),
            max(d for d, at in delays if start < at < end + SLICE), end - start)


with Server(command, model, "--slice-ms", str(int(SLICE * 1000)), "--prefix-cache", "0") as s:
    kept = False
    for i in range(TRIES):
        tokens, before, during, seconds = attempt(s, i)
        print(f"{tokens} tokens in the {seconds:.2f} s of a prompt; longest delay {during * 1000:.0f} ms, "
              f"before {before * 1000:.0f} ms")
        # Passes have at most 256 tokens, so there are five without slices, and as many again until
        # the first slices have grown.
        assert tokens >= min(14, 0.5 * seconds / SLICE), "the stream does not go on"
        kept = kept or during <= before + 3 * SLICE
        if kept:
            break
    assert kept, "no try keeps within three slices"
