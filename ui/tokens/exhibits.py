"""The figures of the Tokens page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from figures.exhibit import Exhibit, Series
from transformer.measures.vocabulary import COSINE_RULE, Neighbours, length_counts
from transformer.text.tokenizer import Tokenizer
from transformer.trace.embeddings import Side
from transformer.trace.records import Trace
from ui.components.cut import pieces_component
from ui.export.programs import Source, about_model, header
from ui.tokens.views import Plane, Reading, kinds_of, pieces_shown, read_trace

_TOKENIZER = {"source": "translator.tokenizer", "translation": "translator.tokenizer.target"}
_IDS = {"source": "trace.src_ids", "translation": "trace.predicted_ids"}
_PIECES = {"source": "trace.src_tokens", "translation": "trace.predicted_tokens"}


def pieces_exhibit(reading: Reading, tokenizer: Tokenizer, token: int, source: Source) -> Exhibit:
    """Return the sentence in pieces, with the token of this id marked."""
    side = reading.side
    ids = np.array(reading.ids, dtype=np.int64)
    scores = np.array([tokenizer.scores[i] for i in reading.ids])
    unigram = tokenizer.kind == "unigram"
    return Exhibit(
        name=f"{side}-pieces",
        title=f"The {side} in pieces",
        facts=source.facts(),
        caption="Every piece with its id"
        + (" and its log-probability in nats." if unigram else "."),
        parts=(
            Series("pieces", _numbered(reading.pieces), {"id": ids}, "piece", "id", "bar"),
            *(
                (Series("log-probability", _numbered(reading.pieces), {"log-probability": scores},
                        "piece", "nats", "bar"),)
                if unigram else ()
            ),
        ),
        arrays={"pieces": np.array(reading.pieces), "ids": ids, "scores": scores},
        snippet=header(source)
        + f"pieces = np.array({_PIECES[side]})\n"
        + f"ids = np.array({_IDS[side]})\n"
        + f"scores = np.array([{_TOKENIZER[side]}.scores[i] for i in ids])\n",
        offline=pieces_component(
            pieces_shown(reading, tokenizer), reading.changed, chosen=token,
            label=f"The {side} in pieces",
        ).offline(),
    )  # fmt: skip


def traced_pieces_exhibit(trace: Trace, side: Side, source: Source) -> Exhibit:
    """Return one side's pieces from its trace, for a model whose vocabulary is not available."""
    reading = read_trace(trace, side)
    ids = np.array(reading.ids, dtype=np.int64)
    stem = "predicted" if side == "translation" else "src" if trace.src_tokens else "tgt"
    return Exhibit(
        name=f"{side}-pieces",
        title=f"The {side} in pieces",
        facts=source.facts(sentence=trace.source),
        caption="Every piece with its id.",
        parts=(Series("pieces", _numbered(reading.pieces), {"id": ids}, "piece", "id", "bar"),),
        arrays={"pieces": np.array(reading.pieces), "ids": ids},
        snippet=header(source)
        + f"pieces = np.array(trace.{stem}_tokens)\n"
        + f"ids = np.array(trace.{stem}_ids)\n",
    )


def lengths_exhibit(tokenizer: Tokenizer, side: Side, source: Source) -> Exhibit:
    """Return the lengths of all pieces in a vocabulary."""
    counts = length_counts(tokenizer.pieces, kinds_of(tokenizer))
    longest = max((length for each in counts.values() for length in each), default=0)
    lengths = np.arange(longest + 1)
    lines = {
        kind: np.array([each.get(int(length), 0) for length in lengths])
        for kind, each in counts.items()
    }
    return Exhibit(
        name="vocabulary-lengths",
        title="Pieces of the vocabulary by length",
        facts=about_model(source.checkpoint),
        caption="Characters, without the mark of a word's start; no special or byte pieces.",
        parts=(Series("pieces", lengths, lines, "characters", "pieces", "bar"),),
        arrays={"pieces": np.array(tokenizer.pieces), "scores": np.array(tokenizer.scores)},
        snippet=header(source)
        + f"pieces = np.array({_TOKENIZER[side]}.pieces)\n"
        + f"scores = np.array({_TOKENIZER[side]}.scores)\n",
    )


