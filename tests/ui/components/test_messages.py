import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figures.outcomes import OUTCOMES
from figures.palette import CHROME, THEMES, contrast
from tests.factories import make_stages, make_trace
from tests.forks import ROOT
from tests.messages import unpack
from tests.searched import searched
from tests.ui.components.test_grid import TABS
from tests.ui.components.test_packing import JSON
from transformer.measures.beam import Tree, beam_tree
from transformer.trace.whole import record_whole
from transformer.translator import Translator
from transformer.types import ATTENTION_KINDS
from ui.components import lines, plan, stages
from ui.components.cut import Cut, Piece, cuts_component, pieces_component
from ui.components.grid import GridChoice, grid_component
from ui.components.lens import Map, parse_selection
from ui.components.match import Likeness, head_name
from ui.components.packing import Component, attention_colours, signed_colours
from ui.components.parts import parts_component
from ui.components.plan import PlanChoice
from ui.components.player import Move, PlayerPlace, parse_move
from ui.components.stages import WORDS, Chosen, stages_component
from ui.components.strip import Column, beside_component, strip_component
from ui.components.tree import TreeChoice, branch_colours, tree_component

TRACE = make_trace(S=7, T=5)
VALUES = np.linspace(0.4, 0.9, 6 * 2).reshape(6, 2)
SHOWN = Likeness(VALUES, ((2, 3), (1, 2)), ((4, 0), (5, 1)), ("A", "B <b>"))
TOKENS = ("▁a", "<b>", "</s>")
ROWS = ("a → b", "b → c", "c → d")
PARTS = {name: np.random.default_rng(0).standard_normal((3, 3)).astype("f4") for name in "ab"}


def test_the_message_is_the_map_row_by_row() -> None:
    weights = TRACE.cross[1, 2]
    shown = Map(weights, TRACE.tgt_tokens, TRACE.src_tokens, "Layer 2", "translation", "source")
    header, body = unpack(shown.lens().message())
    np.testing.assert_array_equal(np.frombuffer(body, dtype="<f4").reshape(5, 7), weights)
    assert (len(header["query_tokens"]), len(header["key_tokens"])) == (5, 7)
    assert not header["selectable"]
    chosen = shown.lens(selected=((1,), (2, 3)))
    assert chosen.header["selectable"] and chosen.choice == [[1], [2, 3]]
    assert chosen.parse is not None and chosen.parse([[4], []]) == ((4,), ())
    with pytest.raises(ValueError, match=r"\(7, 5\)"):
        Map(TRACE.cross[0, 0].T, TRACE.tgt_tokens, TRACE.src_tokens, "x", "q", "k")


def test_a_difference_has_a_scale_of_its_own_and_says_who_looks_more() -> None:
    weights = np.array([[0.2, -0.2, 0], [0, 0, 0]], dtype=np.float32)
    axes = ("a", "b"), ("x", "y", "z")
    ends = ("B looks more", "A looks more")
    header = Map(weights, *axes, "A − B", "source", "source", signed=ends).lens().header
    assert (header["limit"], header["range"], header["ends"]) == (0.25, [0.25, 0.25], ends)
    low = Map(np.minimum(weights, 0.01), *axes, "x", "q", "k", signed=ends).lens().header
    assert low["range"] == [0.25, 0]  # a side that hardly occurs is not on the scale
    assert "A looks more by up to 0.20" in header["label"]
    assert header["colours"] == signed_colours()
    plain = Map(np.abs(weights), *axes, "A", "source", "source").lens().header
    assert plain["limit"] == 0 and plain["colours"] == attention_colours()


