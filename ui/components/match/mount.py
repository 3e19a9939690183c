"""The similarities of heads, mounted in a page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ui.components.match import HeadPair, Likeness, parse_pair
from ui.components.mount import component, listener, message

_component = component("match")


def head_matches(
    shown: Likeness, *, chosen: HeadPair, on_choose: Callable[[HeadPair], None], key: str
) -> None:
    """Show the similarities and report the chosen pair.

    Args:
        chosen: the pair to outline; none if outside the matrix.
        on_choose: called with the new pair before the script reruns.
    """
    n, m = shown.values.shape

    def parse(reported: Any) -> HeadPair | None:
        return parse_pair(reported, n, m)

    data = message(key, shown.header(), shown.body(), list(chosen))
    _component(key=key, data=data, on_held_change=listener(key, parse, on_choose))
