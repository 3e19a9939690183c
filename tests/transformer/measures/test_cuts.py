"""Cuts keep the text, diverge where they differ, and have the right probabilities."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiny_models import SENTENCES
from transformer.measures.cuts import (
    Replacement,
    changes,
    differing,
    merged,
    piece_texts,
    total_log_probability,
)
from transformer.text.tokenizer import Tokenizer, train_tokenizer

HOSTILE = (
    "a 🐕é z 👩‍👩‍👧 fa\u0301mily", "שלום \u202e עולם", "two\nlines\tand \u00a0 spaces",
    "<script>alert(1)</script> & \"quotes\" 'n' $x$", "x" * 200, "ﬁne Ⅳ ½ ①", "▁ marks ▁▁",
)  # fmt: skip
texts = st.one_of(st.sampled_from(HOSTILE), st.sampled_from(SENTENCES), st.text(max_size=40))


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Tokenizer]:
    """Of every kind; "spelling" is a unigram tokenizer with byte fallback."""
    return {
        "unigram": train_tokenizer(SENTENCES, 110),
        "spelling": train_tokenizer(SENTENCES, 420, byte_fallback=True, fewer=True),
        "bpe": train_tokenizer(SENTENCES, 130, model_type="bpe"),
        "char": train_tokenizer(SENTENCES, 60, model_type="char"),
    }


@pytest.fixture(scope="module")
def spelling(tokenizers: dict[str, Tokenizer]) -> Tokenizer:
    return tokenizers["spelling"]


@given(text=texts)
@settings(max_examples=40)
def test_pieces_joined_are_the_normalised_text(text: str, tokenizers: dict[str, Tokenizer]) -> None:
    for tokenizer in tokenizers.values():
        cut = tokenizer.tokenize(text)
        pieces = piece_texts(cut.pieces, cut.ids, tokenizer.byte_ids)
        assert "".join(pieces) == tokenizer.normalize(text)


@given(text=texts)
def test_every_other_cut_spells_the_same_text(text: str, spelling: Tokenizer) -> None:
    found = spelling.n_best(text, 6)
    scores = [score for _, score in found]
    assert scores == sorted(scores, reverse=True)
    assert bool(found) == bool(spelling.tokenize(text).ids)
    for cut, _ in found:
        pieces = piece_texts(cut.pieces, cut.ids, spelling.byte_ids)
        assert "".join(pieces) == spelling.normalize(text)
        assert spelling.decode(cut.ids) == spelling.decode(found[0][0].ids)


@given(text=texts)
def test_the_total_is_at_least_what_the_best_cuts_have(text: str, spelling: Tokenizer) -> None:
    special = {0, 1, 2, 3, *spelling.byte_ids}
    log_probs = {
        piece: spelling.scores[i] for i, piece in enumerate(spelling.pieces) if i not in special
    }
    total = total_log_probability(spelling.normalize(text), log_probs)
    scores = np.array([score for _, score in spelling.n_best(text, 5)])
    # SentencePiece adds up in float32.
    assert np.logaddexp.reduce(scores, initial=-np.inf) <= total + 1e-5 * (1 - total)


def test_cuts_by_hand() -> None:
    one, other = ("▁st", "and", "ing", "▁on", "▁", "a"), ("▁stand", "ing", "▁on", "▁a")
    assert differing(one, other) == (((0, 2), (0, 1)), ((4, 6), (3, 4)))
    assert differing(one, one) == differing(("a", "", "é"), ("a", "", "é")) == ()
    with pytest.raises(ValueError, match="not of the same text"):
        differing(("a",), ("b",))
    assert changes("ﬁne Ⅳ", "fine IV") == (Replacement("ﬁ", "fi", 0), Replacement("Ⅳ", "IV", 4))
    assert changes("same", "same") == ()
    assert changes("a\u200bb", "ab") == (Replacement("\u200b", "", 1),)
    log_probs = {"▁": -3.0, "▁a": -1.0, "a": -2.0, "b": -2.5, "ab": -1.5, "▁ab": -4.0}
    cuts = [("▁ab",), ("▁a", "b"), ("▁", "ab"), ("▁", "a", "b")]
    expected = math.log(sum(math.exp(sum(log_probs[p] for p in cut)) for cut in cuts))
    assert total_log_probability("▁ab", log_probs) == pytest.approx(expected)
    # A character without a piece: ten nats below the rarest piece.
    assert total_log_probability("é", log_probs) == pytest.approx(-14.0)
    assert total_log_probability("", log_probs) == 0


@given(text=st.text("▁ab", max_size=12), data=st.data())
def test_parting_stretches_hold_the_same_text(text: str, data: st.DataObject) -> None:
    def cut() -> tuple[str, ...]:
        ends = [*data.draw(st.sets(st.integers(1, max(1, len(text) - 1)))), 0, len(text)]
        borders = sorted({end for end in ends if end <= len(text)})
        return tuple(text[i:k] for i, k in pairwise(borders))

    one, other = cut(), cut()
    at = [0, 0]
    for (first, end), (start, stop) in differing(one, other):
        assert one[at[0] : first] == other[at[1] : start]
        assert "".join(one[first:end]) == "".join(other[start:stop])
        assert one[first:end] != other[start:stop]
        at = [end, stop]
    assert one[at[0] :] == other[at[1] :]


def test_merging_is_sentencepieces_and_dropout_skips(tokenizers: dict[str, Tokenizer]) -> None:
    merging = tokenizers["bpe"]
    kinds = {name: each.kind for name, each in tokenizers.items()}
    assert kinds == {"unigram": "unigram", "spelling": "unigram", "bpe": "bpe", "char": "char"}
    assert len(tokenizers["spelling"].byte_ids) == 256
    for each in (merging, tokenizers["char"]):  # of which each text has one cut
        assert each.n_best(SENTENCES[0], 4) == []
    ranks = {piece: merging.scores[i] for i, piece in enumerate(merging.pieces) if i > 3}
    for sentence in SENTENCES:
        whole = merged(merging.normalize(sentence), ranks)
        assert whole == merging.tokenize(sentence).pieces
    text = merging.normalize(SENTENCES[0])
    whole = merged(text, ranks)
    drawn = [
        merged(text, ranks, dropout=0.4, rng=np.random.default_rng(seed)) for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    for each in drawn:
        assert "".join(each) == text and len(each) > len(whole)
        assert set(each) <= set(ranks) | set(text)
