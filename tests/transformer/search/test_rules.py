"""The rules in which searches differ; the importers' tests compare Hugging Face's."""

import pytest
import torch

from transformer.search.beam import StepOutput, search
from transformer.search.rules import PAPER, BeamRule, SearchSettings, hugging_face
from transformer.search.scoring import normalised

EOS = 2


class Fixed:
    """The same probabilities at every step: `</s>` 0.4, then 0.3, 0.2, 0.1."""

    def __call__(self, tokens: object, parents: object) -> StepOutput:
        row = torch.tensor([1e-9, 1e-9, 0.4, 0.3, 0.2, 0.1]).log()
        return StepOutput(row.repeat(len(list(tokens)), 1))


def found(rule: BeamRule, n: int, beam: int = 2, **more: object) -> list[tuple[int, ...]]:
    settings = SearchSettings(beam_size=beam, alpha=1.0, rule=rule, **more)
    return [each.ids for each in search(Fixed(), [n], settings)[0].hypotheses]


def test_penalties() -> None:
    found = [PAPER.penalty(*each) for each in ((1, 0.6), (7, 0.0), (7, 1.0), (13, 0.6))]
    assert found == pytest.approx([1, 1, 2, 3**0.6])
    assert (hugging_face().penalty(7, 1.0), hugging_face().penalty(7, 0.0)) == (7.0, 1.0)


def test_what_early_stopping_means() -> None:
    bounds = [hugging_face(early).bound for early in (False, True, "never")]
    assert bounds == ["current", "none", "longest"]


def test_a_beam_of_one_is_greedy_under_every_rule() -> None:
    for rule in (PAPER, hugging_face(), hugging_face(True), hugging_face("never")):
        assert found(rule, 5, beam=1) == [(EOS,)]


def test_a_cut_hypothesis_competes_or_not() -> None:
    """At length 1 only `</s>` ends; its rival is cut there."""
    assert found(PAPER, 1) == [(EOS,)]
    assert found(hugging_face(), 1) == [(EOS,), (3,)]


def test_a_forced_end_costs_nothing() -> None:
    settings = SearchSettings(beam_size=2, suppressed=(), forced_eos=True)
    best = search(Fixed(), [1], settings)[0].hypotheses
    assert [(each.ids, each.total, each.complete) for each in best] == [((EOS,), 0.0, True)]


def test_what_is_excluded_leaves_its_probability_to_the_others() -> None:
    logits = torch.tensor([[0.4, 0.4, 0.1, 0.1]]).log()
    assert normalised(logits).exp().tolist() == [pytest.approx([0.4, 0.4, 0.1, 0.1])]
    shared = normalised(logits, (0,)).exp().tolist()
    assert shared == [pytest.approx([0.0, 2 / 3, 1 / 6, 1 / 6])]
