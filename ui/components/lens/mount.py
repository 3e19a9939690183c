"""The lens, mounted in a page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ui.components.lens import Map, Selection, parse_selection
from ui.components.mount import component, listener, message

_component = component("lens")


def attention_lens(
    shown: Map,
    *,
    key: str,
    max_height: int = 520,
    selected: Selection = ((), ()),
    on_select: Callable[[Selection], None] | None = None,
) -> None:
    """Show one map.

    Args:
        max_height: largest height of labels and cells together, in pixels.
        selected: tokens whose labels are marked.
        on_select: called with the selection before the script reruns, when a label is clicked; None
            makes labels inactive.
    """
    header = {**shown.header(max_height), "selectable": on_select is not None}
    if on_select is None:
        _component(key=key, data=message(key, header, shown.body(), [[], []]))
        return
    n, m = shown.weights.shape

    def parse(reported: Any) -> Selection | None:
        return parse_selection(reported, n, m)

    held = [list(side) for side in selected]
    data = message(key, header, shown.body(), held)
    _component(key=key, data=data, on_held_change=listener(key, parse, on_select))
