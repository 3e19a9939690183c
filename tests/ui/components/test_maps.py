"""Lens, map of similar heads, and parts of a sum: the message is the maps."""

import numpy as np
import pytest

from tests.factories import make_trace
from tests.messages import unpack
from ui.components.lens import Map
from ui.components.match import Likeness, head_name
from ui.components.packing import attention_colours, signed_colours
from ui.components.parts import parts_component

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


def test_a_turned_map_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\(7, 5\)"):
        Map(TRACE.cross[0, 0].T, TRACE.tgt_tokens, TRACE.src_tokens, "x", "q", "k")


def test_a_difference_has_a_scale_of_its_own_and_says_who_looks_more() -> None:
    weights = np.array([[0.2, -0.2, 0], [0, 0, 0]], dtype=np.float32)
    axes = ("a", "b"), ("x", "y", "z")
    ends = ("B looks more", "A looks more")
    header = Map(weights, *axes, "A − B", "source", "source", signed=ends).lens().header
    assert (header["limit"], header["ends"]) == (0.25, ends)
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


def test_the_scale_spans_the_similarities_and_never_nothing() -> None:
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
    assert header["causal"] is True
    largest = max(np.abs(each[mask]).max() for each in (*PARTS.values(), total))
    assert header["limit"] == pytest.approx(largest)


@pytest.mark.parametrize(
    ("total", "tokens"), [(np.zeros((2, 3)), TOKENS), (PARTS["a"], TOKENS[:2])]
)
def test_shapes_have_to_agree(total: np.ndarray, tokens: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"\(2, 3\)|2 tokens"):
        parts_component(PARTS, total, ROWS, tokens, np.ones((3, 3), bool), label="", total_name="")
