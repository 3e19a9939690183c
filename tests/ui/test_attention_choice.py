"""Settings of the Attention page: what a link says comes back, nonsense does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.measures.words import word_groups
from ui.attention_choice import (
    HEADS,
    KEYS,
    MASS,
    PIN,
    parse_heads,
    parse_pin,
    parse_positions,
    to_pieces,
    to_units,
)

heads = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), unique=True).map(tuple)


@given(heads)
def test_any_set_of_heads_comes_back_in_its_order(chosen: tuple[tuple[int, int], ...]) -> None:
    assert HEADS.parse(HEADS.write(chosen)) == chosen


@given(st.sets(st.integers(0, 600)).map(lambda chosen: tuple(sorted(chosen))))
def test_any_tokens_come_back(chosen: tuple[int, ...]) -> None:
    assert KEYS.parse(KEYS.write(chosen)) == chosen


@given(st.none() | st.tuples(st.sampled_from(["query", "key"]), st.integers(0, 600)))
def test_any_pin_comes_back(pin: tuple[str, int] | None) -> None:
    assert PIN.parse(PIN.write(pin)) == pin  # type: ignore[arg-type]


def test_empty_zero_and_the_first_are_written_out() -> None:
    assert HEADS.write(()) == KEYS.write(()) == PIN.write(None) == "none"
    assert HEADS.write(((0, 2), (1, 4))) == "1.3-2.5"
    assert KEYS.write((0, 6)) == "1-7"
    assert PIN.write(("key", 0)) == "k1"
    assert (MASS.write(0.0), MASS.parse("0")) == ("0", 0.0)


@pytest.mark.parametrize(
    "raw", ["", "1", "1.", ".1", "0.1", "1.0", "1.1-1.1", "1.1-", "a.b", "1.1.1"]
)
def test_nonsense_heads_are_refused(raw: str) -> None:
    with pytest.raises(ValueError, match=r"^"):
        parse_heads(raw)


@pytest.mark.parametrize("raw", ["", "0", "1-", "-1", "x", "1.5", "1e3"])
def test_nonsense_tokens_are_refused(raw: str) -> None:
    with pytest.raises(ValueError, match=r"^"):
        parse_positions(raw)
    with pytest.raises(ValueError, match=r"^"):
        parse_pin(raw)
    with pytest.raises(ValueError, match=r"^"):
        parse_pin(f"x{raw}")


@given(st.lists(st.sampled_from(["▁a", "b", "▁c", "."]), min_size=1, max_size=9), st.data())
def test_words_are_chosen_whole_and_tokens_as_they_are(
    tokens: list[str], data: st.DataObject
) -> None:
    groups = word_groups(tokens)
    chosen = tuple(sorted(data.draw(st.sets(st.integers(0, len(tokens) - 1)))))
    assert to_units(chosen, None) == to_pieces(chosen, None) == chosen
    units = to_units(chosen, groups)
    pieces = to_pieces(units, groups)
    assert set(chosen) <= set(pieces)
    assert to_units(pieces, groups) == units
