"""What can be taken away from the Tokens page: each picture as numbers, drawing and program."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from streamlit.delta_generator import DeltaGenerator

from figures.exhibit import Exhibit, Offline, Series
from transformer.measures.neighbours import COSINE_RULE
from transformer.measures.vocabulary import length_counts
from transformer.trace.embeddings import Side
from ui.components.cut import still_pieces
from ui.core.view import View
from ui.export.download import snippet_header, take_away
from ui.tokens.views import kinds_of, near, pieces_shown, plane_of, read_side, tokenizer_of
from ui.work.cache import key_of
from ui.work.computed import result_of
from ui.work.models import translator

_TOKENIZER = {"source": "translator.tokenizer", "translation": "translator.tokenizer.target"}
_IDS = {"source": "trace.src_ids", "translation": "trace.predicted_ids"}
_PIECES = {"source": "trace.src_tokens", "translation": "trace.predicted_tokens"}


def offer(place: DeltaGenerator, make: Callable[[], Exhibit], key: str, name: str) -> None:
    """Draw the button of one picture, at the end of its place."""
    with place.container(horizontal=True, horizontal_alignment="right"):
        take_away(make, key=key, name=name)


def pieces_exhibit(view: View, side: Side, token: int) -> Exhibit:
    """The sentence in pieces."""
    typed = key_of(view).sentence
    reading = result_of(view, "reading", side, lambda m, t: read_side(m, t, side, typed))
    tokenizer = tokenizer_of(translator(view), side)
    ids = np.array(reading.ids, dtype=np.int64)
    scores = np.array([tokenizer.scores[i] for i in reading.ids])
    unigram = tokenizer.kind == "unigram"
    return Exhibit(
        name=f"{side}-pieces",
        title=f"The {side} in pieces",
        caption="Every piece with its number"
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
        snippet=snippet_header(view)
        + f"pieces = np.array({_PIECES[side]})\n"
        + f"ids = np.array({_IDS[side]})\n"
        + f"scores = np.array([{_TOKENIZER[side]}.scores[i] for i in ids])\n",
        offline=Offline(
            "cut",
            still_pieces(pieces_shown(reading, tokenizer), reading.changed, chosen=token,
                         label=f"The {side} in pieces"),
        ),
    )  # fmt: skip


def lengths_exhibit(view: View, side: Side) -> Exhibit:
    """The lengths of all pieces of a side's vocabulary."""
    tokenizer = tokenizer_of(translator(view), side)
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
        caption="Characters without the mark of a word's start; special and byte pieces left out.",
        parts=(Series("pieces", lengths, lines, "characters", "pieces", "bar"),),
        arrays={"pieces": np.array(tokenizer.pieces), "scores": np.array(tokenizer.scores)},
        snippet=snippet_header(view)
        + f"pieces = np.array({_TOKENIZER[side]}.pieces)\n"
        + f"scores = np.array({_TOKENIZER[side]}.scores)\n",
    )


def neighbours_exhibit(view: View, side: Side, token: int, count: int) -> Exhibit:
    """The nearest tokens of one token."""
    found = result_of(
        view, "near", (side, token, count), lambda model, _: near(model, token, count, side)
    )
    pieces = tokenizer_of(translator(view), side).pieces
    arrays: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]] = {}
    for number, nearest in enumerate(found.values(), start=1):
        arrays[f"ids_{number}"], arrays[f"cosines_{number}"] = nearest.ids, nearest.cosines
    return Exhibit(
        name=f"neighbours-of-{token}",
        title=f"Nearest tokens of {pieces[token]} (number {token})",
        caption=COSINE_RULE,
        parts=tuple(
            Series(
                f"{use} embedding", tuple(f"{pieces[i]} {i}" for i in nearest.ids),
                {"cosine": nearest.cosines}, "token", "cosine", "bar",
            )
            for use, nearest in found.items() if len(nearest.ids)
        ),
        arrays=arrays,
        snippet=snippet_header(view)
        + "\n"
        + "from transformer.trace.embeddings import embedding_tables\n"
        + "from transformer.measures.neighbours import neighbours\n"
        + "\n"
        + f"left_out = set([translator.config.pad_id]) - set([{token}])\n"
        + "tables = embedding_tables(translator.model)\n"
        + f"for number, use in enumerate({list(found)!r}, 1):\n"
        + f"    nearest = neighbours(tables[use], {token}, {count}, left_out)\n"
        + '    globals()[f"ids_{number}"] = nearest.ids\n'
        + '    globals()[f"cosines_{number}"] = nearest.cosines\n',
    )  # fmt: skip


def plane_exhibit(view: View, side: Side, n_background: int) -> Exhibit:
    """The sentence's vectors in their plane."""
    found = result_of(
        view, "plane", (side, n_background), lambda m, t: plane_of(m, t, side, n_background)
    )
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
        snippet=snippet_header(view)
        + "\n"
        + "from transformer.trace.embeddings import entering as parts_of\n"
        + "from transformer.measures.projection import principal_axes, project\n"
        + "\n"
        + f"tokens = np.array({tokens})\n"
        + f"parts = parts_of(translator.model, {ids}, {side!r})\n"
        + "both = np.concatenate([parts.content, parts.content + parts.positions])\n"
        + "axes = principal_axes(both)\n"
        + "content = project(parts.content, axes)\n"
        + "entering = project(parts.content + parts.positions, axes)\n"
        + "shares = axes.shares\n",
    )


def _numbered(pieces: tuple[str, ...]) -> tuple[str, ...]:
    """Pieces as labels of an axis, repeats kept apart by their places."""
    return tuple(f"{position} {piece}" for position, piece in enumerate(pieces, start=1))
