"""Sentences where a head looks from one thing to another, ranked by weight.

A study keeps the word that each head looks at from each word. A `Term` says which words are meant
on either side: a word, a part of speech, a relation, or a token of the model.

    where = Where(Study.load("checkpoints/everyday-en-de/studies/gum"))
    where(Head("encoder_self", 1, 3), Term("tag", "ADJ"), Term("tag", "NOUN")).looks
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from transformer.errors import InputError
from transformer.study.corpus import Sentence
from transformer.study.records import Study
from transformer.trace.removals import Head
from transformer.types import AttentionKind, Bools

#: Words are compared without case; a relation stands for its subtypes too; a token is one of those
#: that the model cuts a word into by itself, with or without the mark of a word's start.
Of = Literal["word", "tag", "relation", "token"]
OFS: tuple[Of, ...] = get_args(Of)


class Term(NamedTuple):
    """One side of a question."""

    of: Of
    value: str  # "dog", "NOUN", "nsubj", "▁dog"


class Look(NamedTuple):
    """A word that a head looks at; words are counted from 0."""

    sentence: int  # among the study's
    query: int  # the word that looks
    key: int  # the word that it looks at
    weight: float  # on it, 0 to 1


class Answer(NamedTuple):
    """The sentences that were asked for."""

    looks: list[Look]  # one for each sentence, its strongest; largest weight first, then in order
    n_sentences: int  # of all there are
    n_looks: int


class _Words:
    """The words of one axis, sentence after sentence, as numbers of distinct values."""

    def __init__(
        self,
        sentences: Sequence[Sentence],
        rows: Sequence[Sequence[str]],
        pieces: Callable[[str], Sequence[str]] | None,
    ) -> None:
        self.starts = np.cumsum([0, *map(len, rows)])
        #: distinct values, None if a word has no annotation; and each word's index in them, [W]
        self._columns: dict[Of, tuple[dict[str | None, int], NDArray[np.int32]]] = {}
        for of in OFS:
            known: dict[str | None, int] = {}
            every = itertools.chain(*map(partial(_values, of), sentences, rows))
            numbers = (known.setdefault(value, len(known)) for value in every)
            self._columns[of] = known, np.fromiter(numbers, np.int32, self.starts[-1])
        words = self._columns["token"][0] if pieces else ()
        self._pieces = {
            word: {name for piece in pieces(word) for name in (piece, piece.lstrip("▁"))}
            for word in words if word is not None and pieces is not None
        }  # fmt: skip

    def are(self, term: Term) -> Bools:
        """Return which words are meant, [W]."""
        (of, value), (known, numbers) = term, self._columns[term.of]
        if of == "token":
            chosen = [value in self._pieces.get(word or "", ()) for word in known]
        elif of == "word":
            chosen = [value.casefold() == word for word in known]
        else:
            chosen = [f"{word}:".startswith(f"{value}:") and word is not None for word in known]
        found: Bools = np.array(chosen, bool)[numbers]
        return found

    def values(self, of: Of) -> list[str]:
        """Return the distinct values of one kind, in alphabetical order."""
        return sorted(value for value in self._columns[of][0] if value is not None)


def _values(of: Of, sentence: Sentence, words: Sequence[str]) -> Sequence[str | None]:
    if of == "word":
        return [word.casefold() for word in words]
    row = {"tag": sentence.tags, "relation": sentence.relations}.get(of, words)
    return row if of == "token" or (row and words is sentence.words) else (None,) * len(words)


class Where:
    """Immutable, thread-safe index of a study's sentences."""

    def __init__(self, study: Study, pieces: Callable[[str], Sequence[str]] | None = None) -> None:
        """Make an index; the study is kept.

        Args: pieces: the tokens of a word; without it, questions about tokens find nothing.
        """
        self.study = study
        self._axes: dict[tuple[AttentionKind, bool], _Words] = {}
        made: dict[bool, _Words] = {}
        for kind in study.looks:
            for is_key in (False, True):
                rows = [
                    sentence.keys(kind) if is_key else sentence.queries(kind)
                    for sentence in study.sentences
                ]
                own = all(row is s.words for row, s in zip(rows, study.sentences, strict=True))
                if own not in made:
                    made[own] = _Words(study.sentences, rows, pieces)
                self._axes[kind, is_key] = made[own]

    def values(self, kind: AttentionKind, of: Of, *, keys: bool) -> list[str]:
        """Return what a term may be on one side, in alphabetical order."""
        return self._axes[kind, keys].values(of)

    def __call__(
        self, head: Head, query: Term | None = None, key: Term | None = None, most: int = 10
    ) -> Answer:
        """Return the sentences where a head looks from `query` to `key`; None is any word.

        Raises: `InputError` for a head that the study does not have.
        """
        if head not in self.study.heads or head.kind not in self.study.looks:
            raise InputError(f"the study has no looks of {head.off.place}")
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
        found = [
            Look(int(sentence[row]), int(at[row] - looks.starts[sentence[row]]),
                 int(keys[at[row]]), float(weights[at[row]]) / 255)
            for row in best
        ]  # fmt: skip
        return Answer(found, len(first), len(at))
