"""Examples of a head's work and the places it works at."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.errors import InputError
from transformer.study.corpus import Sentence
from transformer.study.examples import Example, examples, pairs_of
from transformer.study.records import Looks, Role, Study
from transformer.study.where import OFS, Look, Term, Where
from transformer.trace.removals import Head
from transformer.types import AttentionKind

KEPT = [
    Sentence("a", ("The", "old", "cat", "sat", "."), ("DET", "ADJ", "NOUN", "VERB", "PUNCT"),
         (2, 2, 3, -1, 3), ("det", "amod", "nsubj", "root", "punct"), (-1,) * 5,
         ("Die", "Katze", "saß."), "The old cat sat."),
    Sentence("a", ("It", "ran"), ("PRON", "VERB"), (1, -1), ("nsubj", "root"), (-1, -1),
         ("Sie", "rannte", "ja"), "It ran"),
    Sentence("b", ("She", "saw", "the", "cat", "!"), ("PRON", "VERB", "DET", "NOUN", "PUNCT"),
         (1, -1, 3, 1, 1), ("nsubj", "root", "det", "obj", "punct"), (-1,) * 5,
         ("Sie", "sah", "die", "Katze!"), "She saw the cat!"),
]  # fmt: skip


SHAPES: dict[AttentionKind, tuple[int, int]] = {
    "encoder_self": (1, 3), "decoder_self": (2, 2), "cross": (2, 2),
}  # fmt: skip


def study_of(
    sentences: list[Sentence], seed: int, shapes: dict[AttentionKind, tuple[int, int]] = SHAPES,
    weights: tuple[int, int] = (0, 4), own: bool = False,
) -> Study:  # fmt: skip
    """Looks at random keys, with weights from a range; those of an encoder also at themselves."""
    rng, looks = np.random.default_rng(seed), {}
    for kind, shape in shapes.items():
        counts = [(len(each.queries(kind)), len(each.keys(kind))) for each in sentences]
        starts = np.cumsum([0, *(n for n, _ in counts)])
        drawn = [
            [
                rng.integers(0, max(m, 1), (*shape, n)),
                rng.integers(*(weights if m else (0, 1)), (*shape, n)),
            ]
            for n, m in counts
        ]
        empty = [np.zeros((*shape, 0))] * 2
        keys, values = (
            np.concatenate(each, -1).astype(np.uint8) for each in zip(empty, *drawn, strict=True)
        )
        selves = rng.integers(0, 100, (*shape, starts[-1])).astype(np.uint8)
        looks[kind] = Looks(
            starts, keys, values, selves if own and kind == "encoder_self" else None
        )
    heads = tuple(
        Head(kind, layer, head)
        for kind, (layers, n) in shapes.items()
        for layer in range(layers)
        for head in range(n)
    )
    return Study("m", "", "", "c", "", "", len(sentences), 0, 1, 0, "", (), heads, {},
                 tuple(sentences), looks)  # fmt: skip


@pytest.fixture(params=range(4))
def study(request: pytest.FixtureRequest) -> Study:
    return study_of(
        KEPT * 3, request.param, {"encoder_self": (1, 2), "cross": (2, 1)}, (1, 156), True
    )


def trial_of(
    name: str, study: Study, head: Head, at: int, query: int, wanted: int | None
) -> tuple[bool, float, int] | None:
    """Whether a look is right, its weight and key; None for a query that is no trial."""
    sentence, looks = study.sentences[at], study.looks[head.kind]
    keys, weights = looks.of(head, at)
    words = sentence.keys(head.kind)
    key, weight, m = int(keys[query]), float(weights[query]), len(words)
    if wanted is not None:
        return key == wanted and weight > 0, weight, key
    if m < 2:
        return None
    if name == "marks":
        return unicodedata.category(words[key][0]) == "Po" and weight > 0.5, weight, key
    own, others = 0.0, m
    if looks.own is not None:
        own = float(looks.own[head.layer, head.head, looks.starts[at] + query]) / 255
        others = m - 1 if head.kind == "encoder_self" else query
    on_words = (own + others * weight, own + weight)  # most and least
    on_others = 1 - on_words[0]
    weight, key = max((on_others, -1), (own, query), (weight, key))
    if name in ("previous", "next", "same"):
        there = query + {"next": 1, "previous": -1, "same": 0}[name]
        return (key == there, weight, key) if 0 <= there < m else None
    if name == "end" or head.kind == "decoder_self":
        if on_others < 0.504 and 1 - on_words[1] > 0.499:
            return None  # of that, the study does not keep how much is on other words
        return on_others >= 0.504, weight, key
    assert name == "first"
    if query <= (0 if head.kind == "cross" else 1):
        return None
    return key == 0 and weight > 0.5, weight, key


@pytest.mark.parametrize(
    "name", ["previous", "next", "same", "first", "end", "marks", "up:det", "down:nsubj"]
)
def test_best_failed_and_random_are_those_of_a_plain_loop(study: Study, name: str) -> None:
    role = Role(name, name, "dependencies" if ":" in name else "text")
    for head in study.heads:
        if head.kind == "cross" and ":" in name:
            assert not examples(study, pairs_of(study), role, head).n, "a translation has none"
        if head.kind == "cross" and (":" in name or name in ("previous", "next", "same")):
            continue
        trials: list[tuple[int, int, bool, float, int]] = []
        for at, sentence in enumerate(study.sentences):
            keys, _ = study.looks[head.kind].of(head, at)
            wanted: dict[int, list[int]] = {}
            for child, (parent, relation) in enumerate(
                zip(sentence.parents, sentence.relations, strict=True)
            ):
                if parent >= 0 and name == f"up:{relation}":
                    wanted.setdefault(child, []).append(parent)
                if parent >= 0 and name == f"down:{relation}":
                    wanted.setdefault(parent, []).append(child)
            for query in range(len(keys)):
                for one in wanted.get(query, []) if ":" in name else [None]:
                    if found_one := trial_of(name, study, head, at, query, one):
                        trials.append((at, query, *found_one))
        found = examples(study, pairs_of(study), role, head, most=3)
        assert found.n == len(trials)
        known = {(at, query): (right, weight, key) for at, query, right, weight, key in trials}
        for each in (*found.best, *found.failed, *found.random):
            right, weight, key = known[each.sentence, each.query]
            assert (each.right, each.key) == (right, key)
            assert each.weight == pytest.approx(weight)
        for some, right in ((found.best, True), (found.failed, False)):
            sentences = {at for at, _, is_so, _, _ in trials if is_so is right}
            assert len(some) == min(3, len(sentences)) and all(each.right is right for each in some)
            assert len({each.sentence for each in some}) == len(some)
            heaviest = sorted(
                (max(w for a, _, s, w, _ in trials if a == at and s is right) for at in sentences),
                reverse=True,
            )
            assert [each.weight for each in some] == pytest.approx(heaviest[:3])
        assert len(found.random) == min(3, len({at for at, *_ in trials}))


def test_the_random_ones_depend_on_the_seed_alone(study: Study) -> None:
    role, pairs = Role("previous", "previous"), pairs_of(study)

    def drawn(seed: int) -> list[Example]:
        return examples(study, pairs, role, study.heads[0], most=4, seed=seed).random

    assert drawn(1) == drawn(1) and len({tuple(drawn(seed)) for seed in range(5)}) > 1


def test_the_first_token_of_a_decoder_is_no_word(study: Study) -> None:
    looks, head = study.looks["encoder_self"], Head("decoder_self", 0, 0)
    other = replace(study, looks={"decoder_self": looks}, heads=(head,), sentences=tuple(
        replace(each, target=each.words) for each in study.sentences
    ))  # fmt: skip
    found = examples(other, {}, Role("first", "first"), head, most=9)
    assert found.best and {each.key for each in found.best} == {-1}
    for each in (*found.best, *found.failed):
        assert trial_of("first", other, head, each.sentence, each.query, None) == (
            each.right, pytest.approx(each.weight), each.key,
        )  # fmt: skip


WORDS, TAGS, RELATIONS = (
    ("The", "the", "cat", "Cats"),
    ("DET", "NOUN"),
    ("nsubj", "nsubj:pass", "det"),
)
PIECES = {"The": ["▁The"], "the": ["▁the"], "cat": ["▁c", "at"], "Cats": ["▁C", "at", "s"]}


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
