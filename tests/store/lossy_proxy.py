"""An HTTP proxy that loses requests and answers on purpose, between a client and one server."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass
class Rule:
    """What befalls the next ``times`` requests of a method whose address has ``path`` in it.

    The mishap is "lose request", "lose answer", "cut answer", "hold" (until the proxy is closed), "drop" and
    the name of a header, or "answer" with a status and a code. ``first`` is called before it comes.
    """

    mishap: str
    method: str
    path: str
    times: int
    first: Callable[[], object] | None


@dataclass
class LossyProxy:
    """Forwards to 127.0.0.1:``target`` what no rule concerns. ``seen`` is what was asked."""

    target: int
    rules: list[Rule] = field(default_factory=list)
    seen: list[tuple[str, str]] = field(default_factory=list)
    leave_asked: list[str] = field(default_factory=list)  # addresses of requests with "Expect: 100-continue"
    rewrite: tuple[bytes, bytes] = (b"", b"")
    closing: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def port(self) -> int:
        return self._server.server_port

    def next(
        self,
        mishap: str,
        method: str,
        path: str = "",
        *,
        times: int = 1,
        first: Callable[[], object] | None = None,
    ) -> None:
        self.rules.append(Rule(mishap, method, path, times, first))

    def asked(self, method: str, path: str = "") -> int:
        """How many requests there were."""
        return sum(verb == method and path in address for verb, address in self.seen)

    def mishap(self, method: str, address: str) -> str:
        self.seen.append((method, address))
        for rule in self.rules:
            if rule.times > 0 and rule.method == method and rule.path in address:
                rule.times -= 1
                if rule.first is not None:
                    rule.first()
                return rule.mishap
        return ""


class _Handler(BaseHTTPRequestHandler):
    owner: LossyProxy
    protocol_version = "HTTP/1.1"  # answers "Expect: 100-continue"

    def log_message(self, *said: Any) -> None:
        """Say nothing."""

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        mishap = self.owner.mishap(self.command, self.path)
        if self.headers.get("Expect"):
            self.owner.leave_asked.append(self.path)
        if mishap == "lose request":
            return self._hang_up()
        if mishap.startswith("answer "):
            _, status, code = mishap.split()
            content = f"<Error><Code>{code}</Code><Message>none</Message></Error>".encode()
            return self._answer(int(status), [("Content-Length", str(len(content)))], content)
        dropped = {"expect", mishap.removeprefix("drop ").lower()}
        headers = {key: value for key, value in self.headers.items() if key.lower() not in dropped}
        upstream = http.client.HTTPConnection("127.0.0.1", self.owner.target, timeout=30)
        try:
            upstream.request(self.command, self.path, body=body, headers=headers)
            answer = upstream.getresponse()
            content = answer.read()
        finally:
            upstream.close()
        if mishap == "hold":
            self.owner.closing.wait()
        if mishap in ("lose answer", "hold"):
            return self._hang_up()
        if self.owner.rewrite[0]:
            content = content.replace(*self.owner.rewrite)
        kept = [(key, value) for key, value in answer.getheaders() if key.lower() not in _HOP]
        shown = len(content) // 2 if mishap == "cut answer" else len(content)
        return self._answer(answer.status, kept, content[:shown])

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _forward  # noqa: N815 - http.server's names

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.close_connection = True
        with suppress(OSError):  # a client that gave up
            self.send_response(status)
            self.send_header("Connection", "close")
            for key, value in headers:
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(content)

    def _hang_up(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


_HOP = {"server", "date", "connection", "transfer-encoding"}
