"""A web server on this machine, for tests of fetching."""

from __future__ import annotations

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = bytes | Callable[[BaseHTTPRequestHandler], None]


class Site:
    """A web server: the answer of each path, and the paths requested."""

    def __init__(self) -> None:
        self.files: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.agents: set[str] = set()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                site.agents.add(self.headers["User-Agent"])
                answer = site.files.get(self.path)
                if answer is None:
                    self.send_error(404)
                elif callable(answer):
                    answer(self)
                else:
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(answer)))
                    self.end_headers()
                    self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.home = f"http://127.0.0.1:{self.server.server_port}"
