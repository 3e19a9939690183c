"""The browser makes the widgets of a popover only when it opens.

A value that one run gives such a widget is lost with the next, so every run has to set it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Block, Button, DownloadButton, Widget

ACTS = Button | DownloadButton
RunApp = Callable[..., AppTest]
SENTENCE = "The cat sat on the mat."

#: Links with settings that are no defaults, and how many controls they bring into popovers.
LINKS: dict[str, tuple[dict[str, str], int]] = {
    "": ({"prefix": "4.5"}, 3),
    "attention": (
        {"combine": "max", "map": "heads", "heads": "1.2-2.3", "display": "matrix",
         "find": "first", "find_in": "encoder_self-cross"}, 6,
    ),
    "compare": ({"topic": "maps", "units": "words", "dim": "on", "combine": "max"}, 4),
}  # fmt: skip


def in_popovers(block: Any, inside: bool = False) -> Iterator[Any]:
    """Widgets below a popover."""
    for child in block.children.values():
        if isinstance(child, Block):
            yield from in_popovers(child, inside or child.type == "popover")
        elif inside and isinstance(child, Widget) and not isinstance(child, ACTS):
            yield child


def opens_on(node: Any) -> Any:
    """Return what the browser would show for a widget made now, after this run alone."""
    proto = node.proto
    if node.type in ("button_group", "multiselect"):
        defaults = [node.options[index] for index in proto.default]
        return list(proto.raw_values) if proto.set_value else defaults
    if node.type == "selectbox":
        return proto.raw_value if proto.set_value else node.options[proto.default]
    return proto.value if proto.set_value else proto.default


def holds(node: Any) -> Any:
    """Return the widget's value on the server, written as `opens_on` does."""
    if node.type == "button_group":
        return list(node.formatted_values)
    if node.type == "selectbox":
        return node.options[node.index]
    return list(node.value) if node.type == "multiselect" else node.value


@pytest.mark.parametrize("page", LINKS)
def test_popovers_open_on_what_is_set_after_any_run(run_app: RunApp, page: str) -> None:
    link, count = LINKS[page]
    app = run_app(at=page, checkpoint="alpha", sentence=SENTENCE, **link)
    for _ in range(2):
        nodes = list(in_popovers(app._tree))
        assert len(nodes) == count
        for node in nodes:
            assert holds(node), f"{node.key} is set to nothing, which shows nothing"
            assert opens_on(node) == holds(node), node.key
        app.run()
        assert not app.exception
