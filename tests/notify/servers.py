"""Hosts on this machine that answer as a webhook, GitHub or GitLab would."""

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Host:
    """What it was asked, and what it answers: `answers[method path]`, else status 404."""

    url: str = ""
    asked: list[tuple[str, str, Any]] = field(default_factory=list)
    """Method, path with its query, and body."""
    tokens: set[str] = field(default_factory=set)
    """What was given as Authorization or PRIVATE-TOKEN."""
    answers: dict[str, Any] = field(default_factory=dict)
    """JSON; a number is a status with nothing."""

    def named(self, method: str) -> list[tuple[str, Any]]:
        return [(path, body) for name, path, body in self.asked if name == method]


@contextlib.contextmanager
def host() -> Iterator[Host]:
    found = Host()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            found.asked.append((self.command, self.path, body))
            names = ("Authorization", "PRIVATE-TOKEN")
            found.tokens.update(filter(None, map(self.headers.get, names)))
            answer = found.answers.get(f"{self.command} {urlsplit(self.path).path}", 404)
            self.send_response(answer if isinstance(answer, int) else 200)
            if answer == 302:
                self.send_header("Location", f"{found.url}/elsewhere")
            text = b"" if isinstance(answer, int) else json.dumps(answer).encode()
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_PATCH = _answer

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
