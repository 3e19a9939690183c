"""Matching heads can be stopped at any point and resumed with the same result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.tiny_models import random_model
from tests.views import make_view
from transformer.checkpoint.folder import save_checkpoint
from transformer.config import ModelConfig
from transformer.text.tokenizer import Tokenizer
from transformer.types import ATTENTION_KINDS
from ui.compare.matching import matching, sentences_for
from ui.frame.twice import Setup
from ui.work.lru import Lru


class StopError(Exception):
    """Raised by a report after the user has stopped."""


@pytest.fixture
def caches(monkeypatch: pytest.MonkeyPatch) -> Lru:
    fresh = Lru(64 * 2**20)
    monkeypatch.setattr("ui.work.results.CACHE", fresh)
    return fresh


@pytest.fixture
def setup(tmp_path: Path, tiny_checkpoint: Path, tiny_tokenizer: Tokenizer) -> Setup:
    """Two models of unequal depths and head counts."""
    config = ModelConfig(
        vocab_size=tiny_tokenizer.vocab_size, d_model=20, n_heads=5, d_ff=24, n_encoder_layers=1,
        n_decoder_layers=2, max_positions=600,
    )  # fmt: skip
    save_checkpoint(tmp_path / "other", random_model(config), tiny_tokenizer)
    left = make_view(tiny_checkpoint, "A dog.", beam_size=1)
    right = make_view(tmp_path / "other", "A dog.", beam_size=1)
    return Setup("models", left, right, ())


def reports(setup: Setup) -> list[int]:
    """Return the number of the sentence at each report of a whole matching."""
    seen: list[int] = []
    matching(setup, "encoder_self", lambda step, most: seen.append(step))
    return seen


def test_it_asks_between_layers_and_between_sentences(setup: Setup, caches: Lru) -> None:
    seen = reports(setup)
    count = len(sentences_for(setup))
    assert set(seen) == set(range(1, count + 1))
    # Each kind and layer of the left asks once more than the steps of decoding do.
    layers = 2 + 3 + 3
    assert min(seen.count(number) for number in set(seen)) >= layers


def compared(cache: Lru) -> int:
    """Return the sentences whose similarities are kept."""
    return sum(isinstance(key, tuple) and key[0] == "alike" for key in cache)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.37, 0.5, 0.81, 0.99])
def test_stopping_keeps_whole_sentences_and_going_on_ends_alike(
    setup: Setup, caches: Lru, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    seen = reports(setup)
    wanted = {kind: matching(setup, kind) for kind in ATTENTION_KINDS}
    fresh = Lru(64 * 2**20)
    monkeypatch.setattr("ui.work.results.CACHE", fresh)
    limit, heard = int(share * len(seen)), 0

    def report(step: int, most: int) -> None:
        nonlocal heard
        heard += 1
        if heard > limit:
            raise StopError

    with pytest.raises(StopError):
        matching(setup, "encoder_self", report)
    done = seen[limit] - 1  # an unfinished sentence is not kept
    assert compared(fresh) == done
    for kind in ATTENTION_KINDS:
        found, whole = matching(setup, kind), wanted[kind]
        assert found is not None and whole is not None
        assert found.pairs == whole.pairs
        np.testing.assert_array_equal(found.values, whole.values)
    assert compared(fresh) == len(sentences_for(setup))
