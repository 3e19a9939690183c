"""The stages: the record is sent."""

from typing import Any

import numpy as np

from tests.factories import make_stages
from transformer.types import ATTENTION_KINDS
from ui.components.packing import Component
from ui.components.stages import WORDS, Chosen, stages_component

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
        "bench",
        "project", "compare", "dots", "divide", "mask", "softmax", "values", "output",
    ]  # fmt: skip
    assert all("section 3.2" in stage["section"] for stage in WORDS["stage"])


def test_the_model_s_own_divisor_is_not_a_choice_and_tokens_are_bounded() -> None:
    tokens = ("<script>alert(1)</script>", "שלום", "x" * 200, "a\nb", "q\"'", "e\u0301", "</s>")
    shown = component(d_k=64, tokens=tokens)
    assert shown.header["root"] == 8 and shown.choice == {"key": 0, "divisor": None}
    keys = shown.header["keys"]
    assert keys[3:5] == ["a↵b", "q\"'"] and max(map(len, keys)) <= 20


def test_only_the_decoder_has_a_picture_of_the_mask() -> None:
    for kind in ATTENTION_KINDS:
        assert bool(component(kind=kind).header["unmasked"]) == (kind != "decoder_self")
