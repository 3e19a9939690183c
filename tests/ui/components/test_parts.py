"""The parts of a sum: the maps, the mask, and the common scale."""

from __future__ import annotations

import numpy as np
import pytest

from ui.components.parts import parts_component

TOKENS = ("▁a", "<b>", "</s>")
ROWS = ("a → b", "b → c", "c → d")
PARTS = {name: np.random.default_rng(0).standard_normal((3, 3)).astype("f4") for name in "ab"}


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