def neighbours_exhibit(
    found: Mapping[str, Neighbours],
    pieces: Sequence[str],
    token: int,
    count: int,
    source: Source,
) -> Exhibit:
    """Return the nearest neighbours of a token.

    Args:
        found: by use of the embedding matrix, see `ui.tokens.views.near`.
        pieces: of the vocabulary.
        count: number asked for in each matrix.
    """
    arrays: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]] = {}
    for number, nearest in enumerate(found.values(), start=1):
        arrays[f"ids_{number}"], arrays[f"cosines_{number}"] = nearest.ids, nearest.cosines
    return Exhibit(
        name=f"neighbours-of-{token}",
        title=f"Nearest tokens of {pieces[token]} (number {token})",
        facts=about_model(source.checkpoint),
        caption=COSINE_RULE,
        parts=tuple(
            Series(
                f"{use} embedding", tuple(f"{pieces[i]} {i}" for i in nearest.ids),
                {"cosine": nearest.cosines}, "token", "cosine", "bar",
            )
            for use, nearest in found.items() if len(nearest.ids)
        ),
        arrays=arrays,
        snippet=header(
            source,
            "from transformer.measures.vocabulary import neighbours",
            "from transformer.trace.embeddings import embedding_tables",
        )
        + "tables = embedding_tables(translator.model)\n"
        + f"left_out = {{translator.config.pad_id}} - {{{token}}}\n"
        + "".join(
            f"nearest = neighbours(tables[{use!r}], {token}, {count}, left_out)\n"
            f"ids_{number}, cosines_{number} = nearest.ids, nearest.cosines\n"
            for number, use in enumerate(found, start=1)
        ),
    )  # fmt: skip


def plane_exhibit(found: Plane, side: Side, source: Source) -> Exhibit:
    """Return the sentence's embeddings in their plane."""
    tokens = "trace.src_tokens" if side == "source" else "trace.tgt_tokens"
    ids = "trace.src_ids" if side == "source" else "trace.tgt_ids"
    n = len(found.tokens)
    nothing = np.full(n, np.nan, dtype=np.float32)
    part = Series(
        "principal axes 1 and 2",
        np.concatenate([found.content[:, 0], found.entering[:, 0]]),
        {
            "embedding": np.concatenate([found.content[:, 1], nothing]),
            "with position": np.concatenate([nothing, found.entering[:, 1]]),
        },
        f"principal axis 1: {found.axes.shares[0]:.0%} of the variance",
        f"principal axis 2: {found.axes.shares[1]:.0%} of the variance",
        "point",
    )
    return Exhibit(
        name=f"{side}-embeddings-in-a-plane",
        title=f"Embeddings of the {side}, without and with positions",
        facts=source.facts(),
        caption="Principal axes of the embeddings times the square root of d_model, and of the "
        f"same with positions added; they hold {found.axes.shares.sum():.1%} of the variance. "
        f"Points are in the order of the tokens. {found.note}".rstrip(),
        parts=(part,),
        arrays={
            "tokens": np.array(found.tokens),
            "content": found.content,
            "entering": found.entering,
            "shares": found.axes.shares,
        },
        snippet=header(
            source,
            "from transformer.measures.vocabulary import principal_axes, project",
            "from transformer.trace.embeddings import entering as parts_of",
        )
        + f"tokens = np.array({tokens})\n"
        + f"parts = parts_of(translator.model, {ids}, {side!r})\n"
        + "both = np.concatenate([parts.content, parts.content + parts.positions])\n"
        + "axes = principal_axes(both)\n"
        + "content = project(parts.content, axes)\n"
        + "entering = project(parts.content + parts.positions, axes)\n"
        + "shares = axes.shares\n",
    )


def _numbered(pieces: tuple[str, ...]) -> tuple[str, ...]:
    """Return pieces as axis labels, told apart by their positions."""
    return tuple(f"{position} {piece}" for position, piece in enumerate(pieces, start=1))
