"""The lines, mounted in a page."""

from __future__ import annotations

from collections.abc import Callable

from transformer.measures.heads import Head
from ui.components.lines import Drawing, Pin, choice, parse_held
from ui.components.mount import component, listener, message

_component = component("lines")


def attention_lines(
    drawn: Drawing,
    *,
    pinned: Pin | None,
    on_change: Callable[[tuple[Head, ...], Pin | None], None],
    key: str,
    max_height: int = 320,
) -> None:
    """Show the lines and a legend that switches heads on and off.

    Args:
        pinned: the token whose lines alone are shown until another is hovered.
        on_change: called with the heads and the pinned token before the script reruns.
        max_height: largest height of the tokens in pixels; beyond it they scroll.
    """
    header = {**drawn.header, "max_height": max_height, "fixed": False}

    def take(reported: tuple[tuple[Head, ...], Pin | None]) -> None:
        on_change(*reported)

    data = message(key, header, drawn.body.tobytes(), choice(drawn, pinned))
    heard = listener(key, lambda reported: parse_held(reported, drawn.shape), take)
    _component(key=key, data=data, on_held_change=heard)
