"""Positional encodings as NumPy arrays, computed by `transformer.positions`."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray

from transformer.checkpoint.weights import about_stored
from transformer.config import ModelConfig, PositionLayout
from transformer.model import Transformer
from transformer.positions import (
    TablePositions,
    angular_frequencies,
    distance_buckets,
    pair_columns,
    shift_matrix,
    sinusoidal,
)
from transformer.trace.building import to_array
from transformer.types import Floats, literals

TextSide = Literal["source", "translation"]


@dataclass(frozen=True, eq=False)
class StackInput:
    """The input of the encoder or decoder: content plus positions."""

    content: Floats  # [n, d_model], embeddings times `scale`
    positions: Floats  # [n, d_model], encodings of positions 0, 1, ...
    scale: float  # sqrt(d_model), or 1 for a model without scaling


@literals
def stack_input(model: Transformer, ids: Sequence[int], side: TextSide) -> StackInput:
    """Return content and positions of the encoder ("source") or decoder ("translation") input."""
    source = side == "source"
    embedding = model.src_embedding if source else model.tgt_embedding
    positions = model.src_positions if source else model.tgt_positions
    scale = math.sqrt(model.config.d_model) if model.config.scale_embedding else 1.0
    with torch.inference_mode():
        tokens = torch.tensor(list(ids), dtype=torch.long, device=embedding.weight.device)
        content, places = model.content(tokens, embedding), positions(0, len(ids))
    return StackInput(to_array(content), to_array(places), scale)


def embedding_tables(model: Transformer) -> dict[str, Floats]:
    """Return the embedding matrices [V, d_model] by use; shared weights have one joint name."""
    used = {
        "source": model.src_embedding.weight,
        "target": model.tgt_embedding.weight,
        "output": model.generator.weight,
    }
    names: dict[int, list[str]] = {}
    for name, weight in used.items():
        names.setdefault(weight.data_ptr(), []).append(name)
    return {" and ".join(", ".join(uses).rsplit(", ", 1)): to_array(used[uses[0]])
            for uses in names.values()}  # fmt: skip


def encoding(n: int, d_model: int, layout: PositionLayout, start: int = 0) -> Floats:
    """Return the sinusoidal table of `n` positions: [n, d_model], float32."""
    table: Floats = sinusoidal(n, d_model, start=start, layout=layout).numpy()
    return table


@literals
def dimension_names(d_model: int, layout: PositionLayout) -> list[str]:
    """Return the names of dimensions, [d_model]: "sin of pair 0", ..."""
    names = [""] * d_model
    for pair, (sine, cosine) in enumerate(pair_columns(d_model, layout).tolist()):
        names[sine], names[cosine] = f"sin of pair {pair}", f"cos of pair {pair}"
    return names


def wavelengths(d_model: int) -> NDArray[np.float64]:
    """Return the periods of pairs in positions, 2 pi / w_i: [d_model / 2]."""
    periods: NDArray[np.float64] = 2 * np.pi / angular_frequencies(d_model).numpy()
    return periods


def offset_products(starts: Sequence[int], n: int, d_model: int) -> Floats:
    """Return PE(start) · PE(start + k) for k = 0 .. n - 1: [n, len(starts)], float32."""
    tables = [encoding(n, d_model, "interleaved", start) for start in starts]
    return np.stack([table @ table[0] for table in tables], axis=1)


@dataclass(frozen=True, eq=False)
class Shift:
    """A numerical check of the shift property, M_k PE(pos) = PE(pos + k), pair by pair."""

    before: Floats  # [P, 2], (sin, cos) pairs of PE(pos)
    after: Floats  # [P, 2], pairs of M_k PE(pos)
    expected: Floats  # [P, 2], pairs of PE(pos + k), from the formula
    angles: NDArray[np.float64]  # [P], rotations k w_i in radians
    largest_error: float  # max |M_k PE(pos) - PE(pos + k)| over dimensions at this pos
    largest_error_anywhere: float  # the same over positions 0 .. `positions_checked` - 1
    positions_checked: int


@literals
def shift(pos: int, k: int, d_model: int, layout: PositionLayout, n: int = 512) -> Shift:
    """Check PE(pos + k) = M_k PE(pos) at `pos`, and with the same M_k at positions 0 .. n - 1.

    `k` may be negative. M_k is float64 and encodings are float32 as in models, so errors are
    float32 rounding.
    """
    turn = shift_matrix(k, d_model, layout=layout)
    tables = {at: sinusoidal(1, d_model, start=at, layout=layout).double() for at in (pos, pos + k)}
    turned = tables[pos] @ turn.T
    many = sinusoidal(n, d_model, layout=layout).double()
    many_shifted = sinusoidal(n, d_model, start=k, layout=layout).double()
    columns = pair_columns(d_model, layout).numpy()

    def pairs(row: torch.Tensor) -> Floats:
        picked: Floats = row[0].numpy()[columns].astype(np.float32)
        return picked

    return Shift(
        before=pairs(tables[pos]),
        after=pairs(turned),
        expected=pairs(tables[pos + k]),
        angles=k * angular_frequencies(d_model).numpy(),
        largest_error=float((turned - tables[pos + k]).abs().max()),
        largest_error_anywhere=float((many @ turn.T - many_shifted).abs().max()),
        positions_checked=n,
    )


def tables_of(model: Transformer) -> dict[str, Floats]:
    """Return learned or stored positions by stack, "Encoder" and "Decoder"; {} for sinusoids."""
    sides = {"Encoder": model.src_positions, "Decoder": model.tgt_positions}
    return {
        side: positions.table.detach().float().cpu().numpy()
        for side, positions in sides.items()
        if isinstance(positions, TablePositions)
    }


def distance_numbers(
    model: Transformer, distances: Sequence[int] | NDArray[np.int64]
) -> dict[str, Floats]:
    """Return the terms of relative positions in logits by stack, "Encoder" and "Decoder".

    Args: distances: [n], key position minus query position.

    Returns: [H, n] per stack; NaN for masked keys. {} for models without relative positions.
    """
    if model.config.positions != "relative":
        return {}
    apart = torch.tensor(np.asarray(distances), dtype=torch.long)
    by_stack: dict[str, Floats] = {}
    for side, module in (("Encoder", model.src_distances), ("Decoder", model.tgt_distances)):
        table = module.table.detach().float().cpu()
        numbers = table[distance_buckets(apart, causal=module.causal)].T.contiguous().numpy()
        if module.causal:
            numbers[:, np.asarray(distances) > 0] = np.nan
        by_stack[side] = numbers
    return by_stack


_NOTES: WeakKeyDictionary[Transformer, str] = WeakKeyDictionary()


def stored_note(model: Transformer) -> str:
    """Describe a stored table and its distance from the formula, or return ""."""
    if model.config.positions != "stored":
        return ""
    if model not in _NOTES:  # a long table takes a tenth of a second to compare
        tables = {side.lower(): torch.from_numpy(table) for side, table in tables_of(model).items()}
        _NOTES[model] = about_stored(tables, model.config)
    return _NOTES[model]


def unlike_the_paper(config: ModelConfig) -> str:
    """Describe how a model's sinusoids differ from the paper's, or return ""."""
    if config.positions == "relative":
        return (
            "This model adds nothing for positions to its embeddings: each head adds a number for "
            "the distance of two tokens to their logit. The first picture shows these numbers; the "
            "others are the paper's formula."
        )
    parts = []
    if config.position_offset:
        parts.append(f"counts its positions from {config.position_offset}")
    if config.position_frequencies == "endpoint":
        parts.append("has frequencies that end at exactly 1/10000")
    if config.positions != "sinusoidal" or not parts:
        return ""
    return f"This model {' and '.join(parts)}; the pictures here are the paper's formula."


def trained_positions(metrics: Mapping[str, Any]) -> int | None:
    """Return the number of positions seen in training from metrics, or None."""
    training = metrics.get("training")
    if not isinstance(training, Mapping):
        return None
    lengths = [training.get(name) for name in ("longest_source", "longest_target")]
    known = [n for n in lengths if isinstance(n, int) and not isinstance(n, bool) and n > 0]
    return max(known, default=None)


def pairs_around(limit: int, d_model: int) -> list[int]:
    """Return the pairs with about four, one and a quarter turns in `limit` positions."""
    waves = wavelengths(d_model)
    return sorted({int(np.argmin(np.abs(waves - limit * times))) for times in (0.25, 1, 4)})


def around(
    limit: int, d_model: int, tables: Mapping[str, Floats], kind: str = "learned"
) -> tuple[Floats, list[str]]:
    """Return curves before and after position `limit`: sines of `pairs_around`, and tables.

    Args: tables: [n, d_model] by stack.  kind: "learned" or "stored".

    Returns: curves [2 * limit, C], NaN after the end of a table, and C names. Tables are scaled to
        a largest magnitude of 1.
    """
    waves, pairs = wavelengths(d_model), pairs_around(limit, d_model)
    curves = [encoding(2 * limit, d_model, "concatenated")[:, pairs]]
    names = [f"sin of pair {i}, one turn in {waves[i]:,.0f} positions" for i in pairs]
    for side, rows in tables.items():
        curve = np.full((2 * limit, 1), np.nan, dtype=np.float32)
        known = rows[: 2 * limit, 0]
        curve[: len(known), 0] = known / max(float(np.abs(rows[:, 0]).max()), 1e-9)
        curves.append(curve)
        names.append(f"{side}, {kind} dimension 0 (scaled)")
    return np.hstack(curves), names
