"""The scale of a difference, a difference in words, and two figures as one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figures.compare import LIMITS, beside, describe_difference, scale_limit
from figures.exhibit import Exhibit, Offline, Panel

QUERIES, KEYS = ("▁a", "▁b"), ("▁x", "<b>", "</s>")


@given(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=6))
def test_the_scale_holds_every_difference_and_no_smaller_one_would(values: list[float]) -> None:
    difference = np.array([values], dtype=np.float32)
    limit = scale_limit(difference)
    assert limit in LIMITS
    assert np.abs(difference).max() <= limit
    smaller = [each for each in LIMITS if each < limit]
    assert all(np.abs(difference).max() > each for each in smaller)
    assert scale_limit(-difference) == limit


def test_each_side_says_where_it_looks_more() -> None:
    difference = np.array([[0.5, -0.5, 0], [0, 0.125, -0.125]], dtype=np.float32)
    said = describe_difference(difference, QUERIES, KEYS)
    assert "A looks more by up to 0.50, from query 1 _a to key 1 _x" in said
    assert "B looks more by up to 0.50, from query 1 _a to key 2 <b>" in said
    assert "the same" in describe_difference(0 * difference, QUERIES, KEYS)
    with pytest.raises(ValueError, match="rows are queries"):
        describe_difference(difference.T, QUERIES, KEYS)


def figure(values: np.ndarray, title: str) -> Exhibit:
    return Exhibit(
        name="one", title=title, caption="A figure.",
        parts=(Panel("weights", values, QUERIES, KEYS),),
        arrays={"weights": values, "total": values.sum(axis=1)},
        snippet=f"import numpy as np\nweights = np.array({values.tolist()!r})\n"
        "rows = [weights[i] for i in range(len(weights))]\n"
        "total = np.array([row.sum() for row in rows])\n",
        offline=Offline("lens", b"message"), facts={"Attention": "layer 2, head 3"},
    )  # fmt: skip


def test_two_figures_become_one_whose_program_makes_the_arrays_of_both() -> None:
    values = np.arange(6).reshape(2, 3) / 8
    both = beside(
        "both", "Both", "Who.", {"A": figure(values, "one"), "B": figure(1 - values, "b")}
    )
    assert [part.title for part in both.parts] == ["A: weights", "B: weights"]
    assert [view.title for view in both.views] == ["A: one", "B: b"]
    assert both.caption == "Who. A: one (layer 2, head 3); B: b (layer 2, head 3)."
    assert set(both.arrays) == {"weights_a", "total_a", "weights_b", "total_b"}
    found: dict[str, np.ndarray] = {}
    exec(compile(both.snippet, "snippet", "exec"), found)  # noqa: S102 - our own program
    for name, wanted in both.arrays.items():
        np.testing.assert_allclose(found[name], wanted)
    one = beside("both", "Both", "Who.", {"B": figure(values, "b")})
    assert set(one.arrays) == {"weights_b", "total_b"}
    with pytest.raises(ValueError, match="no parts"):
        beside("both", "Both", "Who.", {})
