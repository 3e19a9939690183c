"""Figures of the page "Inside a head": its stages, and why a head looks at a key."""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from figures.exhibit import Exhibit, Panel, Series, file_stem
from figures.labels import (
    KIND_NAMES,
    code,
    counted,
    numbered,
    plain_token,
    query_labels,
    signed,
    texts_of,
)
from transformer.attribution.cells import Reasons, Trial, reasons, trials
from transformer.search.inputs import checked_number
from transformer.trace.inspection import inspect_head
from transformer.trace.parts import Part
from transformer.trace.records import HeadStages, Trace
from transformer.trace.removals import Head
from transformer.translator import Translator
from transformer.types import AttentionKind
from ui.components.lens import Map
from ui.components.stages import Chosen, stages_component
from ui.export.programs import facts_of


@dataclass(frozen=True)
class HeadChoice:
    """A query in a head; layer, head and query count from 0."""

    kind: AttentionKind
    layer: int
    head: int
    query: int


def names_of(place: HeadChoice, trace: Trace) -> tuple[str, str]:
    """Return the query's label, and the name of the text that the keys come from."""
    return query_labels(trace, place.kind)[place.query], texts_of(trace, place.kind)[1]


def stages_of(model: Translator, trace: Trace, place: HeadChoice) -> HeadStages:
    """Return a place's stages."""
    return inspect_head(model.model, trace, **vars(place))


def difference(stages: HeadStages, trace: Trace) -> float:
    """Return the largest difference between the recomputed and the recorded weights."""
    recorded = trace.attention(stages.kind)[stages.layer, stages.head, stages.query]
    return float(np.abs(stages.scaled.weights - recorded).max())


def head_name(kind: AttentionKind, layer: int, head: int, query: int) -> str:
    """Return a figure's file stem; indices count from 0."""
    place = ("layer", layer + 1, "head", head + 1, "query", query + 1)
    return file_stem("inside", KIND_NAMES[kind], *place)


def arguments(place: HeadChoice, chosen: Chosen) -> dict[str, Any]:
    """Return the arguments of `inside_head` for the choice on screen."""
    return asdict(place) | asdict(chosen)


def inside_head(
    model: Translator, trace: Trace, kind: AttentionKind = "cross", layer: int = 0, head: int = 0,
    query: int = 0, *, key: int = 0, divisor: float | None = None,
) -> Exhibit:  # fmt: skip
    """Return all stages of a query in a head as a figure; indices count from 0.

    Args:
        key: the key that the offline view follows.
        divisor: divides q · k in that view; None stands for the model's √d_k.
    """
    if divisor is not None:
        checked_number("divisor", divisor, 1e6, positive=True)
    place = HeadChoice(kind, layer, head, query)
    stages = stages_of(model, trace, place)
    names = names_of(place, trace)
    keys = numbered(stages.key_tokens)
    d_k, d_v = len(stages.q), stages.values.shape[1]
    where = f"layer {layer + 1}, head {head + 1}"
    scaled, seen = stages.scaled, np.where(stages.mask, 1.0, np.nan)
    logits = {"q · k": stages.dots * seen, f"q · k / √{d_k}": scaled.logits * seen}
    weights = {"divided": scaled.weights, "not divided": stages.unscaled.weights}
    key_title = f"key: {names[1]}"
    component = stages_component(
        stages, names=names, difference=difference(stages, trace), chosen=Chosen(key, divisor)
    )
    return Exhibit(
        name=head_name(kind, layer, head, query),
        title=f"{KIND_NAMES[kind]}, {where}: query {query + 1} {plain_token(names[0])}",
        caption=(
            f"Products q · k by element, the logits before and after the division by √{d_k}, the "
            "softmax of both, and every value times its weight (section 3.2.1). Masked keys have "
            "no logit."
        ),
        parts=(
            Panel("q · k, element by element", stages.products.T, counted(d_k), keys,
                  "dimension", key_title, "diverging", "q · k"),
            Series("logits", keys, logits, key_title, "logit", "bar"),
            Series("weights", keys, weights, key_title, "weight", "bar"),
            Panel("weight × value", scaled.weighted.T, counted(d_v), keys,
                  "dimension", key_title, "diverging", "a × v"),
        ),
        arrays={
            "x_query": stages.x_query, "x_keys": stages.x_keys, "q": stages.q,
            "keys": stages.keys, "values": stages.values, "products": stages.products,
            "dots": stages.dots, "mask": stages.mask, "logits": scaled.masked,
            "weights": scaled.weights, "unscaled_weights": stages.unscaled.weights,
            "weighted": scaled.weighted, "output": scaled.output,
            "contribution": scaled.contribution, "block_output": stages.block_output,
        },
        facts=facts_of(trace, where),
        offline=component.offline(),
        columns=1,
    )  # fmt: skip


#: Parts that the matrix shows on either side, lines of the list, and parts removed.
SHOWN, LISTED, TRIED = 9, 5, 3


class Why(NamedTuple):
    """A score in parts, and the score without some of them."""

    split: Reasons
    trials: list[Trial]


def why_of(model: Translator, trace: Trace, place: HeadChoice, key: int) -> Why:
    """Split a score and remove its largest parts."""
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
        """Return what a part says about the query or the key."""
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
