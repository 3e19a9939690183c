"""The decoder's most probable token after every layer, one row per step of a translation.

A line below the table describes the cell at the pointer or keyboard cursor.
"""

import math
from collections.abc import Sequence
from typing import Any

from figures.labels import probability, query_labels
from transformer.trace.records import Lens, Trace
from ui.components.packing import Component, labels


def layers_component(trace: Trace, lens: Lens, tokens: Sequence[Sequence[str]]) -> Component[None]:
    """Return the table as a component.

    Args: tokens: [1 + Ld, T], the pieces of `lens.top_ids`.
    """
    header = {
        "label": f"The most probable token after each of {len(tokens) - 1} decoder layers, at each "
        f"of {len(trace.predicted_tokens)} steps. Arrow keys move.",
        "columns": columns(len(tokens) - 1),
        "rows": labels(query_labels(trace, "cross")),
        "predicted": labels(trace.predicted_tokens),
        "cells": cells_of(lens, tokens),
    }
    return Component("layers", header)


def cells_of(lens: Lens, tokens: Sequence[Sequence[str]], limit: int = 24) -> list[Any]:
    """Return a lens by step and layer: first token, its probability as number and as text, then
    rank and probability of the prediction; `limit` as in `labels`.
    """
    named = zip(*(labels(row, limit) for row in tokens), strict=True)
    steps = zip(named, lens.top_log_probs.T, lens.ranks.T, lens.log_probs.T, strict=True)
    return [
        [[token, round(math.exp(top), 4), probability(top), int(rank), probability(own)]
         for token, top, rank, own in zip(*step, strict=True)]
        for step in steps
    ]  # fmt: skip


def columns(n_layers: int) -> list[str]:
    """Return column names: the first layer's input, then every layer."""
    return ["embedding", *(f"layer {layer}" for layer in range(1, n_layers + 1))]
