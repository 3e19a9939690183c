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
    """The positions of one side of one model.

    Attributes:
        table: [n, d_model], what is added to the embeddings of positions 0, 1, ...; shorter than
            asked for where a learned or stored table ends.
        about: what they are, in a few words.
    """

    table: Floats
    about: str


def own_positions(model: Translator, side: Side, n: int) -> OwnPositions:
    """The first `n` positions as the model's own module gives them."""
    module = model.model.src_positions if side == "source" else model.model.tgt_positions
    if isinstance(module, TablePositions):
        n = min(n, module.table.size(0))
    table: Floats = module(0, n).detach().float().cpu().numpy()
    told = about(model.config)
    if isinstance(module, StoredPositions):
        told += f": {about_table(module.table, model.config)}"
    return OwnPositions(table, told)


def about(config: ModelConfig) -> str:
    """What kind of positions a model has."""
    if config.positions != "sinusoidal":
        return f"{config.positions}, a table of {config.max_positions:,} × {config.d_model}"
    shifted = "" if not config.position_offset else f", counted from {config.position_offset}"
    ending = "" if config.position_frequencies == "paper" else ", slower to the end"
    return f"sinusoids, {config.position_layout}, {config.d_model} dimensions{shifted}{ending}"
