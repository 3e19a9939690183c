"""Attention between whole words instead of pieces, and the word alignment read from it.

A tokenizer splits rare words into pieces, and attention is between pieces. To read a map by words,
its columns are summed, since a query spreads its weight of 1 over the pieces of a word, and its
rows are averaged, since each piece of a word is a query with a weight of 1 of its own. Rows of the
merged map therefore still sum to 1 (Clark et al. 2019, section 4.1).

A target word is linked to the source word that its row looks at most (Zenkel et al. 2019). Of a
decoder's rows, "reading" is the one whose input is the word, and "predicting" the one before it,
whose output is the word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from transformer.text.marks import START, decoded
from transformer.trace.records import Trace
from transformer.types import AttentionKind, Floats, Ints

#: Contiguous positions of each word, in order; together they cover an axis.
Groups = tuple[tuple[int, ...], ...]

#: The rule in one sentence, for the screen.
WORD_RULE = (
    "A word reaches from one space or line break to the next, punctuation included. In scripts "
    "without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese), every character with its marks "
    "is a word, or a whole piece. Special tokens stand alone. Weights are summed over the pieces "
    "of a key word and averaged over the pieces of a query word, so every row still sums to 1."
)

#: All white space, no-break spaces and the zero-width space included.
_SPACES = f"{START}\u200b{''.join(filter(str.isspace, map(chr, range(0x3001))))}"
#: Categories of opening brackets and quotation marks, which belong to the word that follows.
_OPENS = ("Ps", "Pi")
#: Scripts without spaces between words, by the names of their characters.
_SPACELESS = re.compile(
    "CJK|IDEOGRAPHIC|HIRAGANA|(?:HALFWIDTH )?KATAKANA|BOPOMOFO|THAI|LAO|KHMER|MYANMAR"
)
#: Characters that no word ends after: vowels written before their consonant, signs that stack the
#: next consonant below, and the zero-width joiner.
_LEADING = frozenset("เแโใไເແໂໃໄ\u1039\u17d2\u200d")


def word_groups(
    tokens: Sequence[str], special: Collection[int] = (), *, only_spaces: bool = False
) -> Groups:
    """Return the positions of each word's pieces.

    Args:
        tokens: pieces in order. Words start at `▁` and other white space, and at characters of
            scripts without spaces; white space at the end belongs to the last word.
        special: positions of `<s>`, `</s>` and padding, each a separate group.
        only_spaces: do not split scripts without spaces.

    Returns: groups that cover 0, ..., len(tokens) - 1 once each, in order.
    """
    alone, texts = frozenset(special), decoded(tokens)
    follows = [False] * len(texts)  # True if the stretch up to the next special token has a word
    for at in reversed(range(len(texts))):
        more = at + 1 < len(texts) and at + 1 not in alone and follows[at + 1]
        follows[at] = more or not _blank(texts[at])
    groups: list[list[int]] = []
    word = ""  # the text of the last group
    for position, text in enumerate(texts):
        begins = not groups or position in alone or position - 1 in alone
        if not begins and text and follows[position] and not _blank(word):
            begins = _blank(word[-1]) or _blank(text[0])
            begins = begins or (not only_spaces and _parted(word, text[0]))
        if begins:
            groups.append([])
            word = ""
        groups[-1].append(position)
        word += text
    return tuple(map(tuple, groups))


def _blank(text: str) -> bool:
    return not text.strip(_SPACES)


def _parted(word: str, after: str) -> bool:
    """Return True if a character begins a word, without a space, because of either's script."""
    numbers = unicodedata.category(word[-1]) == unicodedata.category(after) == "Nd"
    opens = unicodedata.category(word[-1]) in _OPENS or word[-1] in _LEADING
    if opens or numbers or _extends(after):
        return False
    last = next((letter for letter in reversed(word) if not _extends(letter)), word[0])
    return _is_spaceless(last) or _is_spaceless(after)


@lru_cache(maxsize=16_384)
def _is_spaceless(letter: str) -> bool:
    return _SPACELESS.match(unicodedata.name(letter, "")) is not None


def _extends(letter: str) -> bool:
    """Return True for marks, repetition signs, joiners and closing punctuation."""
    kind = unicodedata.category(letter)
    closes = kind[0] == "P" and kind not in _OPENS
    return closes or kind[0] == "M" or kind == "Lm" or letter in "\u200c\u200d"


def merge(maps: Floats, query_groups: Groups | None, key_groups: Groups | None) -> Floats:
    """Merge maps between pieces: sum over the keys in each group, average over its queries.

    Args:
        maps: [..., n, m], float32.
        query_groups, key_groups: contiguous groups that cover an axis, as from `word_groups`; None
            leaves the axis as it is.

    Returns: [..., number of query groups, number of key groups]; rows keep their sum,
    averaged over a group. The array itself if nothing changes.

    Raises: `ValueError` if the groups do not cover their axis in order.
    """
    merged = maps
    if key_groups is not None:
        starts = _starts(key_groups, maps.shape[-1], "key")
        if len(starts) < maps.shape[-1]:
            merged = np.add.reduceat(merged, starts, axis=-1)
    if query_groups is not None:
        starts = _starts(query_groups, maps.shape[-2], "query")
        if len(starts) < maps.shape[-2]:
            shares = (1 / np.diff(starts, append=maps.shape[-2])).astype(np.float32)
            merged = np.add.reduceat(merged, starts, axis=-2) * shares[:, None]
    return merged


