"""Downloadable figures of one query in one head: the values of every stage."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from figures.exhibit import Exhibit, Offline, Panel, Series, file_stem
from figures.labels import plain_token
from transformer.trace.records import HeadStages, LogitSplit

_KINDS = {
    "encoder_self": "Encoder self-attention",
    "decoder_self": "Decoder self-attention",
    "cross": "Cross-attention",
}
#: Titles of the parts of `LogitSplit`, the query's side first.
SPLIT_NAMES = {
    "content_content": "content · content",
    "content_position": "content · position",
    "position_content": "position · content",
    "position_position": "position · position",
    "bias": "biases",
}


def head_name(kind: str, layer: int, head: int, query: int) -> str:
    """Return the file stem of a head's figure; indices count from 0."""
    place = ("layer", layer + 1, "head", head + 1, "query", query + 1)
    return file_stem("inside", _KINDS[kind], *place)


def head_exhibit(
    stages: HeadStages, header: str, names: tuple[str, str], offline: Offline | None = None
) -> Exhibit:
    """Build the figure of all stages: panels over the keys, and bars.

    Args:
        header: Python that defines `translator` and `trace`.
        names: the label of the query's row, and the sequence that the keys belong to.
    """
    keys = _numbered(stages.key_tokens)
    d_k, d_v = len(stages.q), stages.values.shape[1]
    place = f"{_KINDS[stages.kind]}, layer {stages.layer + 1}, head {stages.head + 1}"
    seen = np.where(stages.mask, 1.0, np.nan)
    logits = {"q · k": stages.dots * seen, f"q · k / √{d_k}": stages.scaled.logits * seen}
    key_title = f"key: {names[1]}"
    return Exhibit(
        name=head_name(stages.kind, stages.layer, stages.head, stages.query),
        title=f"{place}: query {stages.query + 1} {plain_token(names[0])}",
        caption=(
            f"q · k element by element, the logits before and after the division by √{d_k}, the "
            "softmax of both, and every value times its weight (section 3.2.1). Masked keys have "
            "no logit."
        ),
        parts=(
            Panel("q · k, element by element", stages.products.T, _numbers(d_k), keys,
                  "dimension", key_title, "diverging", "q · k"),
            Series("logits", keys, logits, key_title, "logit", "bar"),
            Series("weights", keys,
                   {"divided": stages.scaled.weights, "not divided": stages.unscaled.weights},
                   key_title, "weight", "bar"),
            Panel("weight × value", stages.scaled.weighted.T, _numbers(d_v), keys,
                  "dimension", key_title, "diverging", "a × v"),
        ),
        arrays={
            "x_query": stages.x_query, "x_keys": stages.x_keys, "q": stages.q,
            "keys": stages.keys, "values": stages.values, "products": stages.products,
            "dots": stages.dots, "mask": stages.mask, "logits": stages.scaled.masked,
            "weights": stages.scaled.weights, "unscaled_weights": stages.unscaled.weights,
            "weighted": stages.scaled.weighted, "output": stages.scaled.output,
            "contribution": stages.scaled.contribution, "block_output": stages.block_output,
        },
        snippet=header + _SNIPPET.format(
            kind=stages.kind, layer=stages.layer, head=stages.head, query=stages.query
        ),
        offline=offline,
        columns=1,
    )  # fmt: skip


_SNIPPET = """
from transformer.trace.inspection import inspect_head

stages = inspect_head(translator.model, trace, {kind!r}, layer={layer}, head={head}, query={query})
x_query, x_keys = stages.x_query, stages.x_keys
q, keys, values = stages.q, stages.keys, stages.values
products, dots, mask = stages.products, stages.dots, stages.mask
logits, weights = stages.scaled.masked, stages.scaled.weights
unscaled_weights = stages.unscaled.weights
weighted, output = stages.scaled.weighted, stages.scaled.output
contribution, block_output = stages.scaled.contribution, stages.block_output
"""


def split_name(kind: str, head: int) -> str:
    """Return the file stem of a split's figure; heads count from 0."""
    return file_stem("logits", _KINDS[kind], "layer 1 head", head + 1, "content position")


def split_exhibit(
    split: LogitSplit,
    header: str,
    rows: Sequence[str],
    offline: Offline | None = None,
    note: str = "",
) -> Exhibit:
    """Build the figure of the parts and their sum, the logits; masked entries are left out.

    Args:
        header: Python that defines `translator` and `trace`.
        rows: [n] labels of the rows.
        note: a further sentence for the caption.
    """
    queries, keys = _numbered(rows), _numbered(split.tokens)
    shown = {SPLIT_NAMES[name]: values for name, values in split.parts.items()}
    shown["sum: the logits"] = split.logits
    return Exhibit(
        name=split_name(split.kind, split.head),
        title=f"{_KINDS[split.kind]}, layer 1, head {split.head + 1}: content and position",
        caption=(
            "Each part of the logits q · k / √d_k, the query's side named first. They add up to "
            f"the model's own logits within {split.residual:.1e}. {note}".rstrip()
        ),
        parts=tuple(
            Panel(title, np.where(split.mask, values, math.nan), queries, keys, "query", "key",
                  "diverging", "logit")
            for title, values in shown.items()
        ),
        arrays={**split.parts, "logits": split.logits, "mask": split.mask},
        snippet=header + _SPLIT_SNIPPET.format(kind=split.kind, head=split.head)
        + ("" if split.bias is None else "bias = split.bias\n"),
        offline=offline,
    )  # fmt: skip


_SPLIT_SNIPPET = """
from transformer.trace.split import split_logits

split = split_logits(translator.model, trace, {kind!r}, head={head})
content_content, content_position = split.content_content, split.content_position
position_content, position_position = split.position_content, split.position_position
logits, mask = split.logits, split.mask
"""


def _numbered(tokens: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{i} {token}" for i, token in enumerate(tokens, start=1))


def _numbers(n: int) -> tuple[str, ...]:
    return tuple(str(i) for i in range(1, n + 1))
