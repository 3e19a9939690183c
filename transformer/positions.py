"""Positional encodings (section 3.5)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from transformer.config import PositionFrequencies, PositionKind, PositionLayout


def angular_frequencies(d_model: int, which: PositionFrequencies = "paper") -> Tensor:
    """Return the d_model / 2 angular frequencies 10000^(-2i / d_model), in radians per position.

    Args:
        which: "endpoint" is 10000^(-2i / (d_model - 2)). Departure: that is how tensor2tensor, the
            code behind the paper, has them.

    Returns: [d_model / 2], float64, from 1 down to almost (with "endpoint", exactly) 1 / 10000.
    """
    if d_model < 2 or d_model % 2:
        raise ValueError(f"d_model={d_model} must be even and at least 2")
    width = d_model if which == "paper" else d_model - 2
    if not width:
        raise ValueError(f"d_model={d_model} has one frequency; an end point needs two")
    exponents = torch.arange(0, d_model, 2, dtype=torch.float64) / width
    return torch.exp(-math.log(10_000.0) * exponents)


def sinusoidal(
    n_positions: int,
    d_model: int,
    *,
    start: int = 0,
    layout: PositionLayout = "interleaved",
    frequencies: PositionFrequencies = "paper",
) -> Tensor:
    """PE(pos, 2i) = sin(pos w_i), PE(pos, 2i+1) = cos(pos w_i) with w_i = 10000^(-2i / d_model).

    Args:
        n_positions: rows, for positions start .. start + n_positions - 1.
        d_model: columns; even.
        start: first position. Any integer: the formula has no longest length.
        layout: "interleaved" (the paper's) or "concatenated": all sines, then all cosines.
        frequencies: see `angular_frequencies`.

    Returns: [n_positions, d_model], float32, values in [-1, 1]. Computed in float64, since
        float32 angles lose digits at large positions. On the meta device: the shape alone.
    """
    table = torch.empty(n_positions, d_model, dtype=torch.float32)
    if table.is_meta:
        return table
    positions = torch.arange(start, start + n_positions, dtype=torch.float64)
    angles = positions[:, None] * angular_frequencies(d_model, frequencies)  # [n, d_model / 2]
    if layout == "concatenated":
        table = torch.cat([angles.sin(), angles.cos()], dim=1)
    else:
        table = torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)
    return table.to(torch.float32)


def shift_matrix(k: int, d_model: int, *, layout: PositionLayout = "interleaved") -> Tensor:
    """The matrix M_k with PE(pos + k) = M_k PE(pos) for every pos (section 3.5, last paragraph).

    M_k turns each (sin, cos) pair by the angle k w_i, so it depends on the distance k alone.

    Returns: [d_model, d_model], float64, block-diagonal rotations (in the interleaved layout).
    """
    angles = k * angular_frequencies(d_model)
    n = d_model // 2
    sine, cosine = angles.sin(), angles.cos()
    if layout == "concatenated":
        at_sine, at_cosine = torch.arange(n), torch.arange(n) + n
    else:
        at_sine, at_cosine = torch.arange(n) * 2, torch.arange(n) * 2 + 1
    matrix = torch.zeros(d_model, d_model, dtype=torch.float64)
    # sin(a + b) = sin a cos b + cos a sin b;  cos(a + b) = cos a cos b - sin a sin b
    matrix[at_sine, at_sine] = cosine
    matrix[at_sine, at_cosine] = sine
    matrix[at_cosine, at_cosine] = cosine
    matrix[at_cosine, at_sine] = -sine
    return matrix


class SinusoidalPositions(nn.Module):
    """Fixed sinusoids; the table grows with the longest sequence."""

    table: Tensor

    def __init__(
        self,
        d_model: int,
        layout: PositionLayout,
        n_positions: int,
        *,
        offset: int = 0,
        frequencies: PositionFrequencies = "paper",
    ) -> None:
        """Args: offset: number of the first position."""
        super().__init__()
        self.d_model, self.layout = d_model, layout
        self.offset, self.frequencies = offset, frequencies
        self.register_buffer("table", self._computed(n_positions), persistent=False)

    def _computed(self, n_positions: int) -> Tensor:
        return sinusoidal(
            n_positions,
            self.d_model,
            start=self.offset,
            layout=self.layout,
            frequencies=self.frequencies,
        )

    def forward(self, start: int, length: int) -> Tensor:
        """Encodings of positions start .. start + length - 1. Returns: [length, d_model]."""
        if start + length > self.table.size(0):
            self.table = self._computed(2 * (start + length)).to(self.table)
        return self.table[start : start + length]


class TablePositions(nn.Module):
    """A vector per position, saved with the weights; longer sequences are refused."""

    table: Tensor
    kind: PositionKind

    def forward(self, start: int, length: int) -> Tensor:
        """Encodings of positions start .. start + length - 1. Returns: [length, d_model]."""
        if start + length > self.table.size(0):
            raise ValueError(
                f"position {start + length} lies beyond the {self.table.size(0)} {self.kind} "
                "positions"
            )
        return self.table[start : start + length]


class LearnedPositions(TablePositions):
    """Trained vectors (table 3, row E)."""

    kind = "learned"

    def __init__(self, d_model: int, n_positions: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(n_positions, d_model))
        nn.init.normal_(self.table, std=0.02)
