"""An HTTP server that answers chat completions, well or badly, as it is told."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Behaviour = Callable[["Handler", dict[str, Any]], None]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.requests.append(request)
            number = len(self.server.requests) - 1
        with suppress(BrokenPipeError, ConnectionResetError):
            self.server.behave(number)(self, request)

    def reply(self, status: int, body: bytes, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)


def completion(text: Any, finish: str = "stop") -> dict[str, Any]:
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }


def answer(handler: Handler, request: dict[str, Any]) -> None:
    handler.reply(200, json.dumps(completion("echo: " + request["messages"][-1]["content"])).encode())


def status(code: int) -> Behaviour:
    return lambda handler, request: handler.reply(code, b'{"error": {"message": "scripted"}}')


def truncated(handler: Handler, request: dict[str, Any]) -> None:
    handler.reply(200, json.dumps(completion("x")).encode()[:40])


def cut_connection(handler: Handler, request: dict[str, Any]) -> None:
    handler.reply(200, b'{"id": "1"', length=1000)
    handler.connection.close()


def wrong_schema(handler: Handler, request: dict[str, Any]) -> None:
    handler.reply(200, b'{"result": "ok"}')


def no_text(handler: Handler, request: dict[str, Any]) -> None:
    handler.reply(200, json.dumps(completion(None)).encode())


def silence(handler: Handler, request: dict[str, Any]) -> None:
    time.sleep(3)


def slow_drip(handler: Handler, request: dict[str, Any]) -> None:
    body = json.dumps(completion("late")).encode()
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    for byte in body:
        handler.wfile.write(bytes([byte]))
        handler.wfile.flush()
        time.sleep(0.1)


BAD: dict[str, Behaviour] = {
    "429": status(429),
    "500": status(500),
    "503": status(503),
    "truncated": truncated,
    "cut": cut_connection,
    "schema": wrong_schema,
    "no text": no_text,
    "silence": silence,
    "drip": slow_drip,
}


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, behave: Callable[[int], Behaviour]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.behave, self.requests, self.lock = behave, list[dict[str, Any]](), threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


@contextmanager
def endpoint(behave: Callable[[int], Behaviour]) -> Iterator[Server]:
    """`behave(number of the request)` says how each is answered."""
    server = Server(behave)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
