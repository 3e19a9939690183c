"""Sentences where a head looks from one thing to another, ranked by weight.

A study keeps the word that each head looks at from each word. A `Term` says which words are meant
on either side: a word, a part of speech, a relation, or a token of the model.

    where = Where(Study.load("checkpoints/everyday-en-de/studies/gum"))
    where(Head("encoder_self", 1, 3), Term("tag", "ADJ"), Term("tag", "NOUN")).looks
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from transformer.errors import InputError
from transformer.study.records import Kept, Study
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
        sentences: Sequence[Kept],
        axis: Callable[[Kept], Sequence[str]],
        pieces: Callable[[str], Sequence[str]] | None,
    ) -> None:
        self.starts = np.cumsum([0, *(len(axis(each)) for each in sentences)])
        self._numbers: dict[Of, NDArray[np.int32]] = {}  # [W]; -1 without annotation
        self._known: dict[Of, dict[str, int]] = {}
        for of in OFS:
            known, flat = self._known.setdefault(of, {}), np.full(self.starts[-1], -1, np.int32)
            for start, each in zip(self.starts.tolist(), sentences, strict=False):
                words, row = axis(each), axis(each)
                if of in ("tag", "relation"):
                    row = each.tags if of == "tag" else each.relations
                    row = row if words is each.words else ()
                elif of == "word":
                    row = [word.casefold() for word in words]
                flat[start : start + len(row)] = [
                    known.setdefault(value, len(known)) for value in row
                ]
            self._numbers[of] = flat
        words_of: dict[str, list[int]] = {}
        if pieces is not None:
            for word, number in self._known["token"].items():
                for piece in {name for each in pieces(word) for name in (each, each.lstrip("▁"))}:
                    words_of.setdefault(piece, []).append(number)
        self._words_of = words_of

    def are(self, term: Term) -> Bools:
        """Return which words are meant, [W]."""
        known = self._known[term.of]
        chosen = np.zeros(len(known) + 1, bool)  # the last one stands for -1
        if term.of == "token":
            chosen[self._words_of.get(term.value, [])] = True
        elif term.of == "word":
            chosen[known.get(term.value.casefold(), -1)] = term.value.casefold() in known
        else:
            parts = [value == term.value or value.startswith(f"{term.value}:") for value in known]
            chosen[: len(known)] = parts
        found: Bools = chosen[self._numbers[term.of]]
        return found

    def values(self, of: Of) -> list[str]:
        """Return the distinct values of one kind, in alphabetical order."""
        return sorted(self._known[of])


class Where:
    """An index of a study's sentences. It does not change, so threads may share it."""

    def __init__(self, study: Study, pieces: Callable[[str], Sequence[str]] | None = None) -> None:
        """Make an index; the study is kept.

        Args: pieces: the tokens of a word; without it, questions about tokens find nothing.
        """
        self.study = study
        self._axes: dict[tuple[AttentionKind, bool], _Words] = {}
        made: dict[bool, _Words] = {}
        for kind in study.looks:
            for is_key in (False, True):
                name = "keys" if is_key else "queries"
                own = all(getattr(each, name)(kind) is each.words for each in study.sentences)
                if own not in made:
                    made[own] = _Words(
                        study.sentences,
                        lambda each, name=name, kind=kind: getattr(each, name)(kind),  # type: ignore[misc]
                        pieces,
                    )
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
            Look(int(sentence[each]), int(at[each] - looks.starts[sentence[each]]),
                 int(keys[at[each]]), float(weights[at[each]]) / 255)
            for each in best
        ]  # fmt: skip
        return Answer(found, len(first), len(at))
