"""Numbers in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.training.made.numerals import spelled


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1, ("one", "eins", "un")),
        (21, ("twenty-one", "einundzwanzig", "vingt et un")),
        (71, ("seventy-one", "einundsiebzig", "soixante et onze")),
        (80, ("eighty", "achtzig", "quatre-vingts")),
        (81, ("eighty-one", "einundachtzig", "quatre-vingt-un")),
        (97, ("ninety-seven", "siebenundneunzig", "quatre-vingt-dix-sept")),
        (100, ("one hundred", "hundert", "cent")),
        (101, ("one hundred and one", "hunderteins", "cent un")),
        (800, ("eight hundred", "achthundert", "huit cents")),
        (256, ("two hundred and fifty-six", "zweihundertsechsundfünfzig",
               "deux cent cinquante-six")),
        (1000, ("one thousand", "tausend", "mille")),
        (3500, ("three thousand five hundred", "dreitausendfünfhundert", "trois mille cinq cents")),
        (80_000, ("eighty thousand", "achtzigtausend", "quatre-vingt mille")),
        (200_00, ("twenty thousand", "zwanzigtausend", "vingt mille")),
    ],
)  # fmt: skip
def test_numbers_in_words(number: int, words: tuple[str, str, str]) -> None:
    assert spelled(number) == words


@given(st.integers(1, 99_998))
def test_every_number_has_words_of_its_own(number: int) -> None:
    for one, other in zip(spelled(number), spelled(number + 1), strict=True):
        assert one != other and one == " ".join(one.split())


def test_numbers_out_of_range_are_refused() -> None:
    for number in (0, -1, 100_000):
        with pytest.raises(ValueError, match="99,999"):
            spelled(number)
