from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.factories import make_trace
from transformer.measures.agreement import (
    HeadAgreement,
    head_agreements,
    match,
    partners,
    total_log_prob,
)
from transformer.measures.compare import assign
from transformer.trace.records import Trace
from transformer.types import ATTENTION_KINDS

LEFT = make_trace(S=6, T=5, n_heads=3, src_tokens=("▁The", "▁ani", "mal", "▁was", "▁tired"))


def right(*words: str) -> Trace:
    return make_trace(
        S=len(words) + 1, T=5, n_heads=2, n_encoder_layers=1, n_decoder_layers=4, seed=1,
        src_tokens=words,
    )  # fmt: skip


def test_heads_compare_over_words_of_whichever_sizes() -> None:
    other = right("▁T", "he", "▁animal", "▁was", "▁tir", "ed")
    found = head_agreements(LEFT, other)
    assert set(found) == set(ATTENTION_KINDS)
    assert found["cross"].values.shape == (2 * 3, 4 * 2)
    assert found["encoder_self"].values.shape == (3 * 3, 1 * 2)
    assert found["encoder_self"].shapes == ((3, 3), (1, 2))
    for alike in found.values():
        assert ((alike.values >= 0) & (alike.values <= 1)).all()
    itself = head_agreements(LEFT, LEFT)["cross"].values
    np.testing.assert_array_equal(np.diag(itself), 1.0)
    assert head_agreements(LEFT, right(*LEFT.src_tokens[:-1], "▁now")).keys() == {"decoder_self"}


def test_a_kind_that_a_model_does_not_have_is_left_out() -> None:
    nothing = np.zeros(0, np.float32)
    reader = replace(
        LEFT, tgt_tokens=(), predicted_tokens=(), log_probs=nothing,
        decoder_self=np.zeros((0, 3, 0, 0), "f4"), cross=np.zeros((0, 3, 0, 6), "f4"),
    )  # fmt: skip
    assert set(head_agreements(LEFT, reader)) == {"encoder_self"}
    assert total_log_prob(LEFT) == pytest.approx(LEFT.log_probs.sum())
    without = replace(LEFT, log_probs=nothing)
    assert math.isnan(total_log_prob(without)) and math.isnan(total_log_prob(None))


def test_a_matching_weighs_sentences_by_their_words() -> None:
    rng = np.random.default_rng(0)
    shapes = ((2, 2), (1, 3))
    one, other = (HeadAgreement(rng.random((4, 3)), rows, shapes, 0.5) for rows in (2, 6))
    found = match([one, None, other])
    assert found is not None and (found.sentences, found.left_out) == (2, 1)
    np.testing.assert_allclose(found.values, (one.values + 3 * other.values) / 4)
    assert found.pairs == assign(found.values) and len(found.pairs) == 3
    assert found.mean == pytest.approx(np.mean([found.values[pair] for pair in found.pairs]))
    assert found.in_place == pytest.approx(np.mean([found.values[0, 0], found.values[1, 1]]))
    assert match([None]) is None


def test_words_in_one_place_are_partners_only_if_most_are_the_same() -> None:
    words = ["the", "animal", "was", "too", "tired"]
    wide = [*words[:-1], "wide"]
    assert partners(words, words) and not partners(words, wide)
    assert partners(words, wide, by_place=True)
    assert not partners(words, words[:-1], by_place=True)
    assert not partners(words, ["a", "b", *words[2:4], "c"], by_place=True)
