"""Random cuts have the right probabilities, and are the same in every process."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.tiny_models import SENTENCES
from transformer.text.cut_sampling import Cutter, seed_sampling
from transformer.text.tokenizer import clean, train_tokenizer

ROOT = Path(__file__).parents[3]
TOKENIZERS = {
    "unigram": train_tokenizer(SENTENCES, 90, model_type="unigram"),
    "bpe": train_tokenizer(SENTENCES, 90, model_type="bpe"),
    "bytes": train_tokenizer(SENTENCES, 360, byte_fallback=True, fewer=True),
    "char": train_tokenizer(SENTENCES, 90, model_type="char"),
}
TEXTS = st.text(st.sampled_from("Adogruns .éç漢😀\u0301"), max_size=30)

DRAWN = """
import sys
from transformer.text.tokenizer import Tokenizer, seed_sampling
tokenizer = Tokenizer.load(sys.argv[1])
seed_sampling(7)
print([tokenizer.sample(text, alpha=0.2) for text in sys.argv[2:]])
"""


@pytest.mark.parametrize("name", ["unigram", "bpe"])
def test_another_process_draws_the_same(name: str, tmp_path: Path) -> None:
    tokenizer = TOKENIZERS[name]
    tokenizer.save(tmp_path / "tokenizer.model")
    tokenizer.sample(SENTENCES[3], alpha=0.5)  # earlier draws do not matter
    seed_sampling(7)
    here = [tokenizer.sample(text, alpha=0.2) for text in SENTENCES]
    command = [sys.executable, "-c", DRAWN, str(tmp_path / "tokenizer.model"), *SENTENCES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(here)
    assert here != [tokenizer.encode(text) for text in SENTENCES]


def test_cuts_are_as_probable_as_their_pieces() -> None:
    """Every cut of a word has its probability to the power of alpha, computed by hand."""
    scores = {"a": -2.0, "b": -1.5, "c": -3.0, "ab": -2.5, "bc": -2.2, "abc": -4.0, "▁": -1.0}
    cutter = Cutter({piece: i for i, piece in enumerate(scores)}, scores, 99, ())
    cuts = [("a", "b", "c"), ("ab", "c"), ("a", "bc"), ("abc",)]
    alpha, n = 0.6, 20_000
    weights = [math.exp(alpha * sum(scores[piece] for piece in cut)) for cut in cuts]
    draw, pieces = random.Random(3), list(scores)
    drawn = Counter(
        tuple(pieces[i] for i in cutter.by_probability("▁abc", alpha, draw)[1:]) for _ in range(n)
    )
    assert set(drawn) == set(cuts)
    for cut, weight in zip(cuts, weights, strict=True):
        share = weight / sum(weights)
        assert abs(drawn[cut] / n - share) < 5 * math.sqrt(share * (1 - share) / n)


def test_merges_are_left_out_one_by_one() -> None:
    scores = {"a": -9.0, "b": -9.0, "c": -9.0, "ab": -1.0, "bc": -2.0, "abc": -3.0}
    pieces = list(scores)
    cutter = Cutter({piece: i for i, piece in enumerate(scores)}, scores, 99, ())
    draw, n = random.Random(5), 20_000
    drawn = Counter(tuple(pieces[i] for i in cutter.by_merges("abc", 0.5, draw)) for _ in range(n))
    # First a+b stays with 1/2, else b+c with 1/2, else nothing; then the last merge with 1/2.
    for cut, share in {
        ("abc",): 3 / 8, ("ab", "c"): 1 / 4, ("a", "bc"): 1 / 8, ("a", "b", "c"): 1 / 4,
    }.items():  # fmt: skip
        assert abs(drawn[cut] / n - share) < 0.02


@pytest.mark.parametrize("name", TOKENIZERS)
@given(text=TEXTS)
@example(text="nAçurnAoooA😀")
def test_any_text_is_cut_as_usual_where_nothing_is_random(name: str, text: str) -> None:
    tokenizer = TOKENIZERS[name]
    certain = 0.0 if name == "bpe" else 1e6
    drawn, best = tokenizer.sample(text, alpha=certain), tokenizer.encode(text)
    # Of equally probable cuts, such as o|oo and oo|o, any may be drawn.
    scores = tokenizer.scores
    assert drawn == best or (
        tokenizer.decode(drawn) == tokenizer.decode(best)
        and sum(scores[i] for i in drawn) == pytest.approx(sum(scores[i] for i in best), abs=1e-3)
    )


@pytest.mark.parametrize("name", TOKENIZERS)
@given(text=TEXTS, alpha=st.floats(0, 1))
def test_any_cut_reads_as_the_text(name: str, text: str, alpha: float) -> None:
    tokenizer = TOKENIZERS[name]
    assert tokenizer.decode(tokenizer.sample(text, alpha=alpha)) == tokenizer.decode(
        tokenizer.encode(text)
    )


def test_characters_where_every_merge_is_left_out() -> None:
    tokenizer = TOKENIZERS["bpe"]
    text = clean(SENTENCES[0])
    assert len(tokenizer.sample(text, alpha=1.0)) == len(text) + 1  # the mark in front
