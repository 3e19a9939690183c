"""The vectors that a model adds for positions."""

from __future__ import annotations

from dataclasses import dataclass

from transformer.checkpoint.position_tables import about_table
from transformer.config import ModelConfig
from transformer.machinery.stored_positions import StoredPositions
from transformer.positions import TablePositions
from transformer.trace.embeddings import Side
from transformer.translator import Translator
from transformer.types import Floats


@dataclass(frozen=True, eq=False)
class OwnPositions:
    """The position vectors of one stack of a model.

    Attributes:
        table: [n, d_model], added to the embeddings at positions 0, 1, ...; shorter than asked for
            if a learned or stored table ends.
        about: the kind of positions, in a few words.
    """

    table: Floats
    about: str


def own_positions(model: Translator, side: Side, n: int) -> OwnPositions:
    """Return the first `n` position vectors of the model's own module."""
    module = model.model.src_positions if side == "source" else model.model.tgt_positions
    if isinstance(module, TablePositions):
        n = min(n, module.table.size(0))
    table: Floats = module(0, n).detach().float().cpu().numpy()
    described = about(model.config)
    if isinstance(module, StoredPositions):
        described += f": {about_table(module.table, model.config)}"
    return OwnPositions(table, described)


def about(config: ModelConfig) -> str:
    """Return the kind of a model's positions, in a few words."""
    if config.positions == "relative":
        return "nothing is added, heads count distances"
    if config.positions != "sinusoidal":
        return f"{config.positions}, a table of {config.max_positions:,} × {config.d_model}"
    shifted = "" if not config.position_offset else f", counted from {config.position_offset}"
    ending = "" if config.position_frequencies == "paper" else ", slower to the end"
    return f"sinusoids, {config.position_layout}, {config.d_model} dimensions{shifted}{ending}"
