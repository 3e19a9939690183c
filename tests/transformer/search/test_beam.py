"""Beam search on tables as step functions: no model, so every answer can be computed."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.searched import Table
from transformer.search.beam import Found, search
from transformer.search.records import Hypothesis
from transformer.search.rules import SearchSettings, length_penalty

BOS, EOS = 1, 2


def run(model: Table, max_length: int = 5, **options: object) -> list[Found]:
    prefixes = options.pop("prefixes", None)
    settings = SearchSettings(**{"suppressed": (0, BOS), **options})
    lengths = [max_length] * len(model.rows)
    return search(model, lengths, settings, prefixes=prefixes)


def brute_force(
    model: Table, sentence: int, max_length: int, alpha: float
) -> list[tuple[float, tuple[int, ...]]]:
    """Every finished sequence within `max_length` tokens, best first."""
    content = [token for token in range(model.vocab) if token not in (0, BOS, EOS)]
    scored = []
    for length in range(1, max_length + 1):
        for body in itertools.product(content, repeat=length - 1):
            ids = (*body, EOS)
            total = sum(
                float(model.logits(sentence, ids[:t]).log_softmax(0)[ids[t]]) for t in range(length)
            )
            scored.append((total / ((5 + length) / 6) ** alpha, ids))
    return sorted(scored, reverse=True)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_full_width_beam_equals_brute_force(seed: int, alpha: float) -> None:
    model = Table(seed, vocab=6, sentences=range(2))
    found = run(model, max_length=4, beam_size=6**4, alpha=alpha)
    for sentence in range(2):
        expected = brute_force(model, sentence, 4, alpha)
        hypotheses = found[sentence].hypotheses
        assert [h.ids for h in hypotheses] == [ids for _, ids in expected]
        assert [h.score for h in hypotheses] == pytest.approx([s for s, _ in expected], abs=1e-5)


@given(seed=st.integers(0, 10_000), max_length=st.integers(1, 8))
@settings(max_examples=40, deadline=None)
def test_a_beam_of_one_is_greedy(seed: int, max_length: int) -> None:
    model = Table(seed, vocab=7)
    ids: list[int] = []
    while len(ids) < max_length and EOS not in ids:
        scores = model.logits(0, ids)
        scores[[0, BOS]] = -math.inf
        ids.append(int(scores.argmax()))
    best = run(model, max_length, beam_size=1)[0].hypotheses[0]
    assert best.ids == tuple(ids)
    assert best.complete == (ids[-1] == EOS)


def wide_search(model: Table, max_length: int, beam: int, alpha: float) -> Hypothesis:
    """The same search, run to the length limit with no early end: the reference for stopping."""
    live: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    finished: list[tuple[float, tuple[int, ...]]] = []
    for _ in range(max_length):
        grown = []
        for total, ids in live:
            log_probs = model.logits(0, ids).log_softmax(0).tolist()
            grown += [
                (total + log_probs[token], (*ids, token))
                for token in range(model.vocab)
                if token not in (0, BOS)
            ]
        best = sorted(grown, reverse=True)[:beam]
        finished += [(s / length_penalty(len(i), alpha), i) for s, i in best if i[-1] == EOS]
        live = [(s, i) for s, i in best if i[-1] != EOS]
    score, ids = max(finished) if finished else (live[0][0], live[0][1])
    return Hypothesis(ids, (), 0.0, score, (), bool(finished))


@given(
    seed=st.integers(0, 10_000),
    beam=st.integers(1, 5),
    alpha=st.sampled_from([0.0, 0.3, 0.6, 1.0, 3.0]),
)
@settings(max_examples=60, deadline=None)
def test_ending_early_never_changes_the_best(seed: int, beam: int, alpha: float) -> None:
    model = Table(seed, vocab=6)
    expected = wide_search(model, 9, beam, alpha)
    for n_best in {1, beam}:
        best = run(Table(seed, vocab=6), 9, beam_size=beam, alpha=alpha, n_best=n_best)[
            0
        ].hypotheses[0]
        assert (best.ids, best.complete) == (expected.ids, expected.complete)


@given(seed=st.integers(0, 10_000), beam=st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_a_batch_equals_its_sentences_alone(seed: int, beam: int) -> None:
    """Sentences end at different steps, so this also shows that dropping ended ones is harmless."""
    model = Table(seed, vocab=6, sentences=range(4))
    together = run(model, 7, beam_size=beam, n_best=1)
    for sentence in range(4):
        alone = Table(seed, vocab=6, sentences=[sentence])
        assert run(alone, 7, beam_size=beam, n_best=1)[0].hypotheses == (
            together[sentence].hypotheses
        )
    assert all(rows <= 4 * beam for rows, _ in model.calls)


def test_ended_sentences_take_no_rows_and_others_are_not_moved() -> None:
    model = Table(3, vocab=6, sentences=range(6))
    lengths = [len(each.hypotheses[0].ids) for each in run(model, 12, beam_size=1)]
    assert len(set(lengths)) > 1
    for step, (rows, _) in enumerate(model.calls):
        assert rows == sum(length > step for length in lengths)
    alone = Table(5, vocab=20)
    run(alone, 8, beam_size=1)
    assert len(alone.calls) > 2 and not any(moved for _, moved in alone.calls)
    assert search(Table(0, sentences=()), [], SearchSettings()) == []


def test_a_forced_prefix_is_kept_and_scored() -> None:
    model = Table(11, vocab=8, sentences=range(2))
    prefixes = [(5, 0, 6), (4,)]  # also a token that is otherwise suppressed
    for found, prefix, sentence in zip(
        run(model, 8, beam_size=3, prefixes=prefixes, record=True), prefixes, range(2), strict=True
    ):
        for hypothesis in found.hypotheses:
            assert hypothesis.ids[: len(prefix)] == prefix
            log_probs = [
                float(model.logits(sentence, hypothesis.ids[:t]).log_softmax(0)[token])
                for t, token in enumerate(hypothesis.ids)
            ]
            assert hypothesis.log_probs == pytest.approx(log_probs, abs=1e-5)
            assert hypothesis.total == pytest.approx(sum(log_probs), abs=1e-5)
        assert len(found.steps[len(prefix) - 1].candidates) == 1


@pytest.mark.parametrize("prefix", [(EOS,), (3, EOS), (3,) * 8])
def test_a_prefix_that_leaves_nothing_to_search_is_refused(prefix: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="prefix"):
        run(Table(0, vocab=6), 8, prefixes=[prefix])


def test_the_length_limit_cuts() -> None:
    found = run(Table(0, vocab=6, end=-math.inf), 4, beam_size=2, record=True)[0]
    assert [h.complete for h in found.hypotheses] == [False, False]
    assert all(len(h.ids) == 4 and EOS not in h.ids for h in found.hypotheses)
    assert len(found.steps) == 4
    assert [c.fate for c in found.steps[-1].candidates] == ["kept", "kept", "dropped", "dropped"]


def test_nothing_that_can_follow_ends_the_search() -> None:
    def dead_end(scores: Tensor, prefix: Sequence[int]) -> None:
        scores.fill_(-math.inf)
        scores[0 if prefix else 4] = 0.0  # afterwards only a suppressed token

    (only,) = run(Table(0, vocab=6, change=dead_end), 5, beam_size=2)[0].hypotheses
    assert only.ids == (4,) and not only.complete


def test_scores_that_are_not_numbers_are_reported() -> None:
    with pytest.raises(FloatingPointError, match="NaN"):
        run(Table(0, vocab=6, change=lambda scores, _: scores[3].fill_(math.nan)))


@given(seed=st.integers(0, 10_000), beam=st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_the_record_is_what_happened(seed: int, beam: int) -> None:
    model = Table(seed, vocab=7, sentences=range(2))
    for sentence, found in enumerate(run(model, 6, beam_size=beam, record=True, top_k=4)):
        prefixes: list[tuple[int, ...]] = [()]
        for t, step in enumerate(found.steps):
            n_rows = len(prefixes)
            assert step.top_ids.shape == step.top_log_probs.shape == (n_rows, 4)
            assert step.decoder_self.shape == (n_rows, 2, 3, t + 1)
            assert step.cross.shape == (n_rows, 2, 3, 7)
            for row, prefix in enumerate(prefixes):
                log_probs = model.logits(sentence, prefix).log_softmax(0)
                best = log_probs.topk(4)
                assert step.top_ids[row].tolist() == best.indices.tolist()
                assert step.top_log_probs[row] == pytest.approx(best.values.tolist(), abs=1e-5)
                entropy = -float((log_probs.exp() * log_probs).sum())
                assert step.entropy[row] == pytest.approx(entropy, abs=1e-5)
                _, own, cross = model.look((sentence, BOS, *prefix))
                np.testing.assert_array_equal(step.decoder_self[row], own)
                np.testing.assert_array_equal(step.cross[row], cross)
            for array in vars(step).values():
                assert not isinstance(array, np.ndarray) or not array.flags.writeable
            assert not {0, BOS} & {candidate.token_id for candidate in step.candidates}
            scores = [candidate.score for candidate in step.candidates]
            assert scores == sorted(scores, reverse=True)
            rows: dict[int, tuple[int, ...]] = {}
            for rank, candidate in enumerate(step.candidates):
                grown = (*prefixes[candidate.parent], candidate.token_id)
                assert candidate.score == candidate.total / length_penalty(t + 1, 0.6)
                assert (candidate.row >= 0) <= (candidate.fate == "kept")
                assert rank < beam or candidate.fate == "dropped"
                assert (candidate.fate == "finished") == (rank < beam and grown[-1] == EOS)
                if candidate.row >= 0:
                    rows[candidate.row] = grown
            last = t + 1 == len(found.steps)
            assert (not rows) == last
            prefixes = [rows[row] for row in range(len(rows))]
        for hypothesis in found.hypotheses:
            for t, row in enumerate(hypothesis.rows):
                *_, cross = model.look((sentence, BOS, *hypothesis.ids[:t]))
                np.testing.assert_array_equal(found.steps[t].cross[row], cross)


def test_progress_counts_steps_and_may_stop() -> None:
    seen: list[tuple[int, int]] = []

    def stop_at_three(step: int, longest: int) -> None:
        seen.append((step, longest))
        if step == 3:
            raise InterruptedError

    settings = SearchSettings(beam_size=2, suppressed=(0, BOS, EOS))
    with pytest.raises(InterruptedError):
        search(Table(0, vocab=6), [9], settings, progress=stop_at_three)
    assert seen == [(1, 9), (2, 9), (3, 9)]


@pytest.mark.parametrize(
    "options",
    [{"beam_size": 0}, {"alpha": -0.1}, {"alpha": math.nan}, {"n_best": 5, "beam_size": 4}],
)
def test_settings_that_mean_nothing_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="|".join(options)):
        SearchSettings(**options)
