"""Attention between whole words, and word alignment.

A tokenizer splits rare words into pieces, and attention is between pieces. A word map sums the
columns of each key word, since a query spreads its weight over a word's pieces, and averages the
rows of each query word, since each piece is a query whose weights sum to 1. Rows of the merged map
therefore still sum to 1 (Clark et al. 2019, section 4.1).

A target word is linked to the source word with the largest weight in its row (Zenkel et al. 2019).
Among decoder rows, "reading" has the word as input; "predicting", a row earlier, as output.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from transformer.text.marks import START, decoded, unmarked
from transformer.trace.records import Trace
from transformer.types import AttentionKind, Floats, Ints, literals

#: Contiguous positions of each word, in order, covering an axis.
Units = Literal["tokens", "words"]
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
    """Return the positions of each word's pieces, covering 0 to len(tokens) - 1 in order.

    Args:
        tokens: pieces in order. Words start at `▁` and other white space, and at characters of
            scripts without spaces; white space at the end belongs to the last word.
        special: positions of `<s>`, `</s>` and padding, each a separate group.
        only_spaces: do not split scripts without spaces.
    """
    alone, texts = frozenset(special), decoded(unmarked(tokens))
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
    """Return True if one of the two characters has a script without spaces and a word begins."""
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
    """Merge maps between pieces: sum over grouped keys, average over grouped queries.

    Args:
        maps: [..., n, m], float32.
        query_groups, key_groups: contiguous groups that cover an axis, as from `word_groups`, or
            None to keep the axis.

    Returns: [..., query groups, key groups], or `maps` itself if no group merges anything.

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
    """Return each group's text: its joined pieces, without outer spaces, with bytes decoded."""
    joined = ("".join(decoded([tokens[position] for position in group])) for group in groups)
    return tuple(text.strip(_SPACES) or text for text in joined)


def predicted_words(predicted: Sequence[str], rows: Groups, end: bool = True) -> tuple[str, ...]:
    """Return the predicted word after each word that a decoder reads.

    Args:
        predicted: the token predicted at each position.
        rows: piece positions of each input word; the last piece predicts the next word.
        end: whether the last token ends the text.
    """
    words = word_groups(predicted, {len(predicted) - 1} if end else ())
    labels = group_labels(predicted, words)
    leads = {at: label for word, label in zip(words, labels, strict=True) for at in word}
    return tuple(leads[row[-1]] for row in rows)


@dataclass(frozen=True, eq=False)
class WordMaps:
    """Maps of one kind between whole words."""

    weights: Floats  # [L, H, n, m], summed over key pieces, averaged over query pieces
    queries: tuple[str, ...]  # [n], words
    keys: tuple[str, ...]  # [m], words
    query_groups: Groups  # piece positions of each word
    key_groups: Groups


@literals
def maps_by_words(trace: Trace, kind: AttentionKind) -> WordMaps:
    """Return word maps for one kind of attention; special tokens are separate words."""
    queries, keys = trace.axis_tokens(kind)
    source, target = trace.src_special, trace.tgt_special
    rows = word_groups(queries, source if kind == "encoder_self" else target)
    columns = word_groups(keys, target if kind == "decoder_self" else source)
    return WordMaps(
        merge(trace.attention(kind), rows, columns),
        group_labels(queries, rows), group_labels(keys, columns), rows, columns,
    )  # fmt: skip


def _starts(groups: Groups, length: int, axis: str) -> list[int]:
    """Return each group's first position, checking that groups cover the axis."""
    covered = [position for group in groups for position in group]
    if covered != list(range(length)) or not all(groups):
        raise ValueError(
            f"{axis} groups must cover positions 0 to {length - 1} once each, in order"
        )
    return [group[0] for group in groups]


Row = Literal["reading", "predicting"]

#: What links join; scripts without spaces have "words" too, but not "spaces".
LinkUnits = Literal["words", "spaces", "tokens"]

#: (source word, target word), 0-based.
Link = tuple[int, int]


@dataclass(frozen=True)
class Gold:
    """Human alignment of a sentence pair (Och and Ney 2003)."""

    sure: frozenset[Link]  # unambiguous links
    possible: frozenset[Link]  # all acceptable links, including sure links


def links(words: Floats) -> frozenset[Link]:
    """Link each target word to the source word with the largest weight, from [target, source]."""
    return frozenset((int(row.argmax()), target) for target, row in enumerate(words) if len(row))


def diagonal(n_targets: int, n_sources: int) -> frozenset[Link]:
    """Link target word t to source word t n_sources / n_targets, rounded, as a baseline."""
    places = (min(round(t * n_sources / n_targets), n_sources - 1) for t in range(n_targets))
    return frozenset((source, target) for target, source in enumerate(places))


