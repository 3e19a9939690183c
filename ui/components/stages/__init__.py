"""Inside a head: one query followed through the stages of attention, all numbers in one message.

The reader chooses a key, and what to divide q · k by, in the browser, which works out every stage
at once and reports the choice.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from figures.labels import plain_token, show_token
from transformer.trace.records import HeadStages
from ui.components.packing import Component, fields, floats, labels, signed_colours

#: The stages in words.
WORDS = tomllib.loads(Path(__file__).with_name("stages.toml").read_text("utf-8"))

#: No slider goes further, since no head has a d_k of 250,000; a message may say anything.
MOST_DIVISOR = 1_000.0


@dataclass(frozen=True)
class Chosen:
    """The reader's choice: a key, 0-based, and what to divide by; None is the model's sqrt(d_k)."""

    key: int
    divisor: float | None = None


def parse_choice(reported: Any, n_keys: int) -> Chosen | None:
    """Return the reported choice, or None if it is not valid."""
    found = fields(reported, key=range(n_keys))
    if found is None:
        return None
    divisor = reported.get("divisor")
    if divisor is None:
        return Chosen(found["key"])
    if type(divisor) not in (int, float) or not 1 <= divisor <= MOST_DIVISOR:
        return None
    return Chosen(found["key"], float(divisor))


def stages_component(
    stages: HeadStages,
    *,
    names: tuple[str, str],
    difference: float,
    chosen: Chosen,
    group: str = "",
) -> Component[Chosen]:
    """Return the stages as a component.

    Args:
        names: the label of the query's row, and the text that the keys come from ("source").
        difference: largest difference of the weights from the trace's, shown below the stages.
        group: views of one group stand side by side, stage by stage, with less text.

    q, K, V and W_O are enough; the browser multiplies them. The model's weights are for comparison.
    The body holds the arrays in the order that `read` in stages.js expects.
    """
    header = {
        "label": f"Stages of attention for the query {plain_token(names[0])}",
        "stages": WORDS["stage"],
        "unmasked": WORDS["unmasked"].get(stages.kind, ""),
        "query": show_token(names[0], 18),
        "keys": labels(stages.key_tokens, 18),
        "key_title": names[1],
        "mask": stages.mask.astype(int).tolist(),
        "sizes": [len(stages.x_query), *stages.keys.shape, stages.values.shape[1]],
        "root": math.sqrt(len(stages.q)),
        "has_bias": stages.has_bias,
        "gate": stages.gate,
        "relative": None if stages.relative is None else stages.relative.tolist(),
        "difference": difference,
        "signed": signed_colours(),
        "group": group,
    }
    arrays = (
        stages.x_query, stages.x_keys, stages.q, stages.keys, stages.values, stages.dots,
        stages.scaled.weights, stages.w_o, stages.block_output,
    )  # fmt: skip
    n_keys = len(stages.key_tokens)
    return Component(
        "stages", header, floats(arrays), choice={"key": chosen.key, "divisor": chosen.divisor},
        parse=lambda reported: parse_choice(reported, n_keys),
    )  # fmt: skip
