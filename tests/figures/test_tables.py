"""Exhibits refuse what no file could show; CSV and NPZ hold the numbers, none of which runs."""

import csv
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figures import tables
from figures.exhibit import Exhibit, Offline, Panel, Series, file_stem
from figures.tables import TooLargeError, guard, n_numbers, to_csv, to_npz, unguard
from tests.figures.exhibits import HOSTILE, bars, exhibit, hostile_panel, panel, series


def rows_of(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode("utf-8"), newline="")))


@pytest.mark.parametrize("part", [panel(3, 4), panel(4, 3, signed=True), series(), bars()])
def test_csv_reads_back_to_the_same_numbers(part: Panel | Series) -> None:
    rows = rows_of(to_csv(exhibit(part)))
    values = part.values if isinstance(part, Panel) else np.stack(list(part.lines.values()))
    assert list(rows[0]) == ["panel", "row", "row_token", "column", "column_token", "value"]
    assert len(rows) == values.size == n_numbers(exhibit(part))
    back = np.full_like(values, 7)
    for row in rows:
        assert row["panel"] == part.title
        value = float(row["value"]) if row["value"] else np.nan
        back[int(row["row"]) - 1, int(row["column"]) - 1] = value
    np.testing.assert_array_equal(back, values)
    names = (part.rows, part.columns) if isinstance(part, Panel) else (part.lines, part.x)
    expected = [(row, str(column)) for row in names[0] for column in names[1]]
    found = [(unguard(row["row_token"]), unguard(row["column_token"])) for row in rows]
    assert found == expected and to_csv(exhibit(part)) == to_csv(exhibit(part))


def test_hostile_tokens_come_back_from_the_csv_and_none_is_a_formula() -> None:
    rows = rows_of(to_csv(exhibit(hostile_panel())))
    tokens = [row["column_token"] for row in rows[: len(HOSTILE)]]
    # Half a surrogate pair is no text that UTF-8 can hold.
    assert [unguard(token) for token in tokens] == [
        token.encode("utf-8", "replace").decode() for token in HOSTILE
    ]
    for row in rows:
        for field in ("panel", "row_token", "column_token"):
            assert row[field][:1] not in tuple("=+-@\t\r\n＝＋－＠")


@given(st.text(alphabet=st.sampled_from("'=+-@\t\r\na1 ＝"), max_size=6))
def test_guarding_is_undone_exactly(text: str) -> None:
    guarded = guard(text)
    assert unguard(guarded) == text
    assert guarded == text or guarded[1:] == text
    assert guarded[:1] not in tuple("=+-@\t\r\n＝＋－＠")


def test_a_csv_of_too_many_numbers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_ROWS", 34)
    with pytest.raises(TooLargeError, match=r"35 numbers .* NPZ"):
        to_csv(exhibit(panel(5, 7)))


def test_npz_is_exact_and_needs_no_pickle() -> None:
    made = exhibit(hostile_panel(), panel(2, 5, signed=True), series(), bars())
    assert to_npz(made) == to_npz(made)
    with np.load(io.BytesIO(to_npz(made)), allow_pickle=False) as held:
        for number, part in enumerate(made.parts, start=1):
            assert held[f"part_{number}_title"] == part.title
            if isinstance(part, Panel):
                assert held[f"part_{number}"].dtype == part.values.dtype
                np.testing.assert_array_equal(held[f"part_{number}"], part.values)
                assert held[f"part_{number}_rows"].tolist() == list(part.rows)
                assert held[f"part_{number}_columns"].tolist() == list(part.columns)
            else:
                expected = np.stack(list(part.lines.values()))
                np.testing.assert_array_equal(held[f"part_{number}"], expected)
                assert held[f"part_{number}_rows"].tolist() == list(part.lines)
                assert held[f"part_{number}_columns"].tolist() == list(part.x)
        np.testing.assert_array_equal(held["weights"], made.arrays["weights"])
        np.testing.assert_array_equal(held["file"], made.arrays["file"])
        assert (held["title"], held["caption"]) == (made.title, made.caption)
        assert held["snippet"] == made.snippet


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
