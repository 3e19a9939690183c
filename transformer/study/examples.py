"""Example sentences for a role and a head: its strongest hits and misses, and random trials.

Trials use the words stored by a study. For a positional or annotated role, a hit has its largest
weight on the target word. Special tokens hold the rest of a row: at least `rest - w * n` if the n
other words have weights up to w. A trial is left out if the stored weights do not decide it.
"""

from collections import Counter, defaultdict
from typing import NamedTuple

import numpy as np

from transformer.study.records import Role, Study
from transformer.study.roles import annotated, is_mark
from transformer.trace.removals import Head
from transformer.types import Bools, Floats, Ints

#: Annotated pairs by role, [P, 3]: sentence, query word, key word.
Pairs = dict[str, Ints]


class Example(NamedTuple):
    """One trial of a role, with 0-based word indices."""

    sentence: int  # index in `Study.sentences`
    query: int  # query word
    key: int  # word with the largest weight; -1 for a special token
    target: int  # target word, or `key` if the role has no target
    weight: float  # on `key`, 0 to 1; a lower bound if `key` is -1
    right: bool


class Examples(NamedTuple):
    """Trials of a role and a head, at most one per sentence in each list."""

    n: int  # trials in all stored sentences
    best: list[Example]  # hits, strongest first
    failed: list[Example]  # misses, strongest first
    random: list[Example]  # random trials, in corpus order


def pairs_of(study: Study) -> Pairs:
    """Return the annotated pairs in a study's stored sentences."""
    pairs: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for number, sentence in enumerate(study.sentences):
        if sentence.relations:
            for name, query, key in annotated(sentence):
                pairs[name].append((number, query, key))
    return {name: np.array(rows, np.int64) for name, rows in pairs.items()}


def examples(
    study: Study, pairs: Pairs, role: Role, head: Head, most: int = 10, seed: int = 0
) -> Examples:
    """Return up to `most` examples per list; `pairs` are from `pairs_of`."""
    looks = study.looks[head.kind]
    at, keys, target, right, weights, strength = _trials(study, pairs, role, head)
    sentence = np.searchsorted(looks.starts, at, "right") - 1

    def chosen(rows: Ints) -> list[Example]:
        _, first = np.unique(sentence[rows], return_index=True)
        return [
            Example(
                int(sentence[row]), int(at[row] - looks.starts[sentence[row]]), int(keys[row]),
                int(target[row]), float(weights[row]) / 255, bool(right[row]),
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
    """Return trials [P]: query in all words, key, target, hit, weight in 255ths, strength."""
    looks, kind = study.looks[head.kind], head.kind
    weights = looks.weights[head.layer, head.head].astype(np.float32)
    keys = looks.keys[head.layer, head.head].astype(np.int64)
    if role.needs != "text":
        rows = pairs.get(role.name, np.zeros((0, 3), np.int64))
        if kind != study.kinds[0]:  # translations have no annotation
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
    if role.name not in ("rarest", "marks", "diffuse"):  # include the query and special tokens
        keys = np.where(own > weights, queries, keys)
        weights = np.maximum(own, weights)
        keys, weights = np.where(apart > weights, -1, keys), np.maximum(apart, weights)
    target, strength = keys, weights
    if role.name in ("previous", "next", "same"):
        target = queries + {"previous": -1, "next": 1, "same": 0}[role.name]
        seen = seen & (target >= 0) & (target < sizes)
        right = keys == target
    elif role.name == "diagonal":
        line = queries * (sizes - 1) / np.maximum(np.repeat(lengths, lengths) - 1, 1)
        right = (keys >= 0) & (np.abs(keys - line) <= 1)
    elif role.name == "first" and not (kind == "decoder_self" or len(study.kinds) == 1):
        seen, target = queries > (1 if kind != "cross" else 0), np.zeros_like(keys)
        right = (keys == 0) & (weights > 127)
    elif role.name in ("first", "end"):  # the first token is `<s>`, not a word
        right = (apart > 128) & (keys == -1)  # 128 may be a rounded half
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
            target = np.array(rare, np.int64)[sentence]
            seen = (sizes > 3) & ((queries != target) | (kind == "cross"))
            right = keys == target
    at = np.flatnonzero(seen)
    return at, keys[at], target[at], right[at], weights[at], strength[at]
