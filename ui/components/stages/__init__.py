"""Inside a head: one query followed through the stages of attention, all numbers in one message.

The reader chooses a key, and what to divide q · k by, in the browser, which works out every stage
at once and reports the choice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from figures.labels import plain_token, show_token
from transformer.trace.records import HeadStages
from ui.components.packing import Component, floats, is_index, labels, signed_colours


@dataclass(frozen=True)
class Stage:
    """One stage in words; its equation and picture are drawn by `id`.

    Attributes:
        section: of the paper.
    """

    id: str
    title: str
    text: str
    section: str


#: Above the stages: the divisor, and the softmax beside it.
BENCH = Stage(
    "bench",
    "What dividing does to the softmax",
    "If the numbers in q and k have variance 1, a dot product of dₖ of them has variance dₖ and is "
    "√dₖ times as wide. On wide logits the softmax saturates: one weight is almost 1, every slope "
    "a(1 − a) almost 0, and no gradient passes back.",
    "section 3.2.1, footnote 4",
)

STAGES: tuple[Stage, ...] = (
    Stage(
        "project",
        "Three views of a token",
        "Each token comes in as a vector x. Three matrices of this head's own make of it what it "
        "looks for (the query q), what it can be found by (the key k), and what it hands over "
        "(the value v).",
        "section 3.2.2",
    ),
    Stage(
        "compare",
        "Compare, element by element",
        "The query and one key are multiplied number by number. Equal signs add to the match, "
        "opposite signs take from it; the sum is the dot product.",
        "section 3.2.1",
    ),
    Stage(
        "dots",
        "One match for every key",
        "The same query is compared with every key: one row of Q times K transposed. Choose a key "
        "to follow it through all stages.",
        "section 3.2.1",
    ),
    Stage(
        "divide",
        "Divide by √dₖ",
        "Sums over more dimensions spread wider. Dividing by √dₖ keeps them in the range where "
        "the softmax still answers to changes. The slider above divides by another number.",
        "section 3.2.1, footnote 4",
    ),
    Stage(
        "mask",
        "Mask",
        "A later token must not be seen while the translation is written: its match is set to −∞.",
        "section 3.2.3",
    ),
    Stage(
        "softmax",
        "Softmax",
        "Exponentials, divided by their sum: weights between 0 and 1 that add up to 1. This is "
        "the row that the attention maps show.",
        "section 3.2.1, equation 1",
    ),
    Stage(
        "values",
        "Take in the values",
        "Every key's value counts by its weight; each column here is one value times its weight. "
        "Summed up they are the head's output z.",
        "section 3.2.1, equation 1",
    ),
    Stage(
        "output",
        "Back into the model",
        "This head's slice of the output matrix carries z back to the model's width. The heads' "
        "contributions add up to what the block hands on.",
        "section 3.2.2",
    ),
)

#: No slider goes further, since no head has a d_k of 250,000; a message may say anything.
MOST_DIVISOR = 1_000.0

#: Shown instead of a picture if nothing is masked.
UNMASKED = {
    "encoder_self": "Nothing is masked in the encoder: the whole sentence is there from the start.",
    "cross": "Nothing is masked here: the whole source is there before the first word is written.",
}


@dataclass(frozen=True)
class Chosen:
    """The reader's choice: a key, 0-based, and what to divide by; None is the model's sqrt(d_k)."""

    key: int
    divisor: float | None = None


def parse_choice(reported: Any, n_keys: int) -> Chosen | None:
    """Return the reported choice, or None if it is not valid."""
    if not isinstance(reported, Mapping):
        return None
    key, divisor = reported.get("key"), reported.get("divisor")
    if not is_index(key, n_keys):
        return None
    if divisor is None:
        return Chosen(key)
    if type(divisor) not in (int, float) or not 1 <= divisor <= MOST_DIVISOR:
        return None
    return Chosen(key, float(divisor))


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
        "bench": vars(BENCH),
        "stages": [vars(stage) for stage in STAGES],
        "unmasked": UNMASKED.get(stages.kind, ""),
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
