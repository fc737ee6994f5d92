"""Clients that read a stream themselves."""
import json
import socket


def open_stream(server, **fields):
    """Sends a request and returns the socket, with a small buffer."""
    body = json.dumps(dict(fields, stream=True)).encode()
    c = socket.socket()
    c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    c.settimeout(60)
    c.connect(("127.0.0.1", server.port))
    c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
              % len(body) + body)
    return c
