"""The two downloads of the Beam search page: the tree, and the panel below it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from figures.exhibit import Exhibit, file_stem
from ui.beam.choice import BeamChoice, choice
from ui.beam.exhibits import (
    branches_stem,
    length_penalty,
    node_stem,
    search_branches,
    search_node,
    search_tree,
)
from ui.beam.panels import Search
from ui.core import url_state
from ui.core.view import View
from ui.export.download import download_button, figure_for


def offer_tree(search: Search) -> None:
    """Draw the tree's download button; the file includes dropped nodes if they are on screen."""
    shown = asdict(choice(search.tree))
    _button(search.view, search_tree, "beam_tree_away", file_stem("search tree"), **shown)


def offer_panel(search: Search) -> None:
    """Draw the download button of the panel below the tree, unless the panel is empty."""
    view, tree, stored = search.view, search.tree, BeamChoice.read()
    shown, cell = choice(tree), url_state.cell(*search.trace.cross.shape[:2])
    place = {"layer": cell[0], "head": cell[1], "units": stored.units}
    if stored.panel == "node" and shown.a is not None:
        name = node_stem(tree.node(shown.a), cell)
        _button(view, search_node, "beam_node_away", name, node=shown.a, **place)
    elif stored.panel == "compare" and shown.a is not None and shown.b is not None:
        name = branches_stem(stored.look, cell)
        _button(view, search_branches, "beam_pair_away", name, a=shown.a, b=shown.b,
                kind=stored.look, **place)  # fmt: skip
    elif stored.panel == "finished" and tree.leaves:
        _button(view, length_penalty, "beam_ended_away", file_stem("ended by alpha"))


def _button(
    view: View, function: Callable[..., Exhibit], key: str, name: str, **shown: object
) -> None:
    download_button(lambda: figure_for(view, function, **shown), key=key, name=name)
