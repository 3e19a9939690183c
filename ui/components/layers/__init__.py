"""The decoder's most probable token after every layer, one row per step of a translation.

A line below the table describes the cell at the pointer or keyboard cursor.
"""

import math
from collections.abc import Sequence

from figures.labels import probability, query_labels
from transformer.trace.records import Lens, Trace
from ui.components.packing import Component, labels


def layers_component(trace: Trace, lens: Lens, tokens: Sequence[Sequence[str]]) -> Component[None]:
    """Return the table as a component.

    Args: tokens: [1 + Ld, T], the pieces of `lens.top_ids`.
    """
    cells = [
        [
            [
                token,
                round(math.exp(lens.top_log_probs[layer, step]), 4),
                probability(lens.top_log_probs[layer, step]),
                int(lens.ranks[layer, step]),
                probability(lens.log_probs[layer, step]),
            ]
            for layer, token in enumerate(row)
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
    """Return column names: the first layer's input, then every layer."""
    return ["embedding", *(f"layer {layer}" for layer in range(1, n_layers + 1))]
