"""Figures of the Tokens page."""

from dataclasses import replace
from typing import Any

import numpy as np

from figures.exhibit import Exhibit, Series
from figures.labels import numbered
from transformer.measures.vocabulary import COSINE_RULE, length_counts
from transformer.search.inputs import checked_whole
from transformer.trace.position_vectors import TextSide
from transformer.trace.records import Trace
from transformer.translator import Translator
from ui.components.cut import pieces_component
from ui.export.programs import facts_of
from ui.tokens import views


def pieces(model: Translator, trace: Trace, side: TextSide = "source", token: int = -1) -> Exhibit:
    """Return one side's text in pieces as a figure, with piece `token` marked."""
    reading, tokenizer = (
        views.read_side(model, trace, side, trace.source),
        views.tokenizer_of(model, side),
    )
    checked_whole("token", token, len(reading.ids) - 1, -1)
    listed = _listed(reading, trace)
    scores = np.array([tokenizer.scores[i] for i in reading.ids])
    label = f"The {side} in pieces"
    component = pieces_component(
        views.pieces_shown(reading, tokenizer), reading.changed, chosen=token, label=label
    )
    parts, caption = listed.parts, listed.caption
    if tokenizer.kind == "unigram":
        caption = "Each piece with its id and its log-probability in nats."
        names, lines = numbered(reading.pieces), {"log-probability": scores}
        parts += (Series("log-probability", names, lines, "piece", "nats", "bar"),)
    return replace(
        listed, parts=parts, caption=caption, arrays={**listed.arrays, "scores": scores},
        offline=component.offline(),
    )  # fmt: skip


def traced_pieces(trace: Trace, side: TextSide = "source") -> Exhibit:
    """Return one side of a trace in pieces, for a model without an available vocabulary."""
    return _listed(views.read_trace(trace, side), trace)


def _listed(reading: views.Reading, trace: Trace) -> Exhibit:
    ids = np.array(reading.ids, dtype=np.int64)
    names = numbered(reading.pieces)
    return Exhibit(
        name=f"{reading.side}-pieces",
        title=f"The {reading.side} in pieces",
        facts=facts_of(trace),
        caption="Each piece with its id.",
        parts=(Series("pieces", names, {"id": ids}, "piece", "id", "bar"),),
        arrays={"pieces": np.array(reading.pieces), "ids": ids},
    )


def vocabulary(model: Translator, side: TextSide = "source") -> Exhibit:
    """Return piece lengths in a vocabulary as a figure."""
    tokenizer = views.tokenizer_of(model, side)
    counts = length_counts(tokenizer.pieces, views.kinds_of(tokenizer))
    longest = max((length for by_length in counts.values() for length in by_length), default=0)
    lines = {
        kind: np.array([by_length.get(length, 0) for length in range(longest + 1)])
        for kind, by_length in counts.items()
    }
    return Exhibit(
        name="vocabulary-lengths",
        title="Pieces of the vocabulary by length",
        caption="In characters, without the word-start mark; no special or byte pieces.",
        parts=(Series("pieces", np.arange(longest + 1), lines, "characters", "pieces", "bar"),),
        arrays={"pieces": np.array(tokenizer.pieces), "scores": np.array(tokenizer.scores)},
    )


def neighbours(
    model: Translator, token: int, count: int = 10, side: TextSide = "source"
) -> Exhibit:
    """Return a token's nearest neighbours in each embedding matrix as a figure.

    Args: token: its id.  count: number of neighbours in each matrix.
    """
    checked_whole("token", token, len(views.tokenizer_of(model, side).pieces) - 1, 0)
    by_use, names = views.near(model, token, count, side), views.tokenizer_of(model, side).pieces
    arrays: dict[str, Any] = {}
    for number, nearest in enumerate(by_use.values(), start=1):
        arrays[f"ids_{number}"], arrays[f"cosines_{number}"] = nearest.ids, nearest.cosines
    return Exhibit(
        name=f"neighbours-of-{token}",
        title=f"Nearest tokens to {names[token]} (id {token})",
        caption=COSINE_RULE,
        parts=tuple(
            Series(
                f"{use} embedding", tuple(f"{names[i]} {i}" for i in nearest.ids),
                {"cosine": nearest.cosines}, "token", "cosine", "bar",
            )
            for use, nearest in by_use.items() if len(nearest.ids)
        ),
        arrays=arrays,
    )  # fmt: skip


def embeddings(model: Translator, trace: Trace, side: TextSide = "source") -> Exhibit:
    """Return a sentence's embeddings in their principal plane as a figure."""
    plane = views.plane_of(model, trace, side, 0)
    nothing = np.full(len(plane.tokens), np.nan, dtype=np.float32)
    part = Series(
        "principal axes 1 and 2",
        np.concatenate([plane.content[:, 0], plane.entering[:, 0]]),
        {
            "embedding": np.concatenate([plane.content[:, 1], nothing]),
            "with position": np.concatenate([nothing, plane.entering[:, 1]]),
        },
        f"principal axis 1: {plane.axes.shares[0]:.0%} of the variance",
        f"principal axis 2: {plane.axes.shares[1]:.0%} of the variance",
        "point",
    )
    return Exhibit(
        name=f"{side}-embeddings-in-a-plane",
        title=f"Embeddings of the {side}, without and with positions",
        facts=facts_of(trace),
        caption="Principal axes of the embeddings times the square root of d_model, without and "
        f"with positions; they explain {plane.axes.shares.sum():.1%} of the variance. Points are "
        f"in token order. {plane.note}".rstrip(),
        parts=(part,),
        arrays={
            "tokens": np.array(plane.tokens), "content": plane.content,
            "entering": plane.entering, "shares": plane.axes.shares,
        },
    )  # fmt: skip
