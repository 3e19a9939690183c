"""Loops are found if a text repeats its end, and only then."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.search.loops import MIN_CHARACTERS, MIN_TIMES, Loop, find_loop


@pytest.mark.parametrize(("text", "expected"), [
    ("Das ist gut, gut, gut, gut, gut, gut, gu", Loop("Das ist gut,", "gut,", 6)),
    ("Ein Mann und ein Hund und ein Hund und ein Hund und ein",
     Loop("Ein Mann und ein Hund", "und ein Hund", 3)),
    ("Innik" + "ik" * 12, Loop("Innik", "ik", 13)),
    ("", None),
    ("Er zahlt 1000000", None),
    ("nein, nein, nein", None),
    ("Sie sagt, dass sie sagt, was er sagt.", None),
])  # fmt: skip
def test_a_loop_is_cut_after_its_first_time(text: str, expected: Loop | None) -> None:
    assert find_loop(text) == expected


@given(st.text("ab ", max_size=60))
def test_a_loop_is_what_counting_by_hand_finds(text: str) -> None:
    ends = (
        (n, p)
        for p in range(1, len(text) + 1)
        for n in range(max(MIN_TIMES * p, MIN_CHARACTERS), len(text) + 1)
        if all(text[-i] == text[-i - p] for i in range(1, n - p + 1))
    )
    longest = max(ends, default=None, key=lambda end: (end[0], -end[1]))
    loop = find_loop(text)
    assert (loop is None) == (longest is None)
    if loop is not None and longest is not None:
        length, period = longest
        start = len(text) - length
        assert loop.kept == text[: len(loop.kept)]
        assert text[: start + period].rstrip() == loop.kept[: start + period].rstrip()
        assert len(loop.kept) < start + 2 * period
