"""Data for the Tokens page: pieces, other segmentations, and embeddings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from figures.labels import percent, show_token, signed
from transformer.measures.cuts import changes, differing, merged, piece_texts, total_log_probability
from transformer.measures.vocabulary import (
    Axes,
    Neighbours,
    PieceKind,
    neighbours,
    piece_kinds,
    principal_axes,
    project,
)
from transformer.measures.words import word_groups
from transformer.text.marks import is_unknown, unmarked
from transformer.text.tokenizer import Tokenizer
from transformer.trace.position_vectors import TextSide, embedding_tables, stack_input, stored_note
from transformer.trace.records import Trace
from transformer.translator import Translator
from transformer.types import Floats
from ui.components.cut import Cut, Mark, Piece

#: Maximum number of segmentations listed.
MOST_CUTS = 6

#: Maximum numbers of differing spans and normalised spellings listed; the rest are counted.
_MOST_STRETCHES, _MOST_CHANGES = 10, 8


@dataclass(frozen=True)
class Reading:
    """One side's text as the model reads it."""

    side: TextSide
    typed: str  # original text
    normal: str  # normalised text, with `▁` for spaces
    pieces: tuple[str, ...]  # including `</s>`
    ids: tuple[int, ...]  # including `</s>`
    texts: tuple[str, ...]  # text of each piece; "" for special tokens
    unknown: tuple[int, ...]  # positions
    special: tuple[int, ...]  # positions
    changed: tuple[tuple[str, str], ...]  # unique (before, after) replacements
    more_changes: int  # number of replacements beyond `changed`
    own_cut: bool  # whether the tokenizer would split the text in this way

    @cached_property
    def words(self) -> tuple[int, ...]:
        """Word index of each piece; special tokens are separate words."""
        groups = enumerate(word_groups(self.pieces, self.special))
        return tuple(number for number, group in groups for _ in group)

    @property
    def n_pieces(self) -> int:
        """Number of pieces, excluding special tokens."""
        return len(self.pieces) - len(self.special)

    @property
    def n_words(self) -> int:
        """Number of words, excluding special tokens."""
        return len({self.words[i] for i in range(len(self.words)) if i not in self.special})


@dataclass(frozen=True)
class Segmentation:
    """One way to split the text."""

    ids: tuple[int, ...]  # without `</s>`
    texts: tuple[str, ...]  # text of each piece
    log_prob: float | None = None  # in nats; None if the vocabulary has no probabilities
    share: float | None = None  # share of the probability of all segmentations, 0 to 1


@dataclass(frozen=True, eq=False)
class Plane:
    """A stack's input vectors in their principal plane."""

    content: Floats  # [n, 2], embeddings times `scale`
    entering: Floats  # [n, 2], with positions added
    axes: Axes  # fitted to both
    tokens: tuple[str, ...]  # [n]
    ids: tuple[int, ...]  # [n]
    scale: float  # factor on embeddings
    content_norm: float  # mean length of embeddings
    position_norm: float  # mean length of position vectors
    background: Floats  # [m, 2], embeddings of other pieces, times `scale`
    background_ids: tuple[int, ...]  # [m]
    note: str = ""  # a sentence about stored position tables, or ""


def tokenizer_of(model: Translator, side: TextSide) -> Tokenizer:
    """Return a side's tokenizer; both sides may share one."""
    return model.tokenizer if side == "source" else model.tokenizer.target


def read_side(model: Translator, trace: Trace, side: TextSide, typed: str) -> Reading:
    """Return one side's text in pieces; `typed` is the source sentence."""
    tokenizer = tokenizer_of(model, side)
    if side == "source":
        pieces, ids, special = trace.src_tokens, trace.src_ids, trace.src_special
    else:
        pieces, ids, typed = trace.predicted_tokens, trace.predicted_ids, trace.text
        special = tuple(i for i, index in enumerate(ids) if index == model.config.eos_id)
    plain = [i for i in range(len(ids)) if i not in special]
    own = unmarked(pieces[i] for i in plain)
    spelled = piece_texts(own, [ids[i] for i in plain], tokenizer.byte_ids)
    texts = dict(zip(plain, spelled, strict=True))
    strange = {model.config.unk_id, *tokenizer.byte_ids}
    normal = tokenizer.normalize(typed)
    replaced = list(dict.fromkeys(
        (change.before, change.after)
        for change in changes(typed, normal.replace("\u2581", " ").strip(" "))
    ))  # fmt: skip
    return Reading(
        side=side, typed=typed, normal=normal, pieces=pieces, ids=ids,
        texts=tuple(texts.get(i, "") for i in range(len(ids))),
        unknown=tuple(i for i in plain if ids[i] in strange), special=special,
        changed=tuple(replaced[:_MOST_CHANGES]), more_changes=max(0, len(replaced) - _MOST_CHANGES),
        own_cut=tokenizer.encode(typed) == [ids[i] for i in plain],
    )  # fmt: skip