def test_the_message_holds_every_similarity_and_every_head() -> None:
    shown = SHOWN.component((4, 0))
    sent = np.frombuffer(shown.body, dtype="<f4").reshape(6, 2)
    np.testing.assert_array_equal(sent, VALUES.astype("f4"))
    header = shown.header
    assert header["rows"] == [head_name(at, (2, 3)) for at in range(6)]
    assert header["rows"] == ["1.1", "1.2", "1.3", "2.1", "2.2", "2.3"]
    assert (header["columns"], header["heads"]) == (["1.1", "1.2"], [3, 2])
    assert (header["pairs"], shown.choice) == ([[4, 0], [5, 1]], [4, 0])
    assert "2.3 and 1.2, 0.90" in header["label"]
    with pytest.raises(ValueError, match="expected"):
        Likeness(VALUES.T, ((2, 3), (1, 2)), (), ("A", "B"))
    # The scale spans them, and never nothing.
    assert SHOWN.ends[0] <= VALUES.min() < VALUES.max() <= SHOWN.ends[1]
    same = Likeness(np.ones((2, 2)), ((1, 2), (1, 2)), ((0, 0), (1, 1)), ("A", "B"))
    assert same.ends == (0.0, 1.0)


def test_the_message_holds_the_maps_and_the_mask() -> None:
    mask = np.tril(np.ones((3, 3), dtype=bool))
    total = PARTS["a"] + PARTS["b"]
    total[0, 2] = 1e6  # masked: no scale counts it
    shown = parts_component(PARTS, total, ROWS, TOKENS, mask, label="Logits", total_name="sum")
    header, body = shown.header, shown.body
    numbers = np.frombuffer(body[: 4 * 27], "<f4").reshape(3, 3, 3)
    np.testing.assert_array_equal(numbers, [*PARTS.values(), total])
    np.testing.assert_array_equal(np.frombuffer(body[4 * 27 :], "u1").reshape(3, 3), mask)
    assert header["names"] == ["a", "b", "sum"]
    assert (header["tokens"][1], header["rows"]) == ("<b>", list(ROWS))
    largest = max(np.abs(each[mask]).max() for each in (*PARTS.values(), total))
    assert header["limit"] == pytest.approx(largest)
    for sums, tokens, why in ((total[:2], TOKENS, r"\(2, 3\)"), (total, TOKENS[:2], "2 tokens")):
        with pytest.raises(ValueError, match=why):
            parts_component(PARTS, sums, ROWS, tokens, mask, label="", total_name="")


STRANGE = ("▁<script>", "\u202eab", "x" * 200)


def test_pieces_are_shown_and_kept_whole() -> None:
    pieces = [Piece("x" * 200, 3, 1, "unknown"), Piece("\n", 9, 1), Piece("שלום", 8, 2)]
    shown = pieces_component(pieces, [("\u202e", ""), ("ﬁ", "fi")], chosen=3, label="x")
    sent = shown.header["pieces"]
    assert [each["id"] for each in sent] == [3, 9, 8]
    assert len(sent[0]["piece"]) <= 28 and sent[0]["whole"] == "x" * 200
    assert [each["piece"] for each in sent[1:]] == ["↵", "\u2068שלום\u2069"]
    assert shown.header["changed"] == [["[U+202E]", ""], ["ﬁ", "fi"]]
    assert shown.choice == 3 and set(shown.header["tints"]) == {"light", "dark"}


@pytest.mark.parametrize("tokens", [
    strip_component(STRANGE, (), label="A").header["tokens"],
    beside_component([Column(STRANGE, (), (), "", differs=False)], 0).header["columns"][0][0],
    Map(np.eye(3), STRANGE, ROWS, "x", "q", "k").lens().header["query_tokens"],
    parts_component(PARTS, PARTS["a"], ROWS, STRANGE, np.eye(3, dtype=bool), label="",
                    total_name="").header["tokens"],
    stages_component(make_stages(m=3, tokens=STRANGE), names=("q", "k"), difference=0.0,
                     chosen=Chosen(0)).header["keys"],
])  # fmt: skip
def test_tokens_travel_as_short_visible_text(tokens: list[str]) -> None:
    assert tokens[0] == "▁<script>"
    assert "\u202e" not in tokens[1]  # direction marks are spelled out
    assert len(tokens[2]) < 40


