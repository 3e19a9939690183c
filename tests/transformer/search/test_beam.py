import copy
import gc
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.searched import Table, searched
from transformer.search import scoring
from transformer.search.beam import Found, search
from transformer.search.loops import MIN_CHARACTERS, MIN_TIMES, Loop, find_loop
from transformer.search.records import Compact
from transformer.search.rules import PAPER, BeamRule, Sampling, SearchSettings, hugging_face
from transformer.search.scoring import best, normalised
from transformer.steps import StepOutput

BOS, EOS = 1, 2


def run(model: Table, max_length: int = 5, **options: object) -> list[Found]:
    prefixes = options.pop("prefixes", None)
    settings = SearchSettings(**{"suppressed": (0, BOS), **options})
    lengths = [max_length] * len(model.rows)
    return search(model, lengths, settings, prefixes=prefixes)


def wide_search(
    model: Table, max_length: int, beam: int, alpha: float
) -> list[tuple[float, tuple[int, ...]]]:
    """Run the search to the length limit without early stopping: scores and ids, best first."""
    live: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    finished: list[tuple[float, tuple[int, ...]]] = []
    real = False
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
        real = real or (bool(best) and best[0][1][-1] == EOS)
        finished += [(s / PAPER.penalty(len(i), alpha), i) for s, i in best if i[-1] == EOS]
        live = [(s, i) for s, i in best if i[-1] != EOS]
    cut = [] if real else [(s / PAPER.penalty(len(i), alpha), i) for s, i in live]
    return sorted(finished + cut, reverse=True)


@given(
    seed=st.integers(0, 10_000),
    beam=st.integers(1, 5),
    alpha=st.sampled_from([0.0, 0.3, 0.6, 1.0, 3.0]),
    end=st.sampled_from([-3.0, 0.0]),
    n=st.sampled_from([2, 4, 9]),
)
@settings(max_examples=60, deadline=None)
def test_an_early_end_is_harmless(seed: int, beam: int, alpha: float, end: float, n: int) -> None:
    expected = wide_search(Table(seed, vocab=6, end=end), n, beam, alpha)
    for n_best in {1, beam}:
        (found,) = run(Table(seed, vocab=6, end=end), n, beam_size=beam, alpha=alpha, n_best=n_best)
        wanted = expected[:n_best]
        assert [each.ids for each in found.hypotheses][: len(wanted)] == [ids for _, ids in wanted]
        for each, (score, ids) in zip(found.hypotheses, wanted, strict=False):
            assert each.score == pytest.approx(score, abs=1e-5)
            assert each.complete == (ids[-1] == EOS)


@given(
    seed=st.integers(0, 10_000), beam=st.integers(1, 4),
    sampling=st.none() | st.builds(Sampling, st.just(2.0), seed=st.integers(0, 99)),
)  # fmt: skip
@settings(max_examples=50, deadline=None)
def test_a_batch_equals_its_sentences_alone(
    seed: int, beam: int, sampling: Sampling | None
) -> None:
    """Sentences end at different steps, so dropping finished sentences is tested too."""
    options = {"beam_size": 1 if sampling else beam, "sampling": sampling, "n_best": 1}
    model = Table(seed, vocab=6, sentences=range(4))
    together = run(model, 7, **options)
    for sentence in range(4):
        (alone,) = run(Table(seed, vocab=6, sentences=[sentence]), 7, **options)
        assert alone.hypotheses == together[sentence].hypotheses
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


def test_the_length_limit_and_a_dead_end_cut() -> None:
    found = run(Table(0, vocab=6, end=-math.inf), 4, beam_size=2, record=True)[0]
    assert [h.complete for h in found.hypotheses] == [False, False]
    assert all(len(h.ids) == 4 and EOS not in h.ids for h in found.hypotheses)
    assert len(found.steps) == 4
    assert [c.fate for c in found.steps[-1].candidates] == ["kept", "kept", "dropped", "dropped"]

    def dead_end(scores: Tensor, prefix: Sequence[int]) -> None:
        scores.fill_(-math.inf)
        scores[0 if prefix else 4] = 0.0  # afterwards only a suppressed token

    (only,) = run(Table(0, vocab=6, change=dead_end), 5, beam_size=2)[0].hypotheses
    assert only.ids == (4,) and not only.complete


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
                assert candidate.score == candidate.total / PAPER.penalty(t + 1, 0.6)
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


class Fixed:
    """Equal probabilities at every step: `</s>` 0.4, then 0.3, 0.2, 0.1."""

    def __call__(self, tokens: object, parents: object) -> StepOutput:
        row = torch.tensor([1e-9, 1e-9, 0.4, 0.3, 0.2, 0.1]).log()
        return StepOutput(row.repeat(len(list(tokens)), 1))


def found(rule: BeamRule, n: int, beam: int = 2, **more: object) -> list[tuple[int, ...]]:
    settings = SearchSettings(beam_size=beam, alpha=1.0, rule=rule, **more)
    return [each.ids for each in search(Fixed(), [n], settings)[0].hypotheses]


