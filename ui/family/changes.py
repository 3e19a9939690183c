"""Differences of each member of the family from the model of 2017."""

from __future__ import annotations

from dataclasses import dataclass

from transformer.catalogue import Entry
from transformer.config import ModelConfig


@dataclass(frozen=True)
class Novelty:
    """One difference.

    Attributes:
        what: of what.  then: in the paper.  now: in this model.
    """

    what: str
    then: str
    now: str


def changes(entry: Entry) -> list[Novelty]:
    """Return what differs from the paper's model, its size aside; [] if nothing is known."""
    stack, config = entry.stack, entry.config
    blocks = config if stack is None else stack.blocks
    if blocks is None:
        return []
    found = []
    if stack is not None:
        found.append(_stacks(stack.task))
        found.append(_task(stack.task))
    found += _blocks(blocks)
    return found


def _stacks(task: str) -> Novelty:
    now = {
        "continue": "a decoder without cross-attention",
        "fill": "an encoder alone",
        "translate": "a decoder without cross-attention; the source is the beginning of its text",
    }[task]
    return Novelty("Stacks", "an encoder, and a decoder that looks into it", now)


def _task(task: str) -> Novelty:
    now = {
        "continue": "predict every next token of any text",
        "fill": "predict the 15% of tokens that are hidden, from both sides",
        "translate": "next target token (unchanged)",
    }[task]
    return Novelty("Learns to", "predict each next token of a translation", now)


def _blocks(config: ModelConfig) -> list[Novelty]:
    found = []
    if config.norm == "pre":
        found.append(
            Novelty("LayerNorm", "after each residual sum", "in front of each block, which leaves "
                   "the stream a plain sum")
        )  # fmt: skip
    if config.positions != "sinusoidal":
        now = {
            "learned": "a trained vector for each position",
            "stored": "a table from another library",
            "relative": "nothing is added; each head adds a number for the distance to a logit",
        }[config.positions]
        found.append(Novelty("Positions", "sinusoids, added to the embeddings", now))
    if config.activation != "relu":
        names = {"gelu": "GELU, a smooth ReLU", "silu": "SiLU, a smooth ReLU"}
        found.append(Novelty("Feed-forward", "ReLU", names[config.activation]))
    if config.attention_bias:
        found.append(Novelty("Projections", "without biases", "with biases"))
    if not config.scale_embedding:
        found.append(Novelty("Embeddings", "times √d_model", "as they are"))
    return found
