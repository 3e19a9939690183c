"""A page's connection to its server."""

import re

from playwright.sync_api import Page, WebSocketRoute


class Wire:
    """Messages (`sent`, `arrived`), requests and script errors of a page; messages can be held."""

    def __init__(self, page: Page) -> None:
        self.holding = False
        self.sent: list[str | bytes] = []
        self.arrived: list[bytes] = []
        self.requests: list[str] = []
        self.wrong: list[str] = []
        self._waiting: list[str | bytes] = []
        page.route_web_socket(re.compile("_stcore/stream"), self._open)
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))

    def _open(self, route: WebSocketRoute) -> None:
        self._server = route.connect_to_server()

        def sent(message: str | bytes) -> None:
            self.sent.append(message)
            self._waiting.append(message)
            if not self.holding:
                self.release()

        def received(message: str | bytes) -> None:
            self.arrived.append(message if isinstance(message, bytes) else message.encode())
            route.send(message)

        route.on_message(sent)
        self._server.on_message(received)

    def counts(self) -> list[int]:
        return [len(self.sent), len(self.arrived), len(self.requests)]

    def bytes_arrived(self) -> int:
        return sum(map(len, self.arrived))

    def carries(self, part: bytes) -> int:
        return sum(part in message for message in self.arrived)

    def clear(self) -> None:
        for each in (self.sent, self.arrived, self.requests):
            each.clear()  # type: ignore[attr-defined]

    def hold(self) -> None:
        self.holding = True
        self.clear()

    def release(self) -> None:
        self.holding = False
        for message in self._waiting:
            self._server.send(message)
        self._waiting.clear()