def test_what_the_rules_say_and_exclude() -> None:
    penalties = [PAPER.penalty(*each) for each in ((1, 0.6), (7, 0.0), (7, 1.0), (13, 0.6))]
    assert penalties == pytest.approx([1, 1, 2, 3**0.6])
    assert (hugging_face().penalty(7, 1.0), hugging_face().penalty(7, 0.0)) == (7.0, 1.0)
    rules = [hugging_face(early) for early in (False, True, "never")]
    assert [rule.bound for rule in rules] == ["current", "none", "longest"]
    for rule in (PAPER, *rules):  # a beam of one is greedy
        assert found(rule, 5, beam=1) == [(EOS,)]
    # At length 1 only `</s>` ends, and is likeliest; its rival, cut, competes or does not.
    assert (found(PAPER, 1), found(rules[0], 1)) == ([(EOS,)], [(EOS,), (3,)])
    forced = SearchSettings(beam_size=2, suppressed=(), forced_eos=True)  # which costs nothing
    best = search(Fixed(), [1], forced)[0].hypotheses
    assert [(each.ids, each.total, each.complete) for each in best] == [((EOS,), 0.0, True)]
    never = SearchSettings(beam_size=1, excluded=(EOS,), forced_eos=True)
    cut = search(Fixed(), [2], never)[0].hypotheses[0]  # which the model would not have ended
    assert (cut.ids, cut.complete, cut.forced_end) == ((3, EOS), False, True)
    logits = torch.tensor([[0.4, 0.4, 0.1, 0.1]]).log()
    assert normalised(logits).exp().tolist() == [pytest.approx([0.4, 0.4, 0.1, 0.1])]
    assert normalised(logits, (0,)).exp().tolist() == [pytest.approx([0.0, 2 / 3, 1 / 6, 1 / 6])]


@dataclass(frozen=True)
class Each:
    number: int
    value: float
    text: str
    row: int = -1


records = st.lists(
    st.builds(Each, st.integers(), st.floats(allow_nan=False), st.text(), st.integers())
)


@given(records)
def test_they_are_a_sequence_of_the_records(made: list[Each]) -> None:
    compact = Compact(Each, made)
    assert list(compact) == made and compact == made and len(compact) == len(made)
    assert list(reversed(compact)) == made[::-1]
    assert compact[1:] == tuple(made[1:])
    assert all(
        compact[i] == made[i] and compact[i - len(made)] == made[i] for i in range(len(made))
    )
    assert copy.deepcopy(compact) == compact
    assert bool(compact) == bool(made)
    assert repr(compact) == f"<{len(made)} records of Each>"
    if made:
        assert compact != made[:-1] and made[0] in compact


def test_records_are_counted_and_untracked() -> None:
    none, one, many = (
        Compact(Each, [Each(n, n / 3, "a") for n in range(10**6, 10**6 + n)]) for n in (0, 1, 50)
    )
    assert none.nbytes == 0 and 100 < one.nbytes < 300 and many.nbytes == 50 * one.nbytes
    with pytest.raises(IndexError):
        one[1]
    gc.freeze()  # the older objects of this process, so that collecting is fast
    search = searched().search
    gc.collect()
    gc.collect()  # it lets go of a tuple of tuples once it has of those in it
    gc.unfreeze()
    for step in search.steps:
        (rows,) = (each for each in gc.get_referents(step.candidates) if isinstance(each, tuple))
        assert rows and not gc.is_tracked(rows)


@given(
    n_rows=st.integers(1, 5), size=st.integers(1, 300), count=st.integers(1, 12),
    seed=st.integers(0, 1000),
)  # fmt: skip
def test_the_best_by_groups_are_the_best(n_rows: int, size: int, count: int, seed: int) -> None:
    scores = torch.randn(n_rows, size, generator=torch.Generator().manual_seed(seed))
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
    found = scoring.score(iter(logits.split(-(-n_rows // blocks))), settings, forced=forced)
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
    found = scoring.score(logits, SearchSettings(record=True, top_k=4, excluded=(0, 3)))
    assert found.ids[0][:2] == [2, 1]
    assert sum(np.exp(found.log_probs[0])) == pytest.approx(1.0)
    assert found.log_probs[0][2:] == [-np.inf, -np.inf]
    assert np.isfinite(found.entropy).all()
    found = scoring.score(torch.tensor([[500.0, 0.0, -500.0]]), SearchSettings(record=True))
    assert found.log_probs[0] == [0.0, -500.0, -1000.0]
    assert found.entropy is not None and found.entropy[0] == 0.0


def test_blocks_are_drawn_from_like_one_and_hold_numbers() -> None:
    for bad in (math.nan, math.inf):
        with pytest.raises(FloatingPointError, match="NaN"):
            scoring.score(torch.tensor([[0.0, 0.0], [0.0, bad]]), SearchSettings())
    logits = torch.randn(5, 40, generator=torch.Generator().manual_seed(3))
    logits[:, 1] = 6.0  # the likeliest, which is suppressed
    settings = SearchSettings(1, sampling=Sampling(seed=7), suppressed=(1,))
    together, apart = (
        scoring.score(logits, settings, 2).drawn,
        scoring.score(iter(logits.split(2)), settings, 2).drawn,
    )
    assert together is not None and apart is not None and len(apart) == 5
    tokens = [each.token for each in together]
    assert tokens == [each.token for each in apart] and 1 not in tokens
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
