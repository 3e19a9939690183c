"""The decoder's most probable token behind every layer, a row for each step of a translation.

The cell under the pointer, or reached with the arrow keys, is read out below the table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from figures.labels import probability, query_labels
from transformer.trace.records import Lens, Trace
from ui.components.packing import Component, labels


def layers_component(trace: Trace, found: Lens, tokens: Sequence[Sequence[str]]) -> Component[None]:
    """Return the table as a component.

    Args: tokens: [1 + Ld, T], the pieces of `found.top_ids`.
    """
    cells = [
        [
            [
                shown,
                round(math.exp(found.top_log_probs[layer, step]), 4),
                probability(found.top_log_probs[layer, step]),
                int(found.ranks[layer, step]),
                probability(found.log_probs[layer, step]),
            ]
            for layer, shown in enumerate(row)
        ]
        for step, row in enumerate(zip(*map(labels, tokens), strict=True))
    ]
    header = {
        "label": f"The most probable token after each of {len(tokens) - 1} decoder layers, at each "
        f"of {len(trace.predicted_tokens)} steps. Arrow keys move.",
        "columns": columns(len(tokens) - 1),
        "rows": labels(query_labels(trace, "cross")),
        "predicted": labels(trace.predicted_tokens),
        "cells": cells,
    }
    return Component("layers", header)


def columns(n_layers: int) -> list[str]:
    """Return the columns' names: what enters the first layer, then every layer."""
    return ["embedding", *(f"layer {layer}" for layer in range(1, n_layers + 1))]
