"""A search's candidates equal those computed the plain way."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer.search import scoring
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
