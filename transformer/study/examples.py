"""Example sentences for a role and a head, and search for sentences in which a head looks.

Trials use the words stored by a study. For a positional or annotated role, a hit has its largest
weight on the target word. Special tokens hold the rest of a row: at least `rest - w * n` if the n
other words have weights up to w. A trial is left out if the stored weights do not decide it.

A study stores the word with each head's largest weight from each word. A `Term` matches words on
either side by form, part of speech, relation, or model token.

    where = Where(Study.load("checkpoints/everyday-en-de/studies/gum"))
    where(Head("encoder_self", 1, 3), Term("tag", "ADJ"), Term("tag", "NOUN")).looks
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from transformer.study.corpus import Sentence
from transformer.study.records import Role, Study
from transformer.study.roles import annotated, is_mark
from transformer.trace.removals import Head
from transformer.types import AttentionKind, Bools, Floats, InputError, Ints, literals

#: Words match ignoring case, relations match their subtypes, and tokens match any token of the
#: word encoded alone, with or without "▁".
Of = Literal["word", "tag", "relation", "token"]
OFS: tuple[Of, ...] = get_args(Of)


class Term(NamedTuple):
    """One side of a query."""

    of: Of
    value: str  # "dog", "NOUN", "nsubj", "▁dog"


class Look(NamedTuple):
    """The word that a head looks at, with 0-based word indices."""

    sentence: int  # index in `Study.sentences`
    query: int  # query word
    key: int  # word with the largest weight
    weight: float  # on `key`, 0 to 1


class Answer(NamedTuple):
    """Search results."""

    looks: list[Look]  # strongest look in each sentence, largest weight first
    n_sentences: int  # matching sentences, including those not in `looks`
    n_looks: int  # matching looks


class _Words:
    """Words of one axis over all sentences, as indices of distinct values."""

    def __init__(
        self,
        sentences: Sequence[Sentence],
        rows: Sequence[Sequence[str]],
        pieces: Callable[[str], Sequence[str]] | None,
    ) -> None:
        self.starts = np.cumsum([0, *map(len, rows)])
        #: index by distinct value, None without annotation; and the index of each word, [W]
        self._columns: dict[Of, tuple[dict[str | None, int], NDArray[np.int32]]] = {}
        for of in OFS:
            index: dict[str | None, int] = {}
            values = itertools.chain(*map(partial(_values, of), sentences, rows))
            numbers = (index.setdefault(value, len(index)) for value in values)
            self._columns[of] = index, np.fromiter(numbers, np.int32, self.starts[-1])
        words = self._columns["token"][0] if pieces else ()
        self._pieces = {
            word: {name for piece in pieces(word) for name in (piece, piece.lstrip("▁"))}
            for word in words if word is not None and pieces is not None
        }  # fmt: skip

    def are(self, term: Term) -> Bools:
        """Return the words that match a term, [W]."""
        (of, value), (index, numbers) = term, self._columns[term.of]
        if of == "token":
            matches = [value in self._pieces.get(word or "", ()) for word in index]
        elif of == "word":
            matches = [value.casefold() == word for word in index]
        else:
            matches = [f"{word}:".startswith(f"{value}:") and word is not None for word in index]
        words: Bools = np.array(matches, bool)[numbers]
        return words

    def values(self, of: Of) -> list[str]:
        """Return distinct values of one kind in alphabetical order."""
        return sorted(value for value in self._columns[of][0] if value is not None)


def _values(of: Of, sentence: Sentence, words: Sequence[str]) -> Sequence[str | None]:
    if of == "word":
        return [word.casefold() for word in words]
    row = {"tag": sentence.tags, "relation": sentence.relations}.get(of, words)
    return row if of == "token" or (row and words is sentence.words) else (None,) * len(words)


class Where:
    """Immutable, thread-safe index of a study's sentences."""

    def __init__(self, study: Study, pieces: Callable[[str], Sequence[str]] | None = None) -> None:
        """Index a study; `pieces` returns the tokens of a word, or token terms match nothing."""
        self.study = study
        self._axes: dict[tuple[AttentionKind, bool], _Words] = {}
        axes: dict[bool, _Words] = {}
        for kind in study.looks:
            for is_key in (False, True):
                rows = [
                    sentence.keys(kind) if is_key else sentence.queries(kind)
                    for sentence in study.sentences
                ]
                own = all(row is s.words for row, s in zip(rows, study.sentences, strict=True))
                if own not in axes:
                    axes[own] = _Words(study.sentences, rows, pieces)
                self._axes[kind, is_key] = axes[own]

    @literals
    def values(self, kind: AttentionKind, of: Of, *, keys: bool) -> list[str]:
        """Return possible term values on one side in alphabetical order."""
        return self._axes[kind, keys].values(of)

    def __call__(
        self, head: Head, query: Term | None = None, key: Term | None = None, most: int = 10
    ) -> Answer:
        """Return sentences in which a head looks from `query` to `key`; None matches any word.

        Raises: `InputError` if the study does not include the head.
        """
        if head not in self.study.heads or head.kind not in self.study.looks:
            raise InputError(f"the study has no data on {head.off.place}")
        looks = self.study.looks[head.kind]
        weights = looks.weights[head.layer, head.head]  # [W]
        keys = looks.keys[head.layer, head.head]
        hits = weights > 0
        if query is not None:
            hits &= self._axes[head.kind, False].are(query)
        at = np.flatnonzero(hits)
        sentence = np.searchsorted(looks.starts, at, "right") - 1
        if key is not None:
            axis = self._axes[head.kind, True]
            right = axis.are(key)[axis.starts[sentence] + keys[at]]
            at, sentence = at[right], sentence[right]
        order = np.argsort(255 - weights[at], kind="stable")
        _, first = np.unique(sentence[order], return_index=True)
        best = order[np.sort(first)[:most]]
        best_looks = [
            Look(int(sentence[row]), int(at[row] - looks.starts[sentence[row]]),
                 int(keys[at[row]]), float(weights[at[row]]) / 255)
            for row in best
        ]  # fmt: skip
        return Answer(best_looks, len(first), len(at))


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
