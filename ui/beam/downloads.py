"""The two downloads of the Beam search page: the tree, and the panel below it."""

from __future__ import annotations

from collections.abc import Callable

from figures.exhibit import Exhibit, file_stem
from ui.beam.choice import BeamChoice, choice
from ui.beam.exhibits import (
    branches_exhibit,
    branches_stem,
    finished_exhibit,
    node_exhibit,
    node_stem,
    tree_exhibit,
)
from ui.beam.panels import Search
from ui.core import url_state
from ui.core.view import View
from ui.export.download import download_button, source_of, trace_for


def offer_tree(search: Search) -> None:
    """Draw the tree's download button; the file includes dropped nodes if they are on screen."""
    shown = choice(search.tree)
    _button(search.view, tree_exhibit, "beam_tree_away", file_stem("search tree"), shown)


def offer_panel(search: Search) -> None:
    """Draw the download button of the panel below the tree, unless the panel is empty."""
    view, tree, stored = search.view, search.tree, BeamChoice.read()
    shown, cell = choice(tree), url_state.cell(*search.trace.cross.shape[:2])
    panel, look, units = stored.panel, stored.look, stored.units
    if panel == "node" and shown.a is not None:
        name = node_stem(tree.node(shown.a), cell)
        _button(view, node_exhibit, "beam_node_away", name, shown.a, cell, units)
    elif panel == "compare" and shown.a is not None and shown.b is not None:
        both = shown.a, shown.b
        name = branches_stem(look, cell)
        _button(view, branches_exhibit, "beam_pair_away", name, *both, look, cell, units)
    elif panel == "finished" and tree.leaves:
        _button(view, finished_exhibit, "beam_ended_away", file_stem("ended by alpha"))


def _button(
    view: View, exhibit: Callable[..., Exhibit], key: str, name: str, *shown: object
) -> None:
    # The closure must not hold the trace, which would stay in memory while the page is open.
    download_button(lambda: exhibit(trace_for(view), *shown, source_of(view)), key=key, name=name)
