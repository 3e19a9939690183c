"""The map of similar heads: its message and its scale."""

from __future__ import annotations

import numpy as np
import pytest

from ui.components.match import Likeness, head_name

VALUES = np.linspace(0.4, 0.9, 6 * 2).reshape(6, 2)
SHOWN = Likeness(VALUES, ((2, 3), (1, 2)), ((4, 0), (5, 1)), ("A", "B <b>"))


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
