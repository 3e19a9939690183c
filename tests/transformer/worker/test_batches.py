"""Sentences that wait together are traced together: the same traces, each with its own fate."""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tests.waiting import wait_until
from transformer.errors import InputError
from transformer.trace.records import Trace
from transformer.translator import Translator
from transformer.types import Report
from transformer.worker import batches
from transformer.worker.batches import MOST, SHORT, Batches
from transformer.worker.scheduler import Scheduler
from transformer.worker.tracing import trace_in_turn

SENTENCES = ["The cat sat on the mat.", "A dog.", "The dog sees the cat and the mat."]
ARGUMENTS = {"beam_size": 3, "alpha": 0.6}


def silent(step: int, most: int) -> None:
    pass


def leave(step: int, most: int) -> None:
    raise InterruptedError


class Visitors:
    """Visitors who ask while `schedule` runs other work.

    Attributes:
        together: number of sentences in each call of `traces`.
        alone: sentences traced alone.
    """

    def __init__(self, model: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
        self.model, self.schedule = model, Scheduler()
        self.batches = Batches(self.schedule)
        self.together: list[int] = []
        self.alone: list[str] = []
        self._pool = ThreadPoolExecutor(16)
        self._batches: dict[int, Any] = {}
        traces = model.traces

        def counted(sentences: list[str], **options: Any) -> list[Trace]:
            self.together.append(len(sentences))
            return traces(sentences, **options)

        def single(model: Any, sentence: str, *rest: Any) -> Trace:
            self.alone.append(sentence)
            return trace_in_turn(model, sentence, *rest)

        monkeypatch.setattr(model, "traces", counted)
        monkeypatch.setattr(batches, "trace_in_turn", single)

    def ask(self, sentence: str, report: Report = silent, **arguments: Any) -> Future[Trace]:
        """Ask for a trace; return once it waits."""
        before = self._waiting()
        settings = ARGUMENTS | arguments
        asked = self._pool.submit(self.batches.trace, self.model, sentence, settings, report)
        wait_until(lambda: self._waiting() > before or asked.done())
        return asked

    def _waiting(self) -> int:
        self._batches |= {id(batch): batch for batch in list(self.batches._open.values())}
        return sum(map(len, self._batches.values())) + len(self.alone)

    def check(self, asked: Future[Trace], sentence: str) -> None:
        """Compare a trace with that of the sentence alone."""
        found = asked.result()
        expected = trace_in_turn(self.model, sentence, ARGUMENTS, Scheduler(), silent)
        assert (found.source, found.tgt_tokens) == (sentence, expected.tgt_tokens)
        for name in ("cross", "encoder_self", "decoder_self", "log_probs"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-5)
        assert found.forcing_gap is not None and found.forcing_gap < 1e-4


@pytest.fixture
def people(tiny_translator: Translator, monkeypatch: pytest.MonkeyPatch) -> Visitors:
    return Visitors(tiny_translator, monkeypatch)


def test_bounded_batches_give_the_traces_of_single_sentences(people: Visitors) -> None:
    with people.schedule.turn():
        asked = [people.ask(SENTENCES[number % 3]) for number in range(MOST + 2)]
    for number, each in enumerate(asked):
        people.check(each, SENTENCES[number % 3])
    assert people.together == [MOST, 2] and not people.alone


def test_other_settings_and_long_sentences_are_not_joined(people: Visitors) -> None:
    long = "dog " * (SHORT // 4 + 1)
    with people.schedule.turn():
        asked = [
            people.ask(SENTENCES[0]), people.ask(SENTENCES[0], beam_size=2),
            people.ask(SENTENCES[1], prefix=[7]), people.ask(long),
        ]  # fmt: skip
    for each in asked:
        each.result()
    assert people.together == [1, 1] and people.alone == [SENTENCES[1], long]


def test_a_sentence_that_cannot_be_traced_leaves_the_others_theirs(people: Visitors) -> None:
    with people.schedule.turn():
        good, bad = (people.ask(each) for each in (SENTENCES[0], " "))
    people.check(good, SENTENCES[0])
    with pytest.raises(InputError, match=r"^the sentence is blank"):
        bad.result()
    assert sorted(people.alone) == [" ", SENTENCES[0]]


@pytest.mark.parametrize("leaving", [{0}, {1}, {0, 1}])
def test_visitors_who_leave_are_not_waited_for(people: Visitors, leaving: set[int]) -> None:
    with people.schedule.turn():
        asked = [
            people.ask(sentence, leave if number in leaving else silent)
            for number, sentence in enumerate(SENTENCES[:2])
        ]
        for number in leaving:
            with pytest.raises(InterruptedError):
                asked[number].result()
        assert wait_until(lambda: people.schedule.waiting == int(len(leaving) < 2))
    for number in {0, 1} - leaving:
        people.check(asked[number], SENTENCES[number])
    assert not people.alone and not people.batches._open
    assert bool(people.together) == (len(leaving) < 2)
