"""A limit on visitors at once, with a page that says so.

A visitor is an open websocket of Streamlit's. `HEADLIGHT_SESSIONS` sets the limit, 0 for none; a
public server has one of 200.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ui.core.public import whole_number

VARIABLE = "HEADLIGHT_SESSIONS"

#: Limit of a public server: a visitor takes about 13 MB, see docs/capacity.md.
_PUBLIC = 200

#: Seconds after which the page that says so looks again.
AGAIN = 20

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Headlight is full</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="{again}">
<style>
:root {{ color-scheme: light dark }}
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 34rem; margin: 20vh auto; padding: 0 1rem;
  background: light-dark(#fdfcf9, #0f0e0d); color: light-dark(#1d1c26, #efebe4) }}
h1 {{ font-size: 1.5rem; font-weight: 600 }}
</style></head>
<body><h1>All {most} places are taken</h1>
<p>This server shows Headlight to at most {most} visitors at once, so that it stays quick for each
of them. This page looks for a free place every {again} seconds; your link is kept.</p>
</body></html>
"""


class Visitors:
    """The visitors of this server. Thread-safe."""

    def __init__(self, most: int) -> None:
        """Args: most: limit; 0 for none."""
        self.most = most
        self.now = self.turned_away = 0
        self._lock = threading.Lock()

    @property
    def full(self) -> bool:
        """Whether there is no place left; asked for a page, not for a place."""
        return bool(self.most) and self.now >= self.most

    @contextmanager
    def place(self) -> Iterator[bool]:
        """Hold a place within, if there is one; yield whether there is."""
        with self._lock:
            given = not self.full
            self.now += given
            self.turned_away += not given
        try:
            yield given
        finally:
            with self._lock:
                self.now -= given

    def page(self) -> bytes:
        """Return the page for whom there is no place."""
        return _PAGE.format(most=self.most, again=AGAIN).encode()


def most_visitors() -> int:
    """Return the limit of visitors at once, 0 for none.

    Raises: `ValueError`, one line, if the variable holds no whole number.
    """
    return whole_number(VARIABLE, 0, _PUBLIC)


#: Of this server; its limit is read when it starts.
VISITORS = Visitors(0)
