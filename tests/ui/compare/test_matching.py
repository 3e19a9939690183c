"""Matching heads can be stopped at any point and resumed with the same result."""

from pathlib import Path

import numpy as np
import pytest

from tests.tiny_models import uneven_model
from tests.views import make_view
from transformer.checkpoint.folder import save_checkpoint
from transformer.text.tokenizer import Tokenizer
from transformer.types import ATTENTION_KINDS
from ui.compare import matching as module
from ui.compare.matching import matching
from ui.frame.twice import Setup
from ui.work.lru import Lru
from ui.work.models import load

SENTENCES = ("A dog.", "The cat sat.", "She sleeps.")


@pytest.fixture
def setup(
    tmp_path: Path,
    tiny_checkpoint: Path,
    tiny_tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
) -> Setup:
    """Two models of unequal depths and head counts, and few sentences."""
    save_checkpoint(tmp_path / "other", uneven_model(tiny_tokenizer), tiny_tokenizer)
    monkeypatch.setattr(module, "sentences_for", lambda setup: SENTENCES)
    left, right = (
        make_view(path, "A dog.", beam_size=1) for path in (tiny_checkpoint, tmp_path / "other")
    )
    return Setup("models", left, right)


def test_stopped_work_ends_alike_if_resumed(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    for view in setup.views:
        load(view.request)  # which reports, too
    monkeypatch.setattr("ui.work.results.CACHE", Lru(64 * 2**20))
    matching(setup, "encoder_self", lambda step, most: seen.append(step))
    assert set(seen) == {1, 2, 3}
    # Each kind and layer of the left asks once more than the steps of decoding do.
    assert min(seen.count(number) for number in set(seen)) >= 2 + 3 + 3
    wanted = {kind: matching(setup, kind) for kind in ATTENTION_KINDS}
    for share in (0.0, 0.37, 0.99):
        fresh = Lru(64 * 2**20)
        monkeypatch.setattr("ui.work.results.CACHE", fresh)
        limit, reports = int(share * len(seen)), 0

        def report(step: int, most: int, limit: int = limit) -> None:
            nonlocal reports
            reports += 1
            if reports > limit:
                raise InterruptedError

        with pytest.raises(InterruptedError):
            matching(setup, "encoder_self", report)
        assert compared(fresh) == seen[limit] - 1  # an unfinished sentence is not kept
        for kind in ATTENTION_KINDS:
            found, whole = matching(setup, kind), wanted[kind]
            assert found is not None and whole is not None
            assert found.pairs == whole.pairs
            np.testing.assert_array_equal(found.values, whole.values)
        assert compared(fresh) == len(SENTENCES)


def compared(cache: Lru) -> int:
    return sum(isinstance(key, tuple) and key[0] == "alike" for key in cache)
