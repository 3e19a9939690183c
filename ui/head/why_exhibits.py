"""Why a head looks at a key: the figure of a score's parts, and the parts in words."""

from typing import NamedTuple

import numpy as np

from figures.exhibit import Exhibit, Series, file_stem
from figures.labels import KIND_NAMES, code, plain_token, query_labels, signed
from transformer.attribution.reasons import Reasons, Trial, reasons, trials
from transformer.trace.parts import Part
from transformer.trace.records import Trace
from transformer.trace.removals import Head
from transformer.translator import Translator
from transformer.types import AttentionKind
from ui.components.lens import Map
from ui.export.programs import facts_of
from ui.head.exhibits import HeadChoice

#: Parts that the matrix shows on either side, lines of the list, and parts taken out.
SHOWN, LISTED, TRIED = 9, 5, 3


class Why(NamedTuple):
    """A score in parts, and the score without some of them."""

    split: Reasons
    trials: list[Trial]


def why_of(model: Translator, trace: Trace, place: HeadChoice, key: int) -> Why:
    """Split a score and take its largest parts out."""
    split = reasons(model.model, trace, **vars(place), key=key)
    return Why(split, trials(model.model, trace, split, TRIED))


class Names:
    """Names of the parts of a score."""

    def __init__(self, trace: Trace, place: HeadChoice, key: int) -> None:
        self.trace, self.kind = trace, place.kind
        self.at = {"query": place.query, "key": key}
        stacks = ("encoder" if place.kind == "encoder_self" else "decoder",
                  "decoder" if place.kind == "decoder_self" else "encoder")  # fmt: skip
        self.stacks = dict(zip(("query", "key"), stacks, strict=True))

    @property
    def masked(self) -> bool:
        """True if the key comes after the query in the decoder."""
        return self.kind == "decoder_self" and self.at["key"] > self.at["query"]

    def token(self, side: str) -> str:
        """Return the token of the query or the key."""
        trace, encoder = self.trace, self.stacks[side] == "encoder"
        return (trace.src_tokens if encoder else trace.tgt_tokens)[self.at[side]]

    def short(self, part: Part | None) -> str:
        """Return an axis label."""
        if part is None:
            return "the rest"
        layer = f"L{(part.layer or 0) + 1}"
        if part.kind is not None:
            kind = "" if part.stack == "encoder" else " cross" if part.kind == "cross" else " self"
            return f"{layer} H{(part.head or 0) + 1}{kind}"
        names = {"feed_forward": f"{layer} network", "embedding": "token", "bias": "biases"}
        return names.get(part.name, part.name)

    def place(self, part: Part) -> str:
        """Return a part's place in the model."""
        if part.kind is not None:
            return Head(part.kind, part.layer or 0, part.head or 0).off.place
        names = {"embedding": "token embeddings", "position": "positions", "bias": "biases"}
        if part.name == "feed_forward":
            return f"the network of {part.stack} layer {(part.layer or 0) + 1}"
        return f"the {part.stack}'s {names[part.name]}"

    def own(self, part: Part) -> str:
        """Return a part of a token in words."""
        names = {"embedding": "its token", "position": "its position", "bias": "biases"}
        return names.get(part.name) or f"what {self.place(part)} wrote"

    def clause(self, part: Part, side: str) -> str:
        """Return what a part tells of the query or the key."""
        if part.name == "embedding":
            return f"the {side}'s token is {code(plain_token(self.token(side)))}"
        if part.name == "position":
            return f"the {side} stands at position {self.at[side] + 1}"
        if part.name == "bias":
            return f"biases are part of the {side}"
        if part.kind is None:
            return f"{self.place(part)} wrote into the {side}"
        return f"{self.place(part)} wrote into the {side} {self.reads(part, side)}"

    def reads(self, part: Part, side: str) -> str:
        """Return the token that an earlier head reads most at the query or the key."""
        kind, at = part.kind or self.kind, self.at[side]
        row = self.trace.attention(kind)[part.layer or 0, part.head or 0, at]
        most = int(row.argmax())
        token = code(plain_token(self.trace.axis_tokens(kind)[1][most]))
        near = {-1: "the previous token, ", 0: "the token itself, ", 1: "the next token, "}
        where = "" if kind == "cross" else near.get(most - at, "")
        return f"what it reads from {token} ({where}{row[most]:.0%} of its weight)"


def matrix_of(split: Reasons, names: Names) -> Map:
    """Return the largest parts of query and key as a map."""
    rows, columns, shares = split.grouped(SHOWN)
    of_query, of_key = ([names.short(part) for part in side] for side in (rows, columns))
    query, key = (f"part of {plain_token(names.token(side))}" for side in ("query", "key"))
    values = shares.astype(np.float32)
    return Map(
        values, of_query, of_key, "Parts of the score", query, key, signed=("against", "for")
    )


def why_this_head_looks(
    model: Translator, trace: Trace, kind: AttentionKind = "cross", layer: int = 0, head: int = 0,
    query: int = 0, *, key: int = 0,
) -> Exhibit:  # fmt: skip
    """Return the parts of the score of a query and a key as a figure; indices count from 0."""
    place = HeadChoice(kind, layer, head, query)
    split, tried = why_of(model, trace, place, key)
    names = Names(trace, place, key)
    matrix = matrix_of(split, names)
    token = plain_token(query_labels(trace, kind)[query])
    where = f"layer {layer + 1}, head {head + 1}"
    tests = tuple(names.place(trial.part) for trial in tried)
    without = {
        name: np.array([getattr(trial, name) for trial in tried], np.float32)
        for name in ("predicted", "measured")
    }
    return Exhibit(
        name=why_name(place, key),
        title=f"Why {KIND_NAMES[kind].lower()}, {where} looks from {token} at "
        f"{plain_token(names.token('key'))}",
        caption=f"The score q · k / √dₖ before the softmax, {signed(split.score, 3)}, as a sum "
        "over parts of the query and parts of the key, LayerNorms at their scales in this "
        "sentence; and the change of the score when a part is taken out at all positions.",
        parts=(
            matrix.panel(),
            Series("Without a part", tests, without, "", "change of the score", "bar"),
        ),
        arrays={
            "shares": split.shares, "score": np.array([split.score, split.relative]),
            "query_parts": np.array([names.place(part) for part in split.query_parts]),
            "key_parts": np.array([names.place(part) for part in split.key_parts]), **without,
        },
        facts=facts_of(trace, where),
        offline=matrix.lens().offline(),
        columns=1,
    )  # fmt: skip


def why_name(place: HeadChoice, key: int) -> str:
    """Return the figure's file stem."""
    numbers = (place.layer + 1, place.head + 1, place.query + 1, key + 1)
    return file_stem("why", KIND_NAMES[place.kind], *numbers)
