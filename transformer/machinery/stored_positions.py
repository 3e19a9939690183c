"""The positions of a config: computed, learned, or a table from another library."""

from __future__ import annotations

from torch import Tensor

from transformer.config import ModelConfig
from transformer.positions import (
    LearnedPositions,
    NoPositions,
    SinusoidalPositions,
    TablePositions,
    sinusoidal,
)


class StoredPositions(TablePositions):
    """Fixed vectors that came with the weights. No parameters, so table 3 does not count them.

    Departure: the paper's are computed. A library that stores its sinusoids in half precision
    computes with the rounded ones, so the formula would not reproduce its attention.
    """

    kind = "stored"

    def __init__(self, table: Tensor) -> None:
        """Args: table: [n, d_model]; the formula's, until a checkpoint's is loaded."""
        super().__init__()
        self.register_buffer("table", table)


def formula(config: ModelConfig, n_positions: int | None = None) -> Tensor:
    """Return the sinusoids of a config's size, layout and numbering: [max_positions, d_model]."""
    return sinusoidal(
        config.max_positions if n_positions is None else n_positions,
        config.d_model,
        start=config.position_offset,
        layout=config.position_layout,
        frequencies=config.position_frequencies,
    )


def make_positions(config: ModelConfig) -> SinusoidalPositions | TablePositions | NoPositions:
    """Return the positional encoding of a config."""
    if config.positions == "relative":
        return NoPositions(config.d_model)
    if config.positions == "learned":
        return LearnedPositions(config.d_model, config.max_positions)
    if config.positions == "stored":
        return StoredPositions(formula(config))
    return SinusoidalPositions(
        config.d_model,
        config.position_layout,
        config.max_positions,
        offset=config.position_offset,
        frequencies=config.position_frequencies,
    )
