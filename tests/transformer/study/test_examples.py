"""Examples of roles: equal to a plain loop over the words of the sentences kept."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import numpy as np
import pytest

from transformer.study.corpus import Sentence
from transformer.study.examples import Example, examples, pairs_of
from transformer.study.records import Looks, Role, Study
from transformer.trace.removals import Head
from transformer.types import AttentionKind

HEADS = (
    Head("encoder_self", 0, 0), Head("encoder_self", 0, 1),
    Head("cross", 0, 0), Head("cross", 1, 0),
)  # fmt: skip
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


@pytest.fixture(params=range(4))
def study(request: pytest.FixtureRequest) -> Study:
    rng, kept = np.random.default_rng(request.param), KEPT * 3
    looks: dict[AttentionKind, Looks] = {}
    shapes: dict[AttentionKind, tuple[int, int]] = {"encoder_self": (1, 2), "cross": (2, 1)}
    for kind, shape in shapes.items():
        counts = [(len(each.queries(kind)), len(each.keys(kind))) for each in kept]
        keys = [rng.integers(0, m, (*shape, n)) for n, m in counts]
        starts = np.cumsum([0, *(n for n, _ in counts)])
        own = rng.integers(0, 100, (*shape, starts[-1])).astype(np.uint8)
        looks[kind] = Looks(
            starts, np.concatenate(keys, -1).astype(np.uint8),
            rng.integers(1, 156, (*shape, starts[-1])).astype(np.uint8),
            own if kind == "encoder_self" else None,
        )  # fmt: skip
    return Study(
        "m", "", "", "c", "", "", len(kept), 0, 1, 0, "", (), HEADS, {}, tuple(kept), looks
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
        return unicodedata.category(words[key][0]) == "Po" and weight > 127 / 255, weight, key
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
    return key == 0 and weight > 127 / 255, weight, key


@pytest.mark.parametrize(
    "name", ["previous", "next", "same", "first", "end", "marks", "up:det", "down:nsubj"]
)
def test_best_failed_and_random_are_those_of_a_plain_loop(study: Study, name: str) -> None:
    role = Role(name, name, "dependencies" if ":" in name else "text")
    for head in HEADS:
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
        return examples(study, pairs, role, HEADS[0], most=4, seed=seed).random

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
