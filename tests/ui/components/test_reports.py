"""Reports from the browser: valid ones are read, any other is refused."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.searched import searched
from tests.ui.components.test_grid import TABS
from tests.ui.components.test_messages import SHOWN
from tests.ui.components.test_packing import JSON
from transformer.measures.beam import beam_tree
from ui.components import lines, plan, stages
from ui.components.cut import Cut, Piece, cuts_component, pieces_component
from ui.components.grid import GridChoice, grid_component
from ui.components.lens import parse_selection
from ui.components.plan import PlanChoice
from ui.components.player import Move, PlayerPlace, parse_move
from ui.components.stages import Chosen
from ui.components.tree import TreeChoice, tree_component

Parse = Callable[[Any], Any] | None


TREE = beam_tree(searched(3, 3))
NODES = {"a": 1, "b": None, "dropped": False}
STEP = {"step": 3, "layer": None, "head": 2, "shifted": True, "kind": "cross"}
PLACE = PlayerPlace(3, None, 2, True)
LIMITS = plan.Limits(layers=3, sources=7, rows=5, heads=2)
BLOCK = {"layer": 2, "source": 6, "row": 4, "block": "encoder_ffn"}
LINK = {"page": "head", "stack": "decoder", "kind": "cross", "layer": 2, "head": 1}
NUMBERS = ([(0, 0), (9, 9)], [10, -1, 2.0])

#: Components: the parser, reports with what they mean, and reports that mean nothing.
REPORTS: dict[str, tuple[Parse, list[tuple[Any, Any]], list[Any]]] = {
    "lens": (
        lambda said: parse_selection(said, queries=5, keys=7),
        [([[0, 4], [6]], ((0, 4), (6,))), ([[3, 1, 3], []], ((1, 3), ()))],
        [[[5], []], [[], [7]], [[0]]],
    ),
    "lines": (
        lambda said: lines.parse_choice(said, (2, 3, 5, 7)),
        [({"heads": [[0, 0], [1, 2]], "pin": None}, (((0, 0), (1, 2)), None)),
         ({"heads": [], "pin": ["key", 6]}, ((), ("key", 6))),
         ({"heads": [[1, 1]], "pin": ["query", 4]}, (((1, 1),), ("query", 4)))],
        [{"heads": [[2, 0]], "pin": None}, {"heads": [[0, 0], [0, 0]], "pin": None}, {"pin": None},
         {"heads": [], "pin": ["query", 5]}, {"heads": [], "pin": ["row", 0]}],
    ),
    "grid": (
        grid_component(TABS, (0, 0), "cross").parse,
        [([None, 1, [[1, 2], [0, 0]], "cross"], GridChoice((None, 1), ((1, 2), (0, 0)), "cross")),
         ([3, None, [[3, 0]], "encoder"], GridChoice((3, None), ((3, 0),), "encoder"))],
        [[0, 0, [], "sideways"], [0, 0, [], None], [0, 0, []], [4, 0, [], "cross"],
         [0, 3, [], "cross"], [True, 1, [], "cross"], [0, 0, [[4, 0]], "cross"],
         [0, 0, [[0, 0], [0, 0]], "cross"], [0, 0, [[0, 0]] * 13, "cross"],
         [0, 0, [0, 1], "cross"], [0, 0, None, "cross"], [0, 0, [], "cross", 1]],
    ),
    "stages": (
        lambda said: stages.parse_choice(said, 7),
        [({"key": 0, "divisor": None}, Chosen(0)), ({"key": 6, "divisor": 3.25}, Chosen(6, 3.25))],
        [{"key": 7, "divisor": None},
         *({"key": 1, "divisor": each} for each in (True, 0.5, 1e9, float("nan"), "2"))],
    ),
    "tree": (
        tree_component(TREE, TreeChoice(None, None, False), "x").parse,
        [(NODES, TreeChoice(1, None, False)),
         ({**NODES, "a": None, "b": 0, "dropped": True}, TreeChoice(None, 0, True))],
        [NODES | wrong for wrong in ({"a": 10**6}, {"b": [2]}, {"dropped": 1})],
    ),
    "player": (
        parse_move,
        [(STEP, Move(PLACE)), (STEP | {"take": 0}, Move(PLACE, 0)),
         (STEP | {"take": "undo"}, Move(PLACE, "undo"))],
        [STEP | wrong for wrong in ({"shifted": "yes"}, {"step": 0}, {"step": True}, {"layer": 0},
                                    {"head": "1"}, {"kind": "encoder_self"}, {"take": "61"},
                                    {"take": True})],
    ),
    "plan": (
        lambda said: plan.parse_choice(said, LIMITS), [(BLOCK, PlanChoice(2, 6, 4, "encoder_ffn"))],
        [BLOCK | wrong for wrong in ({"layer": 3}, {"source": -1}, {"row": True}, {"block": "x"},
                                     {"layer": "1"})],
    ),
    "plan's links": (
        lambda said: plan.parse_opened(said, LIMITS),
        [(LINK, plan.Opened("head", "decoder", "cross", 2, 1))],
        [LINK | wrong for wrong in ({"page": "app"}, {"kind": "x"}, {"head": 2}, {"layer": None},
                                    {"stack": 0})],
    ),
    "match": (SHOWN.component((4, 0)).parse, [([5, 1], (5, 1))], [[6, 0], [0, 2]]),
    "pieces": (
        pieces_component([Piece("a", 9, 0), Piece("b", 2, 1)], [], chosen=2, label="x").parse,
        *NUMBERS,
    ),
    "cuts": (
        cuts_component([Cut("0.1", 0.5, (("a", "b"),))] * 10, chosen=0, label="x").parse, *NUMBERS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REPORTS)
@given(anything=JSON | st.floats())
def test_what_the_browser_reports_is_checked(name: str, anything: Any) -> None:
    parse, right, wrong = REPORTS[name]
    assert parse is not None
    for said, choice in right:
        assert parse(said) == choice
    for said in (*wrong, None, True, "3", [1], {"kind": "cross"}):
        assert parse(said) is None
    parse(anything)  # does not stop the page