def alignment_counts(predictions: Iterable[frozenset[Link]], gold: Iterable[Gold]) -> Ints:
    """Return |A and S| + |A and P|, and |A| + |S|, for each sentence, [n, 2]."""
    counts = [
        (len(links & truth.sure) + len(links & truth.possible), len(links) + len(truth.sure))
        for links, truth in zip(predictions, gold, strict=True)
    ]
    return np.array(counts, np.int64)


def alignment_error(predictions: Iterable[frozenset[Link]], gold: Iterable[Gold]) -> float:
    """Return AER = 1 - (|A and S| + |A and P|) / (|A| + |S|) over all sentences (Och and Ney 2003).

    0 is best, 1 is worst; NaN if there are no links.
    """
    right, total = alignment_counts(predictions, gold).sum(axis=0)
    return float(1 - right / total) if total else float("nan")


@dataclass(frozen=True, eq=False)
class SourceBlock:
    """Translation rows and source columns of a decoder-only map."""

    src_tokens: tuple[str, ...]  # [S], ends with `</s>`
    tgt_tokens: tuple[str, ...]  # [T], starts with `<s>`
    weights: Floats  # [L, H, T, S], a block of `decoder_self`; rows sum to at most 1

    @property
    def share(self) -> Floats:
        """Each row's weight on the source, [L, H, T]."""
        summed: Floats = self.weights.sum(axis=-1)
        return summed


def source_block(trace: Trace) -> SourceBlock:
    """Return the translation-to-source block of a decoder-only map, split at `<s>`.

    Raises: `ValueError` if there is no `<s>` between source and translation.
    """
    if "<s>" not in trace.tgt_tokens[1:]:
        raise ValueError("text has no source; expected <s> between source and translation")
    start = trace.tgt_tokens.index("<s>")
    return SourceBlock(
        trace.tgt_tokens[:start], trace.tgt_tokens[start:], trace.decoder_self[:, :, start:, :start]
    )


@dataclass(frozen=True, eq=False)
class Words:
    """Words of a translation and its source, without special tokens, by the rows of one kind."""

    sources: tuple[str, ...]  # [s]
    targets: tuple[str, ...]  # [t]
    columns: Groups  # [s], positions of each source word's pieces
    rows: Groups  # [t], rows of each target word's pieces
    read: tuple[str, ...]  # [t], the pieces that these rows read


@literals
def words_of(trace: Trace, row: Row, units: LinkUnits = "spaces") -> Words:
    """Return the words of a trace. A word whose row is not in the trace is left out."""
    if trace.cross.size:
        sources, read, special = trace.src_tokens, trace.tgt_tokens, set(trace.src_special)
    else:
        block = source_block(trace)
        sources, read, special = block.src_tokens, block.tgt_tokens, {len(block.src_tokens) - 1}
    first, last = int(row == "reading"), trace.predicted_tokens[-1]
    targets = [*read[1:], *[last] * (row == "predicting" and last != "</s>")]
    tags = {at - 1 for at in trace.tgt_special} if trace.cross.size else set()
    columns, groups = _groups(sources, special, units), _groups(targets, tags, units)
    rows = tuple(tuple(at + first for at in group) for group in groups)
    return Words(
        group_labels(sources, columns), group_labels(targets, groups), columns, rows,
        tuple(label.replace(START, " ") for label in group_labels(read, rows)),
    )  # fmt: skip


def _groups(tokens: Sequence[str], special: Collection[int], units: LinkUnits) -> Groups:
    groups = word_groups(tokens, special, only_spaces=units == "spaces")
    if units == "tokens":
        groups = tuple((at,) for at in range(len(tokens)))
    return tuple(group for group in groups if group[0] not in special)


@literals
def word_maps(
    trace: Trace, row: Row, values: Floats | None = None, units: LinkUnits = "spaces"
) -> Floats:
    """Return maps of a translation over words, [..., targets, sources].

    Args: values: a measure of cross-attention edges, [..., T, S]; by default the weights of every
        head, [L, H, T, S]. A one-stack translator has a block of its map.
    """
    if values is None:
        values = trace.cross if trace.cross.size else source_block(trace).weights
    words = words_of(trace, row, units)
    maps = np.zeros((*values.shape[:-1], len(words.columns)), np.float32)
    for at, places in enumerate(words.columns):
        maps[..., at] = values[..., list(places)].sum(-1)
    merged = [maps[..., list(places), :].mean(-2) for places in words.rows]
    return np.stack(merged, -2) if merged else maps[..., :0, :]