def group_labels(tokens: Sequence[str], groups: Groups) -> tuple[str, ...]:
    """Return the text of each group: its pieces joined, bytes as characters, no outer spaces."""
    joined = ("".join(decoded([tokens[position] for position in group])) for group in groups)
    return tuple(text.strip(_SPACES) or text for text in joined)


def predicted_words(predicted: Sequence[str], rows: Groups, end: bool = True) -> tuple[str, ...]:
    """Return, for each word that a decoder reads, the whole word to which its last piece leads.

    Args:
        predicted: the token predicted at each position.
        rows: positions of the pieces of each word read.
        end: whether the last token ends the text.
    """
    words = word_groups(predicted, {len(predicted) - 1} if end else ())
    labels = group_labels(predicted, words)
    leads = {at: label for word, label in zip(words, labels, strict=True) for at in word}
    return tuple(leads[row[-1]] for row in rows)


@dataclass(frozen=True, eq=False)
class WordMaps:
    """All maps of one kind between whole words."""

    # [L, H, n, m], summed over a key's pieces, averaged over a query's.
    weights: Floats
    queries: tuple[str, ...]  # [n], the words
    keys: tuple[str, ...]  # [m]
    query_groups: Groups  # the positions of each word's pieces
    key_groups: Groups


def maps_by_words(trace: Trace, kind: AttentionKind) -> WordMaps:
    """Return the maps of one kind of attention between words; special tokens stand alone."""
    queries, keys = trace.axis_tokens(kind)
    source, target = trace.src_special, trace.tgt_special
    rows = word_groups(queries, source if kind == "encoder_self" else target)
    columns = word_groups(keys, target if kind == "decoder_self" else source)
    return WordMaps(
        merge(trace.attention(kind), rows, columns),
        group_labels(queries, rows), group_labels(keys, columns), rows, columns,
    )  # fmt: skip


def _starts(groups: Groups, length: int, axis: str) -> list[int]:
    """Return the first position of each group, after checking that they cover an axis."""
    covered = [position for group in groups for position in group]
    if covered != list(range(length)) or not all(groups):
        raise ValueError(
            f"{axis} groups do not cover the positions 0 to {length - 1} in order, once each"
        )
    return [group[0] for group in groups]


Row = Literal["reading", "predicting"]

#: A link: (source word, target word), from 0.
Link = tuple[int, int]


@dataclass(frozen=True)
class Gold:
    """Links of one sentence pair drawn by people (Och and Ney 2003)."""

    sure: frozenset[Link]  # links that everyone agrees on
    possible: frozenset[Link]  # links that are allowed; the sure ones are among them


def links(words: Floats) -> frozenset[Link]:
    """Link every target word to the source word with the largest weight.

    Args: words: [target words, source words].
    """
    return frozenset((int(row.argmax()), target) for target, row in enumerate(words) if len(row))


def diagonal(n_targets: int, n_sources: int) -> frozenset[Link]:
    """Link target word t to source word t n_sources / n_targets, rounded: a guess, no model."""
    places = (min(round(t * n_sources / n_targets), n_sources - 1) for t in range(n_targets))
    return frozenset((source, target) for target, source in enumerate(places))


def alignment_counts(predictions: Iterable[frozenset[Link]], gold: Iterable[Gold]) -> Ints:
    """Return |A and S| + |A and P|, and |A| + |S|, of every sentence: [n, 2]."""
    counts = [
        (len(links & truth.sure) + len(links & truth.possible), len(links) + len(truth.sure))
        for links, truth in zip(predictions, gold, strict=True)
    ]
    return np.array(counts, np.int64)


def alignment_error(predictions: Iterable[frozenset[Link]], gold: Iterable[Gold]) -> float:
    """Return AER = 1 - (|A and S| + |A and P|) / (|A| + |S|) over all sentences (Och and Ney 2003).

    0 is the best, 1 the worst; NaN without any link.
    """
    right, total = alignment_counts(predictions, gold).sum(axis=0)
    return float(1 - right / total) if total else float("nan")


@dataclass(frozen=True, eq=False)
class SourceBlock:
    """The rows of a translation over the columns of its source, in one text."""

    src_tokens: tuple[str, ...]  # [S], ends with `</s>`
    tgt_tokens: tuple[str, ...]  # [T], starts with `<s>`
    weights: Floats  # [L, H, T, S], a part of `decoder_self`; rows sum to at most 1

    @property
    def share(self) -> Floats:
        """Weight of each row on the source, [L, H, T]."""
        summed: Floats = self.weights.sum(axis=-1)
        return summed


def source_block(trace: Trace) -> SourceBlock:
    """Cut the map of a translator of one stack into source and translation, which starts at `<s>`.

    Raises: `ValueError` for a text without it.
    """
    bos = "<s>"
    if bos not in trace.tgt_tokens[1:]:
        raise ValueError("this text holds no source: no token stands between two parts")
    start = trace.tgt_tokens.index(bos)
    return SourceBlock(
        trace.tgt_tokens[:start],
        trace.tgt_tokens[start:],
        trace.decoder_self[:, :, start:, :start],
    )
