"""Only a session that gave the token may import, however its requests arrive."""

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.pages.session import Session
from tests.servers import serving
from ui.frame import import_access

Rewrite = Callable[[bytes], bytes]


@contextmanager
def forwarder(address: str, rewrite: Rewrite) -> Iterator[str]:
    """A proxy that passes everything on, with the head of each request rewritten."""
    host, _, port = address.removeprefix("http://").partition(":")

    def pump(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                server = socket.create_connection((host, int(port)))
                ends.callback(client.close)
                ends.callback(server.close)
                head = b""
                while b"\r\n\r\n" not in head:
                    head += client.recv(4096)
                server.sendall(rewrite(head))
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=pump, args=pair, daemon=True).start()

    with ExitStack() as ends, socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)


def host(name: bytes) -> Rewrite:
    return lambda head: re.sub(rb"(?i)\r\nhost: [^\r]*", b"\r\nHost: " + name, head, count=1)


SHAPES: dict[str, Rewrite] = {
    "a browser of this machine": lambda head: head,
    "a forwarder, and a forged Host": host(b"localhost"),
    "a proxy that rewrites Host": host(b"127.0.0.1:8501"),
    "a proxy that says for whom": lambda head: host(b"demo.example.org")(head).replace(
        b"\r\n", b"\r\nX-Forwarded-For: 203.0.113.9\r\n", 1
    ),
}


def may_import(session: Session) -> bool:
    """Return whether the form is shown, rather than the request for the token."""
    shown = " ".join(str(element) for element in session.elements)
    assert ("Name of the new checkpoint" in shown) != ("the link that the server printed" in shown)
    return "Name of the new checkpoint" in shown


@pytest.mark.timeout(300)
def test_only_the_token_counts(tmp_path: Path, random_checkpoints: Path) -> None:
    log = tmp_path / "log"
    with ExitStack() as stack:
        server = stack.enter_context(serving(log, checkpoints=random_checkpoints, importing=False))
        (token,) = re.findall(r"/models\?token=([\w-]{32})\n", log.read_text())
        for shape, rewrite in SHAPES.items():
            address = stack.enter_context(forwarder(server.address, rewrite))
            with Session(address) as visitor:
                for given, right in (("x" * 32, False), (token, True), ("", True)):
                    visitor.open("models", token=given)  # once given, for as long as it lasts
                    assert may_import(visitor) == right, shape
                    assert not given or given.encode() not in visitor.received


def test_a_setting_decides_without_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in ("on", "ON", "1"):
        monkeypatch.setenv("HEADLIGHT_IMPORT", setting)
        assert import_access.refusal() is None
        assert import_access.invitation() is None
    for setting in ("off", "0", "no", "whatever"):
        monkeypatch.setenv("HEADLIGHT_IMPORT", setting)
        assert "switched off" in str(import_access.refusal())
        assert import_access.invitation() is None
        assert not import_access.admit(import_access.token())
