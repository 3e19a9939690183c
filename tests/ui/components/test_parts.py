from __future__ import annotations

import json

import numpy as np
import pytest

from ui.components.parts import parts_message

TOKENS = ("▁a", "<b>", "</s>")

ROWS = ("a → b", "b → c", "c → d")


def maps(n: int = 3) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal((n, n)).astype(np.float32) for name in ("one", "two")}


def test_the_message_holds_the_maps_and_the_mask() -> None:
    parts, mask = maps(), np.tril(np.ones((3, 3), dtype=bool))
    total = parts["one"] + parts["two"]
    total[0, 2] = 1e6  # masked: no scale counts it
    data = parts_message(parts, total, ROWS, TOKENS, mask, label="Logits", total_name="sum")
    length = int.from_bytes(data[:4], "little")
    header, body = json.loads(data[4 : 4 + length]), data[4 + length :]
    numbers = np.frombuffer(body[: 4 * 27], "<f4").reshape(3, 3, 3)
    np.testing.assert_array_equal(numbers, [parts["one"], parts["two"], total])
    np.testing.assert_array_equal(np.frombuffer(body[4 * 27 :], "u1").reshape(3, 3), mask)
    assert header["names"] == ["one", "two", "sum"]
    assert header["tokens"][1] == "<b>"
    assert header["rows"] == ["a → b", "b → c", "c → d"]
    assert header["causal"] is True
    shown = max(np.abs(each[mask]).max() for each in (*parts.values(), total))
    assert header["limit"] == pytest.approx(shown)


def test_shapes_have_to_agree() -> None:
    parts, mask = maps(), np.ones((3, 3), dtype=bool)
    with pytest.raises(ValueError, match=r"\(2, 3\)"):
        parts_message(parts, np.zeros((2, 3)), ROWS, TOKENS, mask, label="", total_name="")
    with pytest.raises(ValueError, match="2 tokens"):
        parts_message(parts, parts["one"], ROWS, TOKENS[:2], mask, label="", total_name="")
