"""A server under test and its clients, with the standard library only."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time


class Server:
    """kvshift serve on a free port of this machine."""

    def __init__(self, command, model, *options):
        self.process = subprocess.Popen(
            [command, "serve", "-m", model, "--port", "0", *options],
            stderr=subprocess.PIPE, text=True)
        self.lines = []
        while True:
            line = self.process.stderr.readline()
            self.lines.append(line)
            found = re.search(r"serving '.*' at http://.*:(\d+)$", line)
            if found:
                self.port = int(found[1])
                return
            if not line:
                raise RuntimeError("the server did not start: " + "".join(self.lines))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stderr.close()

    def stop(self, number=signal.SIGTERM, seconds=60):
        """Sends a signal and returns the exit code."""
        self.process.send_signal(number)
        return self.process.wait(seconds)

    def request(self, method, path, body=None, headers=None):
        """Returns status, headers and bytes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            if body is not None and not isinstance(body, (bytes, str)):
                body = json.dumps(body)
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def get(self, path, **headers):
        status, _, body = self.request("GET", path, headers=headers)
        return status, json.loads(body)

    def post(self, path, **fields):
        status, _, body = self.request("POST", path, fields)
        return status, json.loads(body)

    def complete(self, **fields):
        status, answer = self.post("/v1/completions", **fields)
        assert status == 200, (fields, answer)
        return answer

    def events(self, path, **fields):
        """The JSON of all events of a stream, without [DONE], which must come last."""
        status, headers, body = self.request("POST", path, dict(fields, stream=True))
        assert status == 200, body
        assert headers["Content-Type"] == "text/event-stream", headers
        return parse_events(body)

    def raw(self, data, seconds=10):
        """Sends bytes and returns everything until the server closes or is silent."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as s:
            try:
                s.sendall(data)
                got = b""
                while True:
                    part = s.recv(1 << 16)
                    if not part:
                        return got
                    got += part
            except socket.timeout:
                return got
            except (ConnectionResetError, BrokenPipeError):
                return b"reset"

    def metrics(self):
        _, _, body = self.request("GET", "/metrics")
        return {k: float(v) for k, v in re.findall(r"^kvshift_(\S+) (\S+)$", body.decode(), re.M)}

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def threads(self):
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def memory(self):
        """Resident bytes."""
        with open(f"/proc/{self.process.pid}/status") as status:
            return int(re.search(r"VmRSS:\s+(\d+) kB", status.read())[1]) * 1024

    def wait_idle(self, seconds=30):
        end = time.time() + seconds
        while time.time() < end:
            m = self.metrics()
            if m["slots_active"] == 0 and m["jobs_waiting"] == 0:
                return True
            time.sleep(0.02)
        return False


def parse_events(body):
    parts = [p for p in body.decode().split("\n\n") if p and not p.startswith(":")]
    assert parts[-1] == "data: [DONE]", parts[-1]
    assert all(p.startswith("data: ") for p in parts), parts
    return [json.loads(p[6:]) for p in parts[:-1]]


def join_events(events):
    """The choices of a stream, joined as the whole answer has them."""
    choices = {}
    for event in events:
        for part in event["choices"]:
            whole = choices.setdefault(part["index"], {"index": part["index"], "text": "",
                                                       "logprobs": None, "finish_reason": None})
            whole["text"] += part["text"] if "text" in part else part["delta"].get("content", "")
            if part["logprobs"]:
                if whole["logprobs"] is None:
                    whole["logprobs"] = {k: [] if v is not None else None
                                         for k, v in part["logprobs"].items()}
                for key, values in part["logprobs"].items():
                    if values is not None:
                        whole["logprobs"][key] += values
            if part["finish_reason"]:
                whole["finish_reason"] = part["finish_reason"]
                whole["stop_reason"] = part["stop_reason"]
    return [choices[i] for i in sorted(choices)]


def flat(choices):
    """The choices of a whole answer in the form of join_events()."""
    result = []
    for choice in choices:
        choice = dict(choice)
        if "message" in choice:
            choice["text"] = choice.pop("message")["content"]
        result.append(choice)
    return result
