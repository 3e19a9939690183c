import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.searched import Table
from tests.tiny_models import SENTENCES
from tests.transformer.search.test_beam import BOS, EOS, run
from transformer.search.rules import Sampling, distribution, draw
from transformer.translator import Translator
from transformer.types import InputError

ANIMAL = SENTENCES[0]

#: With distinct values, so that the most probable is never a tie.
log_prob_rows = st.lists(
    st.integers(-12_000, 0), min_size=2, max_size=40, unique=True
).map(lambda hundredths: normalised(np.array(hundredths) / 1000))  # fmt: skip
samplings = st.builds(
    Sampling, temperature=st.floats(0.05, 5), top_k=st.integers(0, 45), top_p=st.floats(0.01, 1),
    seed=st.integers(0, 2**32 - 1),
)  # fmt: skip


def normalised(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    return scores - np.log(np.exp(scores).sum())


@given(log_prob_rows, samplings)
def test_the_nucleus_is_the_smallest_set(row: NDArray[np.float64], sampling: Sampling) -> None:
    ids, probabilities = distribution(row, sampling)
    assert probabilities.sum() == pytest.approx(1)
    assert np.all(np.diff(probabilities) <= 0) and ids[0] == row.argmax()
    assert not sampling.top_k or len(ids) <= sampling.top_k
    assert set(ids) == set(np.argsort(-row)[: len(ids)])
    before = distribution(row, Sampling(sampling.temperature, sampling.top_k))[1]
    assert before[: len(ids)].sum() >= sampling.top_p - 1e-9 or len(ids) == len(before)
    assert before[: len(ids) - 1].sum() < sampling.top_p


@given(log_prob_rows, samplings, st.integers(0, 500))
def test_a_draw_can_be_repeated(row: NDArray[np.float64], sampling: Sampling, step: int) -> None:
    drawn = draw(row, sampling, step)
    assert drawn.token in distribution(row, sampling)[0]
    assert draw(row, sampling, step).token == drawn.token
    best = int(row.argmax())
    ids, probabilities = distribution(row, sampling, suppressed=[best])
    assert best not in ids and probabilities.sum() == pytest.approx(1)
    row = np.array([*[-math.inf] * (len(row) - 1), row[-1]])  # the others are impossible
    assert distribution(row, sampling)[0].tolist() == [len(row) - 1]
    with pytest.raises(ValueError, match="no token"):
        distribution(row, sampling, suppressed=[len(row) - 1])


@given(log_prob_rows, st.integers(0, 10_000))
def test_ways_to_be_greedy(row: NDArray[np.float64], seed: int) -> None:
    for option in ({"temperature": 1e-6}, {"temperature": 1e-300}, {"top_k": 1}, {"top_p": 1e-9}):
        assert draw(row, Sampling(**option, seed=seed), step=3).token == row.argmax()


@pytest.mark.parametrize(
    "sampling", [Sampling(), Sampling(temperature=2.0), Sampling(top_k=3), Sampling(top_p=0.7)]
)
def test_tokens_come_as_often_as_their_probabilities_say(sampling: Sampling) -> None:
    """Pearson's statistic over 2,000 seeds is below the 99.99% point of its distribution."""
    row = normalised(np.array([0.3, 2.0, -1.0, 1.2, 0.0, -0.4]))
    ids, probabilities = distribution(row, sampling)
    n = 2000
    seeded = (
        Sampling(sampling.temperature, sampling.top_k, sampling.top_p, seed) for seed in range(n)
    )
    counts = Counter(draw(row, each, step=0).token for each in seeded)
    assert set(counts) <= set(ids.tolist())
    wanted = n * probabilities
    statistic = ((np.array([counts[int(token)] for token in ids]) - wanted) ** 2 / wanted).sum()
    # 25.7 at five degrees of freedom; fewer have less.
    assert statistic < 25.7


@pytest.mark.parametrize("temperature", [0.5, 1, 1.5, 2])
@pytest.mark.parametrize("cut", [{}, {"top_k": 1500}, {"top_p": 0.97}])
def test_errors_of_rounding_do_not_change_a_draw(temperature: float, cut: dict[str, float]) -> None:
    """Probabilities that differ in their last digits must not decide a draw, nor a cut's edge."""
    draws = np.random.default_rng(0)
    row = normalised(draws.normal(scale=2, size=5000).round(6 if cut else 1))
    for seed in range(60):
        sampling = Sampling(temperature, seed=seed, **cut)
        again = row + 1e-6 * draws.standard_normal(len(row))
        assert draw(again.astype(np.float32), sampling, 5).token == draw(row, sampling, 5).token


def test_a_number_belongs_to_its_token() -> None:
    row = normalised(np.random.default_rng(1).normal(size=300))
    for seed, step in ((0, 0), (7, 3), (2**32 - 1, 200)):
        waits = [
            -math.log(np.random.default_rng([seed, step]).random(300)[token])
            / math.exp(row[token] / 1.5)
            for token in range(300)
        ]
        del waits[0]  # suppressed
        expected = 1 + waits.index(min(waits))
        assert draw(row, Sampling(1.5, seed=seed), step, suppressed=[0]).token == expected


@pytest.mark.parametrize("options", [
    *({"temperature": wrong} for wrong in (0, math.nan, -1.0, 101, True)),
    *({"top_k": wrong} for wrong in (-1, 2.5)), *({"top_p": wrong} for wrong in (0, 1.01)),
    *({"seed": wrong} for wrong in (-1, "7")),
])  # fmt: skip
def test_bad_settings_are_named(options: dict[str, object]) -> None:
    ((name, value),) = options.items()
    with pytest.raises(ValueError, match=f"{name} {value!r}"):
        Sampling(**options)


@given(seed=st.integers(0, 3000), drawn=st.integers(0, 99), cut=st.integers(1, 7))
def test_a_sample_goes_on_from_its_own_prefix_as_it_did(seed: int, drawn: int, cut: int) -> None:
    options = {"beam_size": 1, "sampling": Sampling(temperature=2, seed=drawn)}
    (whole,) = run(Table(seed, vocab=9), 8, **options)
    ids = whole.hypotheses[0].ids
    prefix = [token for token in ids[:cut] if token != EOS][:7]
    (again,) = run(Table(seed, vocab=9), 8, prefixes=[prefix], **options)
    assert again.hypotheses[0].ids == ids


def test_a_sampled_trace_says_what_was_cut_off_and_has_no_beam(tiny_translator: Translator) -> None:
    sampling = Sampling(temperature=1.3, top_k=5, top_p=0.8, seed=3)
    trace = tiny_translator.trace(ANIMAL, beam_size=1, sampling=sampling, top_k=8)
    (translation,) = tiny_translator.translate([ANIMAL], beam_size=1, sampling=sampling)
    assert translation.text == trace.text
    assert trace.search is not None and trace.search.sampling == sampling
    assert trace.allowed.shape == trace.top_ids.shape
    forced = tiny_translator.trace(ANIMAL, target=trace.predicted_ids, top_k=8)
    np.testing.assert_allclose(trace.log_probs, forced.log_probs, atol=1e-4)
    np.testing.assert_allclose(trace.top_log_probs, forced.top_log_probs, atol=1e-4)
    for t, token in enumerate(trace.predicted_ids):
        allowed = trace.top_ids[t][trace.allowed[t]]
        assert token in allowed
        assert len(allowed) == trace.n_allowed[t] <= 5
        assert not {0, BOS, 3} & set(allowed.tolist())
    with pytest.raises(InputError, match=r"beam size of 1, not 4"):
        tiny_translator.trace(ANIMAL, beam_size=4, sampling=Sampling())
    with pytest.raises(InputError, match="Sampling"):
        tiny_translator.translate([ANIMAL], 1, sampling=0.7)


@pytest.mark.parametrize(
    "options", [{"beam_size": 3}, {"beam_size": 1, "sampling": Sampling(seed=2)}, {"prefix": "Die"}]
)
def test_teacher_forcing_agrees(tiny_translator: Translator, options: dict[str, object]) -> None:
    trace = tiny_translator.trace(ANIMAL, **options)
    assert 0 <= tiny_translator.forcing_gap(trace) < 1e-5
    moved = trace.cross.copy()
    moved[1, 2, -1, 0] += 0.25
    changed = tiny_translator.forcing_gap(type(trace)(**{**vars(trace), "cross": moved}))
    assert changed == pytest.approx(0.25, abs=1e-4)
