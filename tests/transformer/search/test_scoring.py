"""Scores of given translations, and outputs that repeat themselves."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer.search import scoring
from transformer.search.loops import MIN_CHARACTERS, MIN_TIMES, Loop, find_loop
from transformer.search.rules import SearchSettings
from transformer.search.sampling import Sampling
from transformer.search.scoring import best, normalised, score


@given(
    n_rows=st.integers(1, 5), size=st.integers(1, 300), count=st.integers(1, 12),
    seed=st.integers(0, 1000),
)  # fmt: skip
def test_the_best_by_groups_are_the_best(n_rows: int, size: int, count: int, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    scores = torch.randn(n_rows, size, generator=draw)
    count = min(count, size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scoring, "LONG_ROW", 1)
        patch.setattr(scoring, "GROUP", 4)
        values, ids = best(scores, count)
    expected = scores.topk(count, dim=1)
    assert torch.equal(values, expected.values)
    assert torch.equal(ids, expected.indices)


@given(
    n_rows=st.integers(1, 7), size=st.integers(2, 60), scale=st.sampled_from([0.1, 3.0, 60.0]),
    seed=st.integers(0, 1000), blocks=st.integers(1, 4),
)  # fmt: skip
def test_scores_and_entropy(n_rows: int, size: int, scale: float, seed: int, blocks: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(n_rows, size, generator=draw)
    forced = torch.randint(size, (n_rows,), generator=draw).tolist()
    settings = SearchSettings(beam_size=3, record=True, top_k=5)
    found = score(iter(logits.split(-(-n_rows // blocks))), settings, forced=forced)
    exact = logits.double().log_softmax(1)
    for row in range(n_rows):
        chosen = exact[row, found.ids[row]].tolist()
        assert found.log_probs[row] == pytest.approx(chosen, rel=1e-6, abs=1e-5)
        assert found.forced[row] == pytest.approx(
            float(exact[row, forced[row]]), rel=1e-6, abs=1e-5
        )
    np.testing.assert_array_equal(found.top_ids, logits.topk(min(5, size), dim=1).indices)
    np.testing.assert_allclose(
        found.entropy, torch.special.entr(exact.exp()).sum(1), rtol=1e-5, atol=1e-5
    )


def test_what_is_left_out_has_no_probability() -> None:
    logits = torch.tensor([[5.0, 1.0, 2.0, -1.0]])
    found = score(logits, SearchSettings(record=True, top_k=4, excluded=(0, 3)))
    assert found.ids[0][:2] == [2, 1]
    assert sum(np.exp(found.log_probs[0])) == pytest.approx(1.0)
    assert found.log_probs[0][2:] == [-np.inf, -np.inf]
    assert np.isfinite(found.entropy).all()
    found = score(torch.tensor([[500.0, 0.0, -500.0]]), SearchSettings(record=True))
    assert found.log_probs[0] == [0.0, -500.0, -1000.0]
    assert found.entropy is not None and found.entropy[0] == 0.0


def test_blocks_are_drawn_from_like_one_and_hold_numbers() -> None:
    for bad in (math.nan, math.inf):
        with pytest.raises(FloatingPointError, match="NaN"):
            score(torch.tensor([[0.0, 0.0], [0.0, bad]]), SearchSettings())
    logits = torch.randn(5, 40, generator=torch.Generator().manual_seed(3))
    settings = SearchSettings(1, sampling=Sampling(seed=7), suppressed=(1,))
    together, apart = (
        score(logits, settings, 2).drawn,
        score(iter(logits.split(2)), settings, 2).drawn,
    )
    assert together is not None and apart is not None and len(apart) == 5
    tokens = [each.token for each in together]
    assert tokens == [each.token for each in apart]
    own = normalised(logits).gather(1, torch.tensor(tokens)[:, None])[:, 0]
    assert [each.log_prob for each in together] == pytest.approx(own.tolist(), abs=1e-6)


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
