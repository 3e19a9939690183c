"""Matching maps of two sides, reasons for others, and the parts of a difference."""

from dataclasses import replace

import numpy as np

from tests.factories import make_trace
from transformer.trace.records import Trace
from transformer.types import ATTENTION_KINDS
from ui.attention.maps import AttentionChoice, maps_of
from ui.compare.pairing import (
    changed_places,
    difference_map,
    fit_of,
    joined_choices,
    labels,
    without_partner,
)

WORDS = ("▁The", "▁ani", "mal", "▁was", "▁tired")
LEFT = make_trace(S=6, T=5, n_heads=3, src_tokens=WORDS)


def right(words: tuple[str, ...], seed: int = 1, **changes: int) -> Trace:
    sizes = {"T": 5, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 4} | changes
    return make_trace(S=len(words) + 1, seed=seed, src_tokens=words, **sizes)


def choice(
    kind: str, units: str = "tokens", cell: tuple[int | None, int | None] = (0, 0)
) -> AttentionChoice:
    return AttentionChoice(kind, "matrix", units, cell=cell)  # type: ignore[arg-type]


def test_the_same_words_line_up_as_tokens_or_as_words() -> None:
    for kind in ATTENTION_KINDS:  # whatever the depths are
        assert fit_of(LEFT, right(WORDS), kind, "tokens").units == "tokens"
    other = right(("▁T", "he", "▁animal", "▁was", "▁tir", "ed"))
    fit = fit_of(LEFT, other, "encoder_self", "tokens")
    assert fit.units == "words" and "over whole words" in fit.why
    assert fit_of(LEFT, other, "encoder_self", "words") == replace(fit, why="")
    assert labels(LEFT, "source", "words") == labels(other, "source", "words")
    longer = right((*WORDS, "▁now"))
    fit = fit_of(LEFT, longer, "encoder_self", "tokens", by_place=True)
    assert fit.units == "" and "4 and 5 words" in fit.why
    assert not fit.helps  # another translation does not change the source


def test_one_changed_word_lines_up_by_place_only_where_that_is_asked_for() -> None:
    other = right((*WORDS[:-1], "▁wide"))
    assert fit_of(LEFT, other, "encoder_self", "tokens").units == ""
    assert fit_of(LEFT, other, "encoder_self", "tokens", by_place=True).units == "tokens"
    all_new = right(("▁x", "▁y", "z", "▁w", "▁v"))
    assert fit_of(LEFT, all_new, "encoder_self", "tokens", by_place=True).units == ""
    said = changed_places(
        maps_of(LEFT, "encoder_self", "tokens"), maps_of(other, "encoder_self", "tokens")
    )
    assert "tired" in said and "wide" in said
    assert changed_places(*[maps_of(LEFT, "cross", "words")] * 2) == ""


def test_other_translations_do_not_line_up_until_one_is_followed() -> None:
    other = right(WORDS, T=4)
    for kind in ("decoder_self", "cross"):
        fit = fit_of(LEFT, other, kind, "tokens")  # type: ignore[arg-type]
        assert fit.units == "" and fit.helps
        assert "no partner" in fit.why
    assert fit_of(LEFT, other, "encoder_self", "tokens").units == "tokens"
    followed = replace(other, forced=True, text=LEFT.text)
    assert not fit_of(LEFT, followed, "cross", "tokens").helps  # now the other side follows it


def test_a_difference_is_of_the_maps_that_each_side_shows() -> None:
    other = right((*WORDS[:-1], "▁wide"), n_heads=2)
    maps = maps_of(LEFT, "encoder_self", "tokens"), maps_of(other, "encoder_self", "tokens")
    choices = choice("encoder_self", cell=(2, 1)), choice("encoder_self", cell=(0, None))
    there = difference_map(*maps, choices)
    mean = other.encoder_self[0].mean(axis=0, dtype="f8").astype("f4")
    np.testing.assert_array_equal(there.weights, LEFT.encoder_self[2, 1] - mean)
    assert there.query_tokens[4] == "▁tired | ▁wide"
    assert there.query_tokens[0] == "▁The"
    back = difference_map(maps[1], maps[0], (choices[1], choices[0]))
    np.testing.assert_array_equal(there.weights, -back.weights)
    same = difference_map(maps[0], maps[0], (choices[0], choices[0]))
    assert not same.weights.any()


def test_the_same_cell_is_shown_on_both_sides() -> None:
    left = maps_of(make_trace(S=6, T=5, n_decoder_layers=3, n_heads=4), "cross", "tokens")
    other = maps_of(make_trace(S=6, T=5, n_decoder_layers=2, n_heads=6), "cross", "tokens")
    chosen = choice("cross", cell=(2, 3)), choice("cross")
    assert [each.cell for each in joined_choices((left, other), chosen)] == [(None, 3)] * 2
    assert "A 3 layers of 4 and B 2 layers of 6 heads" in without_partner(left, other)
    assert not without_partner(left, left)
