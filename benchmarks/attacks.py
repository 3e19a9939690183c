"""Attacks of one visitor on a public server, each in a process of its own."""

import logging
import multiprocessing
import os
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from threading import Thread, Timer
from typing import Any

from streamlit.proto.BackMsg_pb2 import BackMsg
from websockets.exceptions import WebSocketException
from websockets.frames import Frame, Opcode

from tests.pages.session import Session
from transformer.checkpoint.snapshots import read_history

ROOT = Path(__file__).resolve().parents[1]

#: The attacker's address.
_SOURCE = "127.0.0.2"

_CUT_OFF = (WebSocketException, OSError, AssertionError, EOFError)


def _message(**fields: Any) -> bytes:
    return BackMsg(**fields).SerializeToString()


def _rerun(*widgets: dict[str, Any]) -> bytes:
    return _message(rerun_script={"widget_states": {"widgets": widgets}})


def _file(session: Session, name: str) -> bytes:
    asked = {"session_id": session.name, "deferred_file": {"file_id": name}}
    return _message(backend_operation_request=asked)


def _read(session: Session) -> None:
    with suppress(WebSocketException):
        for _ in session.socket:
            pass


def _flood(message: bytes, kind: Opcode, session: Session, _: int) -> None:
    """Send a message as fast as the server takes it; one of CONT never ends."""
    session.open()
    Thread(target=_read, args=(session,), daemon=True).start()
    if kind is Opcode.CONT:
        session.socket.socket.sendall(Frame(Opcode.BINARY, b"", fin=False).serialize(mask=True))
    frame = Frame(kind, message, fin=kind is not Opcode.CONT).serialize(mask=True)
    while True:
        session.socket.socket.sendall(frame * max(1, 2**16 // len(frame)))


def _page(number: int, turn: int) -> dict[str, str]:
    return {"page": ("", "attention", "tokens")[(number + turn) % 3]}


def _long(number: int, turn: int) -> dict[str, str]:
    return {"beam": "10", "sentence": f"{number} dogs see {turn} red cats. " * 60}


def _moment(number: int, turn: int) -> dict[str, str]:
    folders = sorted(each.parent for each in ROOT.glob("checkpoints/*/snapshots.npz"))
    moments = read_history(folder := folders[number % len(folders)]).snapshots
    return {"checkpoint": f"{folder.name}@{moments[turn % len(moments)].updates}"}


def _views(
    view: Callable[[int, int], dict[str, str]], pause: float, reads: bool, session: Session, at: int
) -> None:
    """Open the views of this connection, one each turn, without waiting for any."""
    if reads:
        Thread(target=_read, args=(session,), daemon=True).start()
    for turn in count():
        session.begin(**view(at, turn))
        time.sleep(pause)


def _pictures(session: Session, _: int) -> None:
    session.open("attention")
    shown = [each.download_button for each in session.elements]
    (file,) = [each.deferred_file_id for each in shown if "PNG" in each.label]
    for _ in range(100):
        session.socket.send(_file(session, file))
    _read(session)


def _unknown_files(session: Session, number: int) -> None:
    session.open()
    _flood(_file(session, "nothing"), Opcode.BINARY, session, number)


def _half_open(session: Session, _: int) -> None:
    address = session.socket.remote_address
    sockets = [socket.create_connection(address, None, (_SOURCE, 0)) for _ in range(100)]
    for letter in "GET /_stcore/stream HTTP/1.1\r\nHost: " + "a" * 10_000:
        for each in sockets:
            each.sendall(letter.encode())
        time.sleep(1)


def _broken(session: Session, number: int) -> None:
    session.open()
    wrong = _rerun({"id": session.ids["Sentence"], "bool_value": True})
    while True:
        session.socket.send(("text", b"\xff" * 100, wrong)[number % 3])


#: Attacks by name: how many connections, and what each does with its number.
ATTACKS: dict[str, tuple[int, Callable[[Session, int], None]]] = {
    # parts of a message add up
    "big messages": (1, partial(_flood, _rerun(*[{}] * 1_000) * 12_000, Opcode.BINARY)),
    "unfinished messages": (8, partial(_flood, bytes(2**20), Opcode.CONT)),
    "heartbeats": (1, partial(_flood, _message(app_heartbeat=True), Opcode.BINARY)),
    "100 pictures": (1, _pictures),
    "scrubbing": (6, partial(_views, _moment, 0.3, True)),
    "unknown files": (1, _unknown_files),
    "half-open sockets": (5, _half_open),
    "slow readers": (20, partial(_views, _page, 0.2, False)),
    "a hoard of sessions": (150, partial(_views, _page, 60, True)),
    "pings": (1, partial(_flood, bytes(125), Opcode.PING)),
    "reruns": (1, partial(_flood, _rerun(), Opcode.BINARY)),
    "broken messages": (9, _broken),
    "abandoned sentences": (8, partial(_views, _long, 0.5, True)),
}


def attacker(name: str, address: str, seconds: float) -> tuple[Callable[[], Any], Any]:
    """Start a process that attacks for some seconds, and connects again where it is cut off.

    Returns: a function that begins the attack, and as `value` how many connections ended.
    """
    context = multiprocessing.get_context("spawn")
    begin, ended = context.Barrier(2), context.Value("i", 0)
    context.Process(target=_run, args=(name, address, seconds, begin, ended), daemon=True).start()
    return begin.wait, ended


def _run(name: str, address: str, seconds: float, begin: Any, ended: Any) -> None:
    connections, attack = ATTACKS[name]
    logging.disable()

    def again(number: int) -> None:
        while True:
            with suppress(*_CUT_OFF), Session(address, _SOURCE) as session:
                attack(session, number)
            with ended.get_lock():
                ended.value += 1
            time.sleep(0.2)

    begin.wait()
    Timer(seconds, os._exit, (0,)).start()
    with ThreadPoolExecutor(connections) as pool:
        list(pool.map(again, range(connections)))
