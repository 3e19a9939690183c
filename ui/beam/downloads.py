"""The two downloads on the page of the search tree: the tree, and the panel below it."""

from __future__ import annotations

from functools import partial

from figures.exhibit import file_stem
from ui.beam.choice import LOOK, PANEL, choice
from ui.beam.exhibits import (
    branches_exhibit,
    branches_stem,
    finished_exhibit,
    node_exhibit,
    node_stem,
    tree_exhibit,
)
from ui.beam.maps import held_cell
from ui.beam.panels import Search
from ui.core import url_state
from ui.core.units import UNITS
from ui.export.download import take_away


def take_tree_away(search: Search) -> None:
    """The tree, with what was dropped where it is shown."""
    make = partial(tree_exhibit, search.view, choice(search.tree))
    take_away(make, key="beam_tree_away", name=file_stem("search tree"))


def take_panel_away(search: Search) -> None:
    """What the panel below the tree shows; nothing where it shows nothing."""
    view, tree, panel = search.view, search.tree, url_state.get(PANEL)
    shown, cell, units = choice(tree), held_cell(search.trace), url_state.get(UNITS)
    if panel == "node" and shown.a is not None:
        node = partial(node_exhibit, view, shown.a, cell, units)
        name = node_stem(tree.node(shown.a), cell)
        take_away(node, key="beam_node_away", name=name)
    elif panel == "compare" and shown.a is not None and shown.b is not None:
        look = url_state.get(LOOK)
        pair = partial(branches_exhibit, view, shown.a, shown.b, look, cell, units)
        take_away(pair, key="beam_pair_away", name=branches_stem(look, cell))
    elif panel == "finished" and tree.leaves:
        ended = partial(finished_exhibit, view)
        take_away(ended, key="beam_ended_away", name=file_stem("ended by alpha"))
