"""Small answers do not wait for the acknowledgement of the ones before."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from ui.hosting import prompt_sockets
from ui.hosting.prompt_sockets import send_at_once


def prompt(connection: socket.socket) -> bool:
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_what_is_accepted_sends_at_once(family: socket.AddressFamily) -> None:
    address = "::1" if family is socket.AF_INET6 else "127.0.0.1"
    with socket.socket(family) as listening, socket.socket(family) as visitor:
        try:
            listening.bind((address, 0))
        except OSError:
            pytest.skip(f"no {address} on this machine")
        listening.listen()
        assert not prompt(listening)
        assert send_at_once() >= 1
        visitor.connect(listening.getsockname())
        accepted, _ = listening.accept()
        with accepted:
            assert prompt(accepted)
            assert not prompt(visitor)


def test_other_open_files_stay_as_they_are(tmp_path: Path) -> None:
    before, after = socket.socketpair()
    with before, after, socket.socket() as idle, (tmp_path / "file").open("w") as file:
        send_at_once()
        assert not prompt(idle)
        before.sendall(b"x")
        assert after.recv(1) == b"x"
        os.fstat(file.fileno())  # still open


def test_where_open_files_are_not_listed_nothing_is_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(prompt_sockets, "_OPEN", tmp_path / "none")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        assert send_at_once() == 0
        assert not prompt(listening)
