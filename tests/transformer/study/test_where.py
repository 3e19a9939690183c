"""Sentences where a head looks from X to Y: equal to a plain loop over all looks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.errors import InputError
from transformer.study.corpus import Sentence
from transformer.study.records import Looks, Study
from transformer.study.where import OFS, Look, Term, Where
from transformer.trace.removals import Head
from transformer.types import AttentionKind

WORDS, TAGS, RELATIONS = (
    ("The", "the", "cat", "Cats"),
    ("DET", "NOUN"),
    ("nsubj", "nsubj:pass", "det"),
)
PIECES = {"The": ["▁The"], "the": ["▁the"], "cat": ["▁c", "at"], "Cats": ["▁C", "at", "s"]}
SHAPES: dict[AttentionKind, tuple[int, int]] = {
    "encoder_self": (1, 3), "decoder_self": (2, 2), "cross": (2, 2),
}  # fmt: skip


@st.composite
def kept(draw: st.DrawFn) -> Sentence:
    words = draw(st.lists(st.sampled_from(WORDS), max_size=5))
    target = draw(st.lists(st.sampled_from(WORDS), max_size=4))
    n = len(words) if draw(st.booleans()) else 0
    return Sentence(
        "d", tuple(words), tuple(draw(st.lists(st.sampled_from(TAGS), min_size=n, max_size=n))),
        (-1,) * n, tuple(draw(st.lists(st.sampled_from(RELATIONS), min_size=n, max_size=n))),
        target=tuple(target),
    )  # fmt: skip


def study_of(sentences: list[Sentence], seed: int) -> Study:
    rng, looks = np.random.default_rng(seed), {}
    for kind, shape in SHAPES.items():
        counts = [(len(each.queries(kind)), len(each.keys(kind))) for each in sentences]
        starts = np.cumsum([0, *(n for n, _ in counts)])
        keys = [rng.integers(0, max(m, 1), (*shape, n)) for n, m in counts]
        weights = [rng.integers(0, 4 if m else 1, (*shape, n)) for n, m in counts]
        empty = np.zeros((*shape, 0), np.uint8)
        looks[kind] = Looks(
            starts, np.concatenate([empty, *keys], -1).astype(np.uint8),
            np.concatenate([empty, *weights], -1).astype(np.uint8), None,
        )  # fmt: skip
    heads = tuple(
        Head(kind, layer, head)
        for kind, (layers, n) in SHAPES.items()
        for layer in range(layers)
        for head in range(n)
    )
    return Study("m", "", "", "c", "", "", len(sentences), 0, 1, 0, "", (), heads, {},
                 tuple(sentences), looks)  # fmt: skip


def is_meant(term: Term | None, sentence: Sentence, words: tuple[str, ...], at: int) -> bool:
    if term is None:
        return True
    if term.of == "word":
        return words[at].lower() == term.value.lower()
    if term.of == "token":
        return any(term.value in (each, each[each.startswith("▁") :]) for each in PIECES[words[at]])
    column = sentence.tags if term.of == "tag" else sentence.relations
    if words is not sentence.words or not column:
        return False
    return column[at] == term.value or column[at].split(":")[0] == term.value


def by_hand(study: Study, head: Head, query: Term | None, key: Term | None) -> list[Look]:
    found = []
    for number, sentence in enumerate(study.sentences):
        queries, keys = sentence.queries(head.kind), sentence.keys(head.kind)
        places, weights = study.looks[head.kind].of(head, number)
        for at, (place, weight) in enumerate(zip(places.tolist(), weights.tolist(), strict=True)):
            if (
                weight > 0
                and is_meant(query, sentence, queries, at)
                and is_meant(key, sentence, keys, place)
            ):
                found.append(Look(number, at, place, weight))
    return found


TERMS = st.one_of(st.none(), st.builds(
    Term, st.sampled_from(OFS),
    st.sampled_from([*WORDS, *TAGS, *RELATIONS, "THE", "▁c", "at", "s", "▁", "", "nothing"]),
))  # fmt: skip


@given(st.lists(kept(), max_size=6), st.integers(0, 99), st.integers(0, 10), TERMS, TERMS)
def test_it_is_a_plain_loop(
    sentences: list[Sentence], seed: int, at: int, query: Term | None, key: Term | None
) -> None:
    study = study_of(sentences, seed)
    head = study.heads[at]
    answer = Where(study, lambda word: PIECES[word])(head, query, key, most=4)
    every = by_hand(study, head, query, key)
    best: dict[int, Look] = {}
    for look in sorted(every, key=lambda each: (-each.weight, each.sentence, each.query)):
        best.setdefault(look.sentence, look)
    assert answer.n_looks == len(every) and answer.n_sentences == len(best)
    expected = list(best.values())[:4]
    assert [each[:3] for each in answer.looks] == [each[:3] for each in expected]
    np.testing.assert_allclose([e.weight for e in answer.looks], [e.weight for e in expected])


def test_a_head_that_was_not_studied_is_one_line() -> None:
    where = Where(study_of([Sentence("d", ("cat", "the"))], 0))
    assert where.values("cross", "word", keys=True) == ["cat", "the"]
    with pytest.raises(InputError, match="no looks of decoder self-attention layer 3, head 1"):
        where(Head("decoder_self", 2, 0))