def read_trace(trace: Trace, side: TextSide) -> Reading:
    """Return one side's text in pieces from its trace; a one-stack model's text is its source."""
    unknown: tuple[int, ...] = ()
    if side == "source" and trace.src_tokens:
        pieces, ids, special = trace.src_tokens, trace.src_ids, trace.src_special
        unknown = trace.src_unknown
    elif side == "source":
        pieces, ids, special = trace.tgt_tokens, trace.tgt_ids, trace.tgt_special
        unknown = tuple(at for at, piece in enumerate(pieces) if is_unknown(piece))
    else:
        part = slice(None) if trace.src_tokens else slice(0)
        pieces, ids = trace.predicted_tokens[part], trace.predicted_ids[part]
        special = tuple(range(trace.n_words, len(ids)))
    return Reading(side, "", "", pieces, ids, ("",) * len(ids), unknown, special, (), 0, True)


def pieces_shown(reading: Reading, tokenizer: Tokenizer | None) -> list[Piece]:
    """Return the component's pieces with notes, which are shorter without a tokenizer."""
    marked = []
    for position, (piece, index) in enumerate(zip(reading.pieces, reading.ids, strict=True)):
        mark: Mark = ""
        score, notes = "", [f"token {position + 1}" + (f", id {index}" if index >= 0 else "")]
        if position in reading.special:
            mark = "special"
            notes += ["added at the end of every sentence"] if tokenizer else []
        elif position in reading.unknown:
            spelled = tokenizer is not None and index in tokenizer.byte_ids
            mark = "byte" if spelled else "unknown"
            lacking = "not in the vocabulary" + (": the model reads <unk>" if tokenizer else "")
            notes.append("one byte of a character that is not a piece" if spelled else lacking)
        elif tokenizer is not None and tokenizer.kind == "unigram":
            score = signed(tokenizer.scores[index], 1)
            notes.append(f"log-probability {signed(tokenizer.scores[index], 2)}")
        elif tokenizer is not None and tokenizer.kind == "bpe" and tokenizer.scores[index] < 0:
            notes.append(f"merge number {1 - round(tokenizer.scores[index])}")
        marked.append(Piece(piece, index, reading.words[position], mark, score, "; ".join(notes)))
    return marked


def cuts_of(tokenizer: Tokenizer, text: str, dropout: float, seed: int) -> tuple[Segmentation, ...]:
    """Return the tokenizer's segmentation of a text, and alternatives.

    Alternatives are the most probable for unigram, and unique results of BPE dropout for BPE.
    """
    normal = tokenizer.normalize(text)
    if not normal:
        return ()
    special = {*_special(tokenizer), *tokenizer.byte_ids}
    numbers = {p: tokenizer.scores[i] for i, p in enumerate(tokenizer.pieces) if i not in special}
    if tokenizer.kind == "unigram":
        total = total_log_probability(normal, numbers)
        return tuple(
            Segmentation(
                ids=cut.ids,
                texts=piece_texts(cut.pieces, cut.ids, tokenizer.byte_ids),
                log_prob=log_prob,
                share=min(1.0, math.exp(log_prob - total)),
            )
            for cut, log_prob in tokenizer.n_best(text, MOST_CUTS)
        )
    own = tokenizer.tokenize(text)
    cuts = [Segmentation(own.ids, piece_texts(own.pieces, own.ids, tokenizer.byte_ids))]
    if tokenizer.kind == "bpe" and dropout:
        rng = np.random.default_rng(seed)
        for _ in range(4 * MOST_CUTS):
            pieces = merged(normal, numbers, dropout=dropout, rng=rng)
            cut = _spelled(tokenizer, pieces)
            if len(cuts) < MOST_CUTS and cut.ids not in {other.ids for other in cuts}:
                cuts.append(cut)
    return tuple(cuts)