def test_tokens_come_with_their_numbers_and_marks() -> None:
    shown = strip_component(STRANGE, (-0.5, -math.inf, 0.0), (1,), label="A", parts_at=1)
    assert shown.header["log_probs"] == [-0.5, -1e6, 0.0]  # JSON has no infinity
    assert shown.header["differing"] == [False, True, False]
    assert shown.header["parting"] == 1
    # A text that nobody predicted has no numbers.
    header = strip_component(STRANGE, (), label="A").header
    assert (header["log_probs"], header["parting"]) == ([], -1)
    with pytest.raises(ValueError, match="2 log-probabilities for 3 tokens"):
        strip_component(STRANGE, (0.0, 0.0), label="A")
    # Two sentences, word by word.
    column = Column(STRANGE[:2], (-0.5, -1), (0.25, -math.inf), STRANGE[2], differs=True)
    ((_, _, changes, other, _),) = beside_component([column], -2.5).header["columns"]
    assert len(other) < 40 and changes == [0.25, -1e6]


FIRST = Chosen(0)


def component(chosen: Chosen = FIRST, **more: Any) -> Component[Chosen]:
    names = ("translation", "source")
    return stages_component(make_stages(**more), names=names, difference=2e-8, chosen=chosen)


def test_the_message_holds_every_number_in_order() -> None:
    sizes = {"m": 7, "d_model": 12, "d_k": 5, "d_v": 3}
    stages, shown = make_stages(**sizes), component(Chosen(4, 1.0), **sizes)
    header = shown.header
    assert header["sizes"] == [12, 7, 5, 3]
    expected = [
        stages.x_query, stages.x_keys, stages.q, stages.keys, stages.values, stages.dots,
        stages.scaled.weights, stages.w_o, stages.block_output,
    ]  # fmt: skip
    numbers = np.frombuffer(shown.body, "<f4")
    np.testing.assert_array_equal(numbers, np.concatenate([each.ravel() for each in expected]))
    assert shown.choice == {"key": 4, "divisor": 1.0}
    assert (header["mask"], header["difference"]) == (stages.mask.tolist(), 2e-8)
    assert [each["id"] for each in header["stages"]] == [
        "project", "compare", "dots", "divide", "mask", "softmax", "values", "output",
    ]  # fmt: skip
    assert all("section 3.2" in stage["section"] for stage in WORDS["stage"])
    # The model's own divisor is no choice, and only the decoder has a picture of the mask.
    shown = component(d_k=64)
    assert shown.header["root"] == 8 and shown.choice == {"key": 0, "divisor": None}
    for kind in ATTENTION_KINDS:
        assert bool(component(kind=kind).header["unmasked"]) == (kind != "decoder_self")


@pytest.fixture(scope="module")
def tree() -> Tree:
    return beam_tree(searched(3, 3))


def test_the_message_holds_every_node(tree: Tree) -> None:
    shown = tree_component(tree, TreeChoice(2, None, True), "x", single=True)
    header = shown.header
    assert header["single"]
    assert shown.choice == {"a": 2, "b": None, "dropped": True}
    assert header["beam"] == 3
    other = searched(3, 3)
    other = replace(other, tgt_tokens=("<pad>", *other.tgt_tokens[1:]))
    marian = tree_component(beam_tree(other), TreeChoice(2, None, True), "x")
    assert marian.header["root"] == "<pad>"
    for node in tree.nodes:
        i = node.index
        assert header["parent"][i] == node.parent
        assert (header["step"][i], header["rank"][i]) == (node.step, node.rank)
        assert header["texts"][header["text"][i]].strip("\u2068\u2069") == node.token
        assert header["total"][i] == pytest.approx(node.total, abs=1e-4)
        assert header["score"][i] == pytest.approx(node.score, abs=1e-4)
        assert header["log_prob"][i] == pytest.approx(node.log_prob, abs=1e-4)
        assert header["outcomes"][header["kind"][i]] == OUTCOMES[node.outcome]
        line = header["line"][i]
        assert (line == 2) == (i in tree.winner)
        assert (line > 0) == (i in tree.alive)


def test_kinds_that_the_script_counts_on() -> None:
    # draw.js: kinds up to 3 are in the beam, 2 and 3 end a path.
    assert list(OUTCOMES)[:4] == ["continued", "exhausted", "finished", "cut"]


