"""The sentences behind a number: where a head does best what a role says, where it fails, and any.

Trials are about words here, as the study keeps them. A role about a word at some place, or one that
annotation names, is right where the head looks at that word most. The weight on tokens that are no
words is what the words leave: at least `rest - w * n`, of n other words that each have at most the
weight w. Where the kept numbers leave open what is right, the trial is left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

import numpy as np

from transformer.study.records import Role, Study
from transformer.study.roles import annotated, is_mark
from transformer.trace.removals import Head
from transformer.types import Bools, Floats, Ints

#: Annotated pairs of all sentences by role: sentence, query word and key word [P, 3].
Pairs = dict[str, Ints]


class Example(NamedTuple):
    """One trial of a role; words are counted from 0."""

    sentence: int  # among the study's
    query: int  # the word that looks
    key: int  # the word that gets the most weight; -1 unless the token is a word
    wanted: int  # the word that it should look at; the same one for a role that names none
    weight: float  # on `key`, 0 to 1, and at least that where it is -1
    right: bool


class Examples(NamedTuple):
    """Trials of a role and a head, one for each sentence in a list."""

    n: int  # trials in the sentences that the study keeps
    best: list[Example]  # right, strongest first
    failed: list[Example]  # wrong, strongest first
    random: list[Example]  # of all, in order


def pairs_of(study: Study) -> Pairs:
    """Return all annotated pairs of the sentences that a study keeps."""
    found: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for number, sentence in enumerate(study.sentences):
        if sentence.relations:
            for name, query, key in annotated(sentence):
                found[name].append((number, query, key))
    return {name: np.array(rows, np.int64) for name, rows in found.items()}


def examples(
    study: Study, pairs: Pairs, role: Role, head: Head, most: int = 10, seed: int = 0
) -> Examples:
    """Return examples of a role and a head.

    Args: pairs: from `pairs_of`.  seed: of the random ones.
    """
    looks = study.looks[head.kind]
    at, keys, wanted, right, weights, strength = _trials(study, pairs, role, head)
    sentence = np.searchsorted(looks.starts, at, "right") - 1

    def chosen(rows: Ints) -> list[Example]:
        _, first = np.unique(sentence[rows], return_index=True)
        return [
            Example(
                int(sentence[row]), int(at[row] - looks.starts[sentence[row]]), int(keys[row]),
                int(wanted[row]), float(weights[row]) / 255, bool(right[row]),
            )
            for row in rows[np.sort(first)[:most]]
        ]  # fmt: skip

    order = np.argsort(-strength, kind="stable")
    drawn = np.random.default_rng(seed).permutation(len(at))
    return Examples(
        len(at), chosen(order[right[order]]), chosen(order[~right[order]]),
        sorted(chosen(drawn)),
    )  # fmt: skip


def _trials(
    study: Study, pairs: Pairs, role: Role, head: Head
) -> tuple[Ints, Ints, Ints, Bools, Floats, Floats]:
    """Return the trials of a role [P]: query among all words, key, wanted key, hit, weight on the
    key in 255ths, and strength.
    """
    looks, kind = study.looks[head.kind], head.kind
    weights = looks.weights[head.layer, head.head].astype(np.float32)
    keys = looks.keys[head.layer, head.head].astype(np.int64)
    if role.needs != "text":
        rows = pairs.get(role.name, np.zeros((0, 3), np.int64))
        if kind != study.kinds[0]:  # it reads a translation, which has no annotation
            rows = rows[:0]
        elif kind == "decoder_self":
            rows = rows[rows[:, 2] < rows[:, 1]]
        at = looks.starts[rows[:, 0]] + rows[:, 1]
        right = (keys[at] == rows[:, 2]) & (weights[at] > 0)
        return at, keys[at], rows[:, 2], right, weights[at], weights[at]
    lengths = np.diff(looks.starts)
    queries = np.arange(len(keys)) - np.repeat(looks.starts[:-1], lengths)
    sizes = np.repeat(
        np.array([len(sentence.keys(kind)) for sentence in study.sentences], np.int64), lengths
    )
    own = np.zeros_like(weights) if looks.own is None else np.asarray(
        looks.own[head.layer, head.head], np.float32
    )  # fmt: skip
    others = {"encoder_self": sizes - 1, "decoder_self": queries, "cross": sizes}[kind]
    rest, apart = 255 - weights - own, np.maximum(255 - own - weights * others, 0)
    seen = sizes > 1
    if role.name not in ("rarest", "marks", "diffuse"):  # itself and non-words count too
        keys = np.where(own > weights, queries, keys)
        weights = np.maximum(own, weights)
        keys, weights = np.where(apart > weights, -1, keys), np.maximum(apart, weights)
    wanted, strength = keys, weights
    if role.name in ("previous", "next", "same"):
        wanted = queries + {"previous": -1, "next": 1, "same": 0}[role.name]
        seen = seen & (wanted >= 0) & (wanted < sizes)
        right = keys == wanted
    elif role.name == "diagonal":
        line = queries * (sizes - 1) / np.maximum(np.repeat(lengths, lengths) - 1, 1)
        right = (keys >= 0) & (np.abs(keys - line) <= 1)
    elif role.name == "first" and not (kind == "decoder_self" or len(study.kinds) == 1):
        seen, wanted = queries > (1 if kind != "cross" else 0), np.zeros_like(keys)
        right = (keys == 0) & (weights > 127)
    elif role.name in ("first", "end"):  # the first token is `<s>` there, no word
        right = (apart > 128) & (keys == -1)  # 128 may be a half that was rounded
        seen = seen & (right | (rest <= 127))
    elif role.name == "diffuse":
        right, strength = weights * sizes < 2 * 255, np.abs(rest - 127)
    else:  # "marks" or "rarest"
        sentence = np.repeat(np.arange(len(lengths)), lengths)
        words = [sentence.keys(kind) for sentence in study.sentences]
        if role.name == "marks":
            flat = np.array([is_mark(word) for row in words for word in row], bool)
            starts = np.cumsum([0, *map(len, words)])
            right = flat[starts[sentence] + keys] & (weights > 127)
        else:
            counts = Counter(word.casefold() for row in words for word in row)
            rare = [
                int(np.argmin([counts[word.casefold()] for word in row])) if row else 0
                for row in words
            ]
            wanted = np.array(rare, np.int64)[sentence]
            seen = (sizes > 3) & ((queries != wanted) | (kind == "cross"))
            right = keys == wanted
    at = np.flatnonzero(seen)
    return at, keys[at], wanted[at], right[at], weights[at], strength[at]
