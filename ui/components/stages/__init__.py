"""Inside a head: one query through the stages of attention, all numbers in one message.

The visitor chooses a key and the divisor of q · k in the browser, which recomputes every stage and
reports the choice.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from figures.labels import plain_token, show_token
from figures.palette import ROLES
from transformer.trace.records import HeadStages
from ui.components.packing import Component, fields, floats, labels, signed_colours

#: Stage descriptions.
WORDS = tomllib.loads(Path(__file__).with_name("stages.toml").read_text("utf-8"))

#: Largest divisor that is accepted: twice the square root of a d_k of 250,000.
MOST_DIVISOR = 1_000.0


@dataclass(frozen=True)
class Chosen:
    """A chosen key, 0-based, and divisor; None is the model's sqrt(d_k)."""

    key: int
    divisor: float | None = None


def parse_choice(reported: Any, n_keys: int) -> Chosen | None:
    """Return the reported choice, or None if it is invalid."""
    report = fields(reported, key=range(n_keys))
    if report is None:
        return None
    divisor = reported.get("divisor")
    if divisor is None:
        return Chosen(**report)
    if type(divisor) not in (int, float) or not 1 <= divisor <= MOST_DIVISOR:
        return None
    return Chosen(**report, divisor=float(divisor))


def stages_component(
    stages: HeadStages, *, names: tuple[str, str], difference: float, chosen: Chosen,
    group: str = "",
) -> Component[Chosen]:  # fmt: skip
    """Return the stages as a component.

    Args:
        names: label of the query's row, and name of the text with the keys ("source").
        difference: largest difference from the trace's weights, shown below the stages.
        group: name of views that are aligned side by side, stage by stage, with less text.

    The browser multiplies q, K, V and W_O; the model's weights are for comparison. The body holds
    the arrays in the order of `read` in stages.js.
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
        "roles": ROLES,
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
