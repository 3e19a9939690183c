"""Exhibits refuse content that no file could show."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figures.exhibit import Exhibit, Offline, Panel, Series, file_stem
from tests.figures.exhibits import exhibit, panel

PANEL = panel(2, 3)


@pytest.mark.parametrize(("values", "said"), [
    (np.ones((3, 2)), "shape"), (np.ones((2, 3, 1)), "shape"),
    (np.full((2, 3), 1.5), "outside 0 to 1"), (np.full((2, 3), -0.5), "outside 0 to 1"),
    (np.full((2, 3), np.inf), "infinite"), (np.full((2, 3), "a"), "real numbers"),
    (np.full((2, 3), 1j), "real numbers"),
])  # fmt: skip
def test_a_panel_says_what_is_wrong(values: np.ndarray, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Panel("p", values, ("a", "b"), ("c", "d", "e"))


def test_a_panel_may_miss_values_and_a_signed_one_may_leave_0_to_1() -> None:
    values = np.array([[np.nan, 1.0]])
    assert Panel("p", values, ("a",), ("b", "c")).values is values
    assert Panel("p", values * -9, ("a",), ("b", "c"), scale="diverging").values[0, 1] == -9


@pytest.mark.parametrize(("x", "lines", "said"), [
    (np.arange(3), {}, "at least one"), (np.arange(0), {"a": np.arange(0)}, "at least one"),
    (np.arange(3), {"a": np.arange(4)}, r"expected \(3,\)"),
    (np.ones((3, 1)), {"a": np.arange(3)}, "one axis"),
    (("a", "b"), {"a": np.array([1, np.inf])}, "infinite"),
])  # fmt: skip
def test_a_series_says_what_is_wrong(x: object, lines: dict[str, np.ndarray], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Series("s", x, lines)  # type: ignore[arg-type]


@given(st.lists(st.one_of(st.text(max_size=40), st.integers())))
def test_any_words_make_a_file_stem(words: list[object]) -> None:
    assert Exhibit(file_stem(*words), "t", "c", (PANEL,)).views == ()


def test_names_arrays_and_views() -> None:
    for name in ("", "../up", "a/b", "A", "a b", ".hidden", "a..b", "a.", "x" * 101):
        with pytest.raises(ValueError, match="stem"):
            Exhibit(name, "t", "c", (PANEL,))
    for name in ("part_1", "two words", "a-b", "1a"):  # arrays are named like variables
        with pytest.raises(ValueError, match="array name"):
            Exhibit("a", "t", "c", (PANEL,), arrays={name: np.ones(2)})
    with pytest.raises(ValueError, match="numbers or text"):
        Exhibit("a", "t", "c", (PANEL,), arrays={"a": np.array([{}], dtype=object)})
    view = Offline("lens", b"")
    assert exhibit(offline=view).views == (view,)
    assert exhibit(offline=(view, view)).views == (view, view)
