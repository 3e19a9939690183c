"""Sentences that wait together are traced together: the same traces, each with its own fate."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.waiting import wait_until
from transformer.errors import InputError
from transformer.trace.records import Trace
from transformer.translator import Translator
from transformer.worker import batches
from transformer.worker.batches import MOST, SHORT, Batches
from transformer.worker.turns import Turns
from transformer.worker.work import trace_in_turn

SENTENCES = ["The cat sat on the mat.", "A dog.", "The dog sees the cat and the mat."]
ARGUMENTS = {"beam_size": 3, "alpha": 0.6}


class LeaveError(Exception):
    """Raised by the reports of who has gone."""


def unheard(step: int, most: int) -> None:
    """No-op progress callback."""


def leave(step: int, most: int) -> None:
    raise LeaveError


class Class:
    """Visitors who ask while another's work has the turn.

    Attributes:
        together: the number of sentences in each call of `traces`.
        alone: sentences traced alone.
    """

    def __init__(self, model: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
        self.model, self.turns = model, Turns(1)
        self.batches = Batches(self.turns)
        self.together: list[int] = []
        self.alone: list[str] = []
        self._pool = ThreadPoolExecutor(16)
        self._seen: dict[int, list[Any]] = {}
        traces, alone = model.traces, batches.trace_in_turn

        def counted(sentences: list[str], **options: Any) -> list[Trace]:
            self.together.append(len(sentences))
            return traces(sentences, **options)

        def single(model: Any, sentence: str, *rest: Any) -> Trace:
            self.alone.append(sentence)
            return alone(model, sentence, *rest)

        monkeypatch.setattr(model, "traces", counted)
        monkeypatch.setattr(batches, "trace_in_turn", single)

    @contextmanager
    def kept_waiting(self) -> Iterator[None]:
        with self.turns.taken(unheard):
            yield

    def ask(
        self, sentence: str, report: Callable[[int, int], None] = unheard, **arguments: Any
    ) -> Future[Trace]:
        """Ask for a trace; returns once it waits."""
        before = self._waiting()
        asked = self._pool.submit(
            self.batches.trace, self.model, sentence, ARGUMENTS | arguments, report
        )
        wait_until(lambda: self._waiting() > before or asked.done())
        return asked

    def _waiting(self) -> int:
        for batch in list(self.batches._open.values()):
            self._seen[id(batch)] = batch
        return sum(map(len, self._seen.values())) + len(self.alone)


@pytest.fixture
def people(tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Class:
    return Class(Translator.load(tiny_checkpoint, "cpu"), monkeypatch)


def check(found: Trace, sentence: str, model: Translator) -> None:
    """Check a trace against that of the sentence alone."""
    expected = trace_in_turn(model, sentence, ARGUMENTS, Turns(1), unheard)
    assert found.source == sentence
    assert found.tgt_tokens == expected.tgt_tokens
    for name in ("cross", "encoder_self", "decoder_self", "log_probs"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-5)
    assert found.forcing_gap is not None and found.forcing_gap < 1e-4


def test_what_waits_is_traced_in_one_batch_as_it_would_be_alone(people: Class) -> None:
    with people.kept_waiting():
        asked = [people.ask(each) for each in SENTENCES]
    for sentence, each in zip(SENTENCES, asked, strict=True):
        check(each.result(), sentence, people.model)
    assert people.together == [len(SENTENCES)]
    assert not people.alone


def test_a_batch_is_bounded(people: Class) -> None:
    with people.kept_waiting():
        asked = [people.ask(SENTENCES[0]) for _ in range(MOST + 2)]
    for each in asked:
        check(each.result(), SENTENCES[0], people.model)
    assert people.together == [MOST, 2]


def test_searches_with_other_settings_and_long_sentences_are_not_joined(people: Class) -> None:
    long = "dog " * (SHORT // 4 + 1)
    with people.kept_waiting():
        people.ask(SENTENCES[0])
        people.ask(SENTENCES[0], beam_size=2)
        people.ask(SENTENCES[1], prefix=[7])
        last = people.ask(long)
    last.result()
    wait_until(lambda: len(people.together) == 2)
    assert people.together == [1, 1]
    assert people.alone == [SENTENCES[1], long]


def test_one_that_cannot_be_traced_does_not_keep_others_from_it(people: Class) -> None:
    with people.kept_waiting():
        good, bad, other = (people.ask(each) for each in (SENTENCES[0], " ", SENTENCES[1]))
    check(good.result(), SENTENCES[0], people.model)
    check(other.result(), SENTENCES[1], people.model)
    with pytest.raises(InputError, match=r"^the sentence is blank"):
        bad.result()
    assert sorted(people.alone) == sorted([SENTENCES[0], " ", SENTENCES[1]])


@pytest.mark.parametrize("who", [0, 1])
def test_who_leaves_is_not_waited_for_and_others_are_traced(people: Class, who: int) -> None:
    with people.kept_waiting():
        asked = [
            people.ask(sentence, leave if number == who else unheard)
            for number, sentence in enumerate(SENTENCES[:2])
        ]
    with pytest.raises(LeaveError):
        asked[who].result()
    check(asked[1 - who].result(), SENTENCES[1 - who], people.model)
    assert not people.alone


def test_a_batch_that_everybody_left_ends(people: Class) -> None:
    gone = threading.Event()

    def may_leave(step: int, most: int) -> None:
        if gone.is_set():
            raise LeaveError

    with people.kept_waiting():
        asked = [people.ask(each, may_leave) for each in SENTENCES]
        gone.set()
        for each in asked:
            with pytest.raises(LeaveError):
                each.result()
    assert not people.together and not people.alone
    assert not people.batches._open


def test_each_hears_how_far_the_batch_is(people: Class) -> None:
    heard: list[list[tuple[int, int]]] = [[], []]
    with people.kept_waiting():
        asked = [
            people.ask(sentence, lambda *step, said=said: said.append(step))
            for sentence, said in zip(SENTENCES, heard, strict=False)
        ]
    for each in asked:
        each.result()
    steps = [[step for step, most in said if most] for said in heard]
    assert steps[0] == steps[1] and len(set(steps[0])) > 1
