"""The URL parameters of the page on what layers cost."""

from __future__ import annotations

from typing import get_args

from transformer.measures.paths import PathKind
from ui.core import url_state
from ui.core.url_state import Param

#: Views of the page, as in the URL, and on screen.
VIEWS = {"time": "Time and memory", "path": "Path length", "maps": "512 tokens here"}
VIEW: Param[str] = Param("cost", url_state.one_of(VIEWS), "time")

#: What the chart of layers shows.
QUANTITIES = {"time": "Time", "memory": "Memory", "counted": "Multiply-adds"}
QUANTITY: Param[str] = Param("quantity", url_state.one_of(QUANTITIES), "time")

WIDTH: Param[int | None] = Param("width", url_state.whole(1, 99_999), None)

#: Which measurement is shown; this server's, once there is one.
MEASURED = {"shipped": "Included", "here": "This server"}
SOURCE: Param[str] = Param("measured", url_state.one_of(MEASURED), "shipped")

KINDS: tuple[PathKind, ...] = get_args(PathKind)
KIND: Param[str] = Param("through", url_state.one_of(KINDS), KINDS[0])

LENGTH: Param[int] = Param("length", url_state.whole(4, 32), 16)
KERNEL: Param[int] = Param("kernel", url_state.whole(3, 7), 3)
WINDOW: Param[int] = Param("window", url_state.whole(2, 8), 4)
WALKED: Param[int | None] = Param("walked", url_state.whole(0, 99), None)


def _pair(raw: str) -> tuple[int, int]:
    first, _, second = raw.partition(".")
    one = url_state.whole(1, 32)
    return one(first), one(second)


#: Two positions, from 1.
BETWEEN: Param[tuple[int, int]] = Param(
    "between", _pair, (3, 14), lambda value: f"{value[0]}.{value[1]}"
)


def ends(n: int) -> tuple[int, int]:
    """Return the two positions among n, counted from 0, the second behind the first."""
    first, second = sorted(min(each, n) for each in url_state.get(BETWEEN))
    if first == second:
        first, second = (first, second + 1) if second < n else (first - 1, second)
    return first - 1, second - 1


def size_of(kind: str) -> int:
    """Return k or r of a kind of layer; 0 if it has neither."""
    if kind == "restricted":
        window = url_state.get(WINDOW)
        return window - window % 2
    kernel = url_state.get(KERNEL)
    return (kernel - 1 + kernel % 2) if kind in ("convolution", "dilated") else 0
