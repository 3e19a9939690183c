"""Search for sentences in which a head looks from one term to another, ranked by weight.

A study stores the word with each head's largest weight from each word. A `Term` matches words on
either side by form, part of speech, relation, or model token.

    where = Where(Study.load("checkpoints/everyday-en-de/studies/gum"))
    where(Head("encoder_self", 1, 3), Term("tag", "ADJ"), Term("tag", "NOUN")).looks
"""

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
from transformer.types import AttentionKind, Bools, literals

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