def test_sixty_steps_of_a_beam_of_ten_are_a_message_of_modest_size() -> None:
    wide = beam_tree(searched(0, 10, max_length=60, end=-30.0))
    assert len(wide.steps) == 60 and len(wide.nodes) > 4_000
    assert len(tree_component(wide, TreeChoice(None, None, False), "").message()) < 400_000


@pytest.mark.parametrize("theme", THEMES)
def test_a_and_b_can_be_seen_and_told_from_the_winner(theme: str) -> None:
    a, b = branch_colours(theme)
    chrome = CHROME[theme]  # type: ignore[index]
    assert len({a, b, chrome.accent}) == 3
    for colour in (a, b):
        assert contrast(colour, chrome.surface) >= 3


Parse = Callable[[Any], Any] | None


TREE = beam_tree(searched(3, 3))
NODES = {"a": 1, "b": None, "dropped": False}
STEP = {"step": 3, "layer": None, "head": 2, "shifted": True, "kind": "cross"}
PLACE = PlayerPlace(3, None, 2, True)
BLOCK = {"source": 6, "row": 4, "focus": "decoder.2.cross.3"}
CHANGE = {"what": "switch", "kind": "cross", "layer": 1, "head": 2, "query": 0, "key": 6}
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
         *[(STEP | {"take": word}, Move(PLACE, word)) for word in ("undo", "switch")]],
        [STEP | wrong for wrong in ({"shifted": "yes"}, {"step": 0}, {"step": True}, {"layer": 0},
                                    {"head": "1"}, {"kind": "encoder_self"}, {"take": "61"},
                                    {"take": True})],
    ),
    "plan": (
        lambda said: plan.parse_choice(said, TRACE),
        [(BLOCK, PlanChoice(6, 4, "decoder.2.cross.3")),
         *((BLOCK | {"focus": focus}, PlanChoice(6, 4, focus)) for focus in
           ("", "encoder.1", "encoder.1.self_norm", "decoder.2.ffn", "softmax",
            "decoder.embedding"))],
        [BLOCK | wrong for wrong in (
            {"source": -1}, {"row": True}, {"row": 5}, {"focus": "decoder.3"}, {"focus": None},
            {"focus": "encoder.4.self"}, {"focus": "encoder.1.cross"}, {"focus": "decoder.0"},
            {"focus": "decoder.1.cross.4"}, {"focus": "encoder.1.cross_norm"}, {"focus": "x"},
            {"focus": "decoder.1.ffn.1"}, {"focus": "softmax.1"})],
    ),
    "plan's changes": (
        lambda said: plan.parse_touched(said, TRACE),
        [(CHANGE, plan.Touched("switch", "cross", 1, 2, 0, 6)),
         (CHANGE | {"what": "take", "query": 4, "key": int(TRACE.top_ids[4, 1])},
          plan.Touched("take", "cross", 1, 2, 4, int(TRACE.top_ids[4, 1])))],
        [CHANGE | wrong for wrong in ({"what": "add"}, {"layer": 2}, {"head": 3}, {"query": 5},
                                      {"key": 7}, {"key": None}, {"what": "take", "key": 99999},
                                      {"what": "take", "query": 5}, {"what": "take", "key": True})],
    ),
    "plan's links": (
        lambda said: plan.parse_opened(said, TRACE),
        [(LINK, plan.Opened("head", "decoder", "cross", 2, 1))],
        [LINK | wrong for wrong in ({"page": "app"}, {"kind": "x"}, {"head": 3}, {"layer": None},
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


def test_thirty_tokens_of_the_everyday_model_are_less_than_a_megabyte_and_a_half() -> None:
    model = Translator.load(ROOT / "checkpoints/everyday-en-de")
    trace = model.trace([5] * 29, [6] * 29)
    assert len(trace.src_ids) == len(trace.tgt_ids) == 30
    whole = record_whole(model.model, model.tokenizer.target, trace)
    shown = plan.plan_component(whole, trace, model.config, PlanChoice(3, 4, "decoder.4"))
    assert len(shown.message()) < 1_500_000
