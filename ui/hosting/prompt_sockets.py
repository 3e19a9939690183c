"""Answers leave at once, not with the next ones.

Nagle's algorithm holds a small message back until the one before is acknowledged, and a browser
acknowledges up to 40 milliseconds late. asyncio switches it off for connections whose listening
socket names its protocol; Streamlit's does not (https://github.com/Kludex/uvicorn/issues/3149 is
the same fault). Connections inherit the option from the socket that listens.
"""

from __future__ import annotations

import socket
from pathlib import Path

#: Open files of this process, on Linux and macOS.
_OPEN = Path("/dev/fd")

_INTERNET = (socket.AF_INET, socket.AF_INET6)


def send_at_once() -> int:
    """Switch Nagle's algorithm off for the connections that this process accepts from now on.

    Returns: the number of listening sockets; 0 where open files are not listed (Windows).
    """
    numbers = [int(each.name) for each in _OPEN.iterdir()] if _OPEN.is_dir() else []
    return sum(map(_set, numbers))


def _set(number: int) -> bool:
    try:
        listening = socket.socket(fileno=number)
    except OSError:  # a file, or closed meanwhile
        return False
    try:
        listens = listening.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        if not listens or listening.family not in _INTERNET:
            return False
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return True
    finally:
        listening.detach()
