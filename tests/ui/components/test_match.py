"""The map of similar heads: its text, and the choices it accepts from the browser."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ui.components.match import Likeness, head_name, parse_pair, still_matches

VALUES = np.linspace(0.4, 0.9, 6 * 2).reshape(6, 2)
SHOWN = Likeness(VALUES, ((2, 3), (1, 2)), ((4, 0), (5, 1)), ("A", "B <b>"))


def header(message: bytes) -> tuple[dict[str, object], bytes]:
    length = int.from_bytes(message[:4], "little")
    return json.loads(message[4 : 4 + length]), message[4 + length :]


def test_the_message_holds_every_similarity_and_every_head() -> None:
    said, body = header(still_matches(SHOWN, (4, 0)))
    np.testing.assert_array_equal(
        np.frombuffer(body, dtype="<f4").reshape(6, 2), VALUES.astype("f4")
    )
    assert said["rows"] == ["1.1", "1.2", "1.3", "2.1", "2.2", "2.3"]
    assert said["columns"] == ["1.1", "1.2"]
    assert said["heads"] == [3, 2]
    assert said["pairs"] == [[4, 0], [5, 1]]
    assert said["held"] == [4, 0]
    assert "2.3 and 1.2, 0.90" in str(said["label"])


def test_the_scale_spans_the_similarities_and_never_nothing() -> None:
    assert SHOWN.ends[0] <= VALUES.min() < VALUES.max() <= SHOWN.ends[1]
    same = Likeness(np.ones((2, 2)), ((1, 2), (1, 2)), ((0, 0), (1, 1)), ("A", "B"))
    assert same.ends == (0.0, 1.0)


def test_heads_are_counted_through_the_layers() -> None:
    assert [head_name(at, (2, 3)) for at in range(6)] == SHOWN.header()["rows"]
    with pytest.raises(ValueError, match="expected"):
        Likeness(VALUES.T, ((2, 3), (1, 2)), (), ("A", "B"))


@pytest.mark.parametrize(
    "reported",
    [None, 3, "12", [1], [1, 2, 3], [6, 0], [0, 2], [-1, 0], [True, 0], [0.0, 1], {"a": 1}],
)
def test_what_does_not_fit_is_not_taken(reported: object) -> None:
    assert parse_pair(reported, 6, 2) is None


def test_a_pair_that_fits_is() -> None:
    assert parse_pair([5, 1], 6, 2) == (5, 1)
