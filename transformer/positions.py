"""Positional encodings (section 3.5)."""

import math

import torch
from torch import Tensor, nn

from transformer.config import (
    DISTANCE_BUCKETS,
    ModelConfig,
    PositionFrequencies,
    PositionKind,
    PositionLayout,
)
from transformer.types import literals

#: Relative positions do not distinguish distances from here on.
FURTHEST = 128


@literals
def angular_frequencies(d_model: int, which: PositionFrequencies = "paper") -> Tensor:
    """Return the d_model / 2 angular frequencies 10000^(-2i / d_model), in radians per position.

    Args:
        d_model: an odd one has a last sine without a cosine, with "endpoint" a last column of 0.
        which: "endpoint" is 10000^(-2i / (d_model - 2)). Departure: as in tensor2tensor, the code
            behind the paper.

    Returns: [d_model / 2], float64, from 1 down to almost (with "endpoint", exactly) 1 / 10000.
    """
    if which == "endpoint":
        d_model -= d_model % 2
    width = d_model if which == "paper" else d_model - 2
    if not width:
        raise ValueError(f"d_model={d_model} has one frequency; an end point needs two")
    exponents = torch.arange(0, d_model, 2, dtype=torch.float64) / width
    return torch.exp(-math.log(10_000.0) * exponents)


