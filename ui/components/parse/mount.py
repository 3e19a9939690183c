"""The tree above its sentence, mounted in a page."""

from __future__ import annotations

from collections.abc import Callable

from ui.components.mount import component, listener, message
from ui.components.parse import Drawing, content, parse_chosen

_component = component("parse")


def parse_tree(
    drawing: Drawing, *, chosen: int, on_choose: Callable[[int], None], key: str
) -> None:
    """Show the tree.

    Args:
        chosen: index of a node.
        on_choose: called with a new one before the script runs again.
    """
    n_nodes = len(drawing.reading.nodes)
    _component(
        key=key,
        data=message(key, *content(drawing), chosen),
        on_held_change=listener(key, lambda said: parse_chosen(said, n_nodes), on_choose),
    )
