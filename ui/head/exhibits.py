"""The figure of the page "Inside a head", and its computation."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from figures.exhibit import Exhibit, Panel, Series, file_stem
from figures.labels import KIND_NAMES, counted, numbered, plain_token, query_labels, texts_of
from transformer.search.inputs import checked_number
from transformer.trace.inspection import inspect_head
from transformer.trace.records import HeadStages, Trace
from transformer.translator import Translator
from transformer.types import AttentionKind
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


def stages_of(place: HeadChoice) -> Callable[..., HeadStages]:
    """Return a function that computes a place's stages from a model and a trace."""
    return lambda model, trace: inspect_head(
        model.model, trace, place.kind, place.layer, place.head, place.query
    )


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
    stages: HeadStages = stages_of(place)(model, trace)
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