def cuts_shown(cuts: tuple[Segmentation, ...]) -> list[Cut]:
    """Return the component's rows: the first in full, the rest with their differences only."""
    rows = []
    for number, cut in enumerate(cuts):
        spans = differing(cuts[0].texts, cut.texts)
        stretches, places = [], []
        for (start, stop), (first, end) in spans[:_MOST_STRETCHES]:
            stretches.append(tuple(cut.texts[first:end]))
            again = cuts[0].texts.count(cuts[0].texts[start]) > 1 and stop == start + 1
            places.append(f"token {start + 1}" if again else "")
        if len(spans) > _MOST_STRETCHES:
            stretches.append((f"and {len(spans) - _MOST_STRETCHES} more",))
            places.append("")
        label = f"{number + 1}" if cut.share is None else percent(cut.share)
        what = f"split {number + 1}" + (
            "" if cut.share is None else f", {label} of the probability"
        )
        different = "; ".join(" ".join(map(show_token, stretch)) for stretch in stretches)
        text = "the tokenizer's own" if number == 0 else ""
        note = f"{what}: {different or text}"
        rows.append(Cut(label, cut.share, tuple(stretches), tuple(places), text, note))
    return rows


def near(
    model: Translator, index: int, count: int, side: TextSide = "source"
) -> dict[str, Neighbours]:
    """Return a token's neighbours, by use of each embedding matrix with its vocabulary.

    `<pad>` is excluded, since its embedding is not trained.
    """
    one = model.tokenizer.pieces == model.tokenizer.target.pieces
    return {
        use: neighbours(table, index, count, {model.config.pad_id} - {index})
        for use, table in embedding_tables(model.model).items()
        if index < len(table) and (one or ("source" in use) == (side == "source"))
    }


def plane_of(model: Translator, trace: Trace, side: TextSide, n_background: int) -> Plane:
    """Return input vectors of the encoder or decoder, and the most frequent pieces.

    Axes are fitted to the text's tokens, with and without positions, not to the frequent pieces.
    """
    source = side == "source"
    ids = trace.src_ids if source else trace.tgt_ids
    parts = stack_input(model.model, ids, side)
    both = np.concatenate([parts.content, parts.content + parts.positions])
    axes = principal_axes(both)
    frequent = most_frequent(tokenizer_of(model, side), n_background)
    others = stack_input(model.model, frequent, side).content if frequent else both[:0]
    return Plane(
        content=project(parts.content, axes),
        entering=project(parts.content + parts.positions, axes), axes=axes,
        tokens=trace.src_tokens if source else trace.tgt_tokens, ids=ids, scale=parts.scale,
        content_norm=float(np.linalg.norm(parts.content, axis=1).mean()),
        position_norm=float(np.linalg.norm(parts.positions, axis=1).mean()),
        background=project(others, axes), background_ids=frequent, note=stored_note(model.model),
    )  # fmt: skip


def most_frequent(tokenizer: Tokenizer, count: int) -> tuple[int, ...]:
    """Return ids of the most frequent ordinary pieces, or of the first merges for BPE."""
    special = {*_special(tokenizer), *tokenizer.byte_ids}
    ordinary = [index for index in range(tokenizer.vocab_size) if index not in special]
    ordinary.sort(key=lambda index: -tokenizer.scores[index])
    return tuple(ordinary[:count])


def kinds_of(tokenizer: Tokenizer) -> tuple[PieceKind, ...]:
    """Return the kind of each piece in a vocabulary."""
    return piece_kinds(tokenizer.pieces, _special(tokenizer), tokenizer.byte_ids)


def _special(tokenizer: Tokenizer) -> set[int]:
    return {tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.unk_id}


def _spelled(tokenizer: Tokenizer, pieces: tuple[str, ...]) -> Segmentation:
    """Return a segmentation; characters that are not pieces become bytes or `<unk>`."""
    ids: list[int] = []
    texts: list[str] = []
    for piece in pieces:
        index = tokenizer.piece_to_id(piece)
        if index == tokenizer.unk_id and tokenizer.byte_ids:
            spelled = [f"<0x{byte:02X}>" for byte in piece.encode("utf-8", "replace")]
            ids += map(tokenizer.piece_to_id, spelled)
            texts += [*[""] * (len(spelled) - 1), piece]
        elif index == tokenizer.unk_id and ids and ids[-1] == index:
            texts[-1] += piece  # adjacent unknown characters form one <unk>
        else:
            ids.append(index)
            texts.append(piece)
    return Segmentation(tuple(ids), tuple(texts))
