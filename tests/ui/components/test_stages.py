"""The stages: the record is sent, and choices are validated."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.factories import make_stages
from ui.components.stages import STAGES, Chosen, parse_choice, still_stages

NAMES = ("translation", "source")


def sent(data: bytes) -> tuple[dict[str, Any], np.ndarray]:
    length = int.from_bytes(data[:4], "little")
    return json.loads(data[4 : 4 + length]), np.frombuffer(data[4 + length :], "<f4")


def test_the_message_holds_every_number_in_order() -> None:
    stages = make_stages(m=7, d_model=12, d_k=5, d_v=3)
    header, numbers = sent(
        still_stages(stages, names=NAMES, difference=2e-8, chosen=Chosen(4, 1.0))
    )
    model, keys, d_k, d_v = header["sizes"]
    assert (model, keys, d_k, d_v) == (12, 7, 5, 3)
    expected = [
        stages.x_query, stages.x_keys, stages.q, stages.keys, stages.values, stages.dots,
        stages.scaled.weights, stages.w_o, stages.block_output,
    ]  # fmt: skip
    np.testing.assert_array_equal(numbers, np.concatenate([each.ravel() for each in expected]))
    assert header["held"] == {"key": 4, "divisor": 1.0}
    assert header["mask"] == stages.mask.tolist()
    assert header["difference"] == 2e-8
    assert [each["id"] for each in header["stages"]] == [
        "project", "compare", "dots", "divide", "mask", "softmax", "values", "output",
    ]  # fmt: skip
    assert all("section 3.2" in stage.section for stage in STAGES)


def test_the_slider_ends_where_the_model_has_its_middle() -> None:
    header, _ = sent(
        still_stages(make_stages(d_k=64), names=NAMES, difference=0.0, chosen=Chosen(0))
    )
    assert header["root"] == 8 and header["held"] == {"key": 0, "divisor": None}
    assert "variance" in header["bench"]["text"]


def test_only_the_decoder_has_a_picture_of_the_mask() -> None:
    for kind, said in (
        ("cross", "whole source"),
        ("encoder_self", "encoder"),
        ("decoder_self", ""),
    ):
        header, _ = sent(
            still_stages(make_stages(kind=kind), names=NAMES, difference=0.0, chosen=Chosen(0))  # type: ignore[arg-type]
        )
        assert said in header["unmasked"]
        assert bool(header["unmasked"]) == bool(said)


@pytest.mark.parametrize(
    ("reported", "chosen"),
    [
        ({"key": 0, "divisor": None}, Chosen(0)),
        ({"key": 6, "divisor": 1}, Chosen(6, 1.0)),
        ({"key": 6, "divisor": 3.25}, Chosen(6, 3.25)),
        ({"key": 7, "divisor": None}, None),
        ({"key": -1, "divisor": None}, None),
        ({"key": True, "divisor": None}, None),
        ({"key": 1.0, "divisor": None}, None),
        ({"key": 1, "divisor": True}, None),
        ({"key": 1, "divisor": 0.5}, None),
        ({"key": 1, "divisor": 1e9}, None),
        ({"key": 1, "divisor": float("nan")}, None),
        ({"key": 1, "divisor": "2"}, None),
        ({"key": 1}, Chosen(1)),
        ([1, True], None),
        ("x", None),
        (None, None),
    ],
)
def test_what_comes_back_is_checked(reported: Any, chosen: Chosen | None) -> None:
    assert parse_choice(reported, 7) == chosen


def test_tokens_are_text_of_bounded_length() -> None:
    tokens = ("<script>alert(1)</script>", "שלום", "x" * 200, "a\nb", "q\"'", "e\u0301", "</s>")
    header, _ = sent(
        still_stages(make_stages(tokens=tokens), names=NAMES, difference=0.0, chosen=Chosen(0))
    )
    assert header["keys"][3] == "a↵b"
    assert header["keys"][4] == "q\"'"
    assert max(map(len, header["keys"])) <= 20