@literals
def sinusoidal(
    n_positions: int, d_model: int, *, start: int = 0, layout: PositionLayout = "interleaved",
    frequencies: PositionFrequencies = "paper",
) -> Tensor:  # fmt: skip
    """PE(pos, 2i) = sin(pos w_i), PE(pos, 2i+1) = cos(pos w_i) with w_i = 10000^(-2i / d_model).

    Args:
        n_positions: rows, for positions start .. start + n_positions - 1.
        d_model: columns; even in the paper's layout.
        start: first position; any integer, as the formula has no longest length.
        layout: "interleaved" (the paper's) or "concatenated": all sines, then all cosines.
        frequencies: see `angular_frequencies`.

    Returns: [n_positions, d_model], float32, values in [-1, 1]. Computed in float64, since float32
        angles lose digits at large positions. On the meta device, only the shape.
    """
    if d_model < 2 or (d_model % 2 and layout == "interleaved"):
        raise ValueError(f"d_model={d_model} must be even and at least 2")
    table = torch.empty(n_positions, d_model, dtype=torch.float32)
    if table.is_meta:
        return table
    positions = torch.arange(start, start + n_positions, dtype=torch.float64)
    angles = positions[:, None] * angular_frequencies(d_model, frequencies)  # [n, d_model / 2]
    if layout == "concatenated":
        table = torch.cat([angles.sin(), angles.cos()[:, : d_model // 2]], dim=1)
        table = nn.functional.pad(table, (0, d_model - table.size(1)))  # an odd width of fairseq
    else:
        table = torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)
    return table.to(torch.float32)


@literals
def pair_columns(d_model: int, layout: PositionLayout) -> Tensor:
    """Return the columns of each pair's sine and cosine: [d_model / 2, 2], int64."""
    columns = torch.arange(d_model)
    return columns.view(2, -1).T if layout == "concatenated" else columns.view(-1, 2)


@literals
def shift_matrix(k: int, d_model: int, *, layout: PositionLayout = "interleaved") -> Tensor:
    """The matrix M_k with PE(pos + k) = M_k PE(pos) for every pos (section 3.5, last paragraph).

    M_k rotates each (sin, cos) pair by the angle k w_i, so it depends only on the distance k.

    Returns: [d_model, d_model], float64, block-diagonal rotations (in the interleaved layout).
    """
    angles = k * angular_frequencies(d_model)
    sine, cosine = angles.sin(), angles.cos()
    at_sine, at_cosine = pair_columns(d_model, layout).unbind(1)
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

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("table", sinusoids(config), persistent=False)

    def forward(self, start: int, length: int) -> Tensor:
        """Encodings of positions start .. start + length - 1. Returns: [length, d_model]."""
        if start + length > self.table.size(0):
            self.table = sinusoids(self.config, 2 * (start + length)).to(self.table)
        return self.table[start : start + length]


class TablePositions(nn.Module):
    """A vector per position, saved with the weights; longer sequences are refused."""

    table: Tensor
    kind: PositionKind

    def forward(self, start: int, length: int) -> Tensor:
        """Encodings of positions start .. start + length - 1. Returns: [length, d_model]."""
        if start + length > self.table.size(0):
            n = self.table.size(0)
            raise ValueError(f"position {start + length} exceeds the {n} {self.kind} positions")
        return self.table[start : start + length]


class LearnedPositions(TablePositions):
    """Trained vectors (table 3, row E)."""

    kind = "learned"

    def __init__(self, d_model: int, n_positions: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(n_positions, d_model))
        nn.init.normal_(self.table, std=0.02)


class StoredPositions(TablePositions):
    """Fixed vectors loaded with the weights; not parameters, so table 3 does not count them.

    Departure: the paper computes them. A library that stores its sinusoids in half precision
    computes with rounded values, so the formula would not reproduce its attention.
    """

    kind = "stored"

    def __init__(self, table: Tensor) -> None:
        """Args: table: [n, d_model]; the formula's until a checkpoint is loaded."""
        super().__init__()
        self.register_buffer("table", table)


class NoPositions(nn.Module):
    """No encodings added to embeddings; the order comes from `RelativePositions`."""

    nothing: Tensor

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.register_buffer("nothing", torch.zeros(1, d_model), persistent=False)

    def forward(self, start: int, length: int) -> Tensor:
        """Zeros [length, d_model]."""
        return self.nothing.expand(length, -1)


class ShiftedPositions(nn.Module):
    """Positional encodings that start at a later position."""

    def __init__(self, positions: nn.Module, shift: int) -> None:
        super().__init__()
        self.positions, self.shift = positions, shift

    def forward(self, start: int, length: int) -> Tensor:
        """Encodings from position start + shift on. Returns: [length, d_model]."""
        encodings: Tensor = self.positions(start + self.shift, length)
        return encodings


def distance_buckets(distances: Tensor, *, causal: bool) -> Tensor:
    """Return the class of each distance, key position minus query position.

    Half of the classes hold one distance each; the rest grow evenly in the logarithm of the
    distance up to `FURTHEST`, and the last holds all greater distances. In a bidirectional stack,
    each direction has half of the classes; in a causal one, later keys count as distance 0.

    Source: Raffel et al. (2020), section 2.1, and its published code.

    Returns: int64, 0 to `DISTANCE_BUCKETS` - 1, of the same shape.
    """
    n_buckets, first = DISTANCE_BUCKETS, torch.zeros_like(distances)
    if causal:
        back = (-distances).clamp(min=0)
    else:
        n_buckets //= 2
        first, back = (distances > 0) * n_buckets, distances.abs()
    exact = n_buckets // 2
    share = (back.clamp(min=1).double() / exact).log() / math.log(FURTHEST / exact)
    far = (exact + (share * (n_buckets - exact)).long()).clamp(max=n_buckets - 1)
    return first + torch.where(back < exact, back, far)


class RelativePositions(nn.Module):
    """A number for every class of distances and every head, added to self-attention logits.

    All layers of a stack share one module.
    """

    def __init__(self, n_heads: int, *, causal: bool) -> None:
        """Args: causal: True if queries see only earlier positions."""
        super().__init__()
        self.causal = causal
        self.table = nn.Parameter(torch.zeros(DISTANCE_BUCKETS, n_heads))

    def forward(self, n_queries: int, n_keys: int) -> Tensor:
        """Return the numbers [1, H, n_queries, n_keys]; the queries are the last positions."""
        keys = torch.arange(n_keys, device=self.table.device)
        distances = keys - keys[n_keys - n_queries :, None]
        buckets = distance_buckets(distances, causal=self.causal)
        return self.table[buckets].permute(2, 0, 1)[None]


def sinusoids(config: ModelConfig, n_positions: int | None = None) -> Tensor:
    """Return the sinusoids of a config's size, layout and numbering: [max_positions, d_model]."""
    n = config.max_positions if n_positions is None else n_positions
    return sinusoidal(
        n, config.d_model, start=config.position_offset, layout=config.position_layout,
        frequencies=config.position_frequencies,
    )  # fmt: skip


def make_positions(config: ModelConfig) -> SinusoidalPositions | TablePositions | NoPositions:
    """Return the positional encoding of a config."""
    if config.positions == "relative":
        return NoPositions(config.d_model)
    if config.positions == "learned":
        return LearnedPositions(config.d_model, config.max_positions)
    if config.positions == "stored":
        return StoredPositions(sinusoids(config))
    return SinusoidalPositions(config)
