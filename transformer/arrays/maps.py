"""Checks of attention maps from any source: shapes, sizes, and rows that sum to 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer.errors import CheckpointError
from transformer.types import ATTENTION_KINDS, AttentionKind, Floats

#: Other names of the maps, as the transformers library uses them.
ALIASES: dict[str, AttentionKind] = {
    "encoder_attentions": "encoder_self",
    "decoder_attentions": "decoder_self",
    "cross_attentions": "cross",
    "encoder_attention": "encoder_self",
    "decoder_attention": "decoder_self",
    "cross_attention": "cross",
}
#: Names for the self-attention of a model with one stack.
SINGLE = ("attention", "attentions")

MAX_TOKENS, MAX_LAYERS, MAX_MAPS = 512, 200, 4_096

#: Largest deviation of a row's sum from 1; bfloat16 weights, with 8 bits of precision, stay within.
ROW_TOLERANCE = 5e-3
#: Largest weight below 0 and above the diagonal of a causal map, and largest excess over 1.
WEIGHT_TOLERANCE, ABOVE_ONE = 1e-6, 1e-3

_NOT_SQUARE = (
    " is not square; self-attention has as many keys as queries, other maps are called cross"
)


def checked_maps(
    where: str, given: Mapping[str, NDArray[Any]], batch: int | None = None
) -> dict[AttentionKind, Floats]:
    """Return the three kinds of maps, [L, H, n, m]; missing kinds have no layers.

    Args: batch: which of the maps [L, B, H, n, m] to take.
    """
    named: dict[str, NDArray[Any]] = {}
    for name, array in given.items():
        kind = ALIASES.get(name, name)
        if name in SINGLE or kind in ATTENTION_KINDS:
            key = "attention" if name in SINGLE else kind
            if batch is not None and array.ndim == 5:
                if not 0 <= batch < array.shape[1]:
                    raise wrong(where, name, array.shape, f" has no batch={batch}")
                array = array[:, batch]
            if key in named:
                raise CheckpointError(f"{where}: array {name!r} is stored under two names")
            named[key] = _checked_map(where, name, array)
    present = [key for key, array in named.items() if array.size]
    if not present:
        raise no_maps(where)
    if "attention" in named:
        if len(present) > 1:
            other = next(key for key in present if key != "attention")
            raise wrong(
                where, "attention", named["attention"].shape,
                f" beside {other!r}; 'attention' is for models with one stack, others use "
                "encoder_self, decoder_self and cross",
            )  # fmt: skip
        maps = named.pop("attention")
        causal = maps.shape[-1] > 1 and _is_causal(maps)
        named["decoder_self" if causal else "encoder_self"] = maps
    for kind in ("encoder_self", "decoder_self"):
        if kind in named and named[kind].shape[-2] != named[kind].shape[-1]:
            raise wrong(where, kind, named[kind].shape, _NOT_SQUARE)
    if "decoder_self" in named and not _is_causal(named["decoder_self"]):
        raise wrong(
            where, "decoder_self", named["decoder_self"].shape,
            " has weight above the diagonal; a decoder sees no later token, other maps are called "
            "encoder_self",
        )  # fmt: skip
    return _with_missing(named)


def _with_missing(named: Mapping[str, Floats]) -> dict[AttentionKind, Floats]:
    """Return all three kinds; a missing one has no layers and the lengths of the others."""
    cross = named.get("cross")
    source, target = named.get("encoder_self"), named.get("decoder_self")
    n_source = source.shape[-1] if source is not None else 0 if cross is None else cross.shape[-1]
    n_target = target.shape[-1] if target is not None else 0 if cross is None else cross.shape[-2]
    heads = next(iter(named.values())).shape[1]
    sides: dict[AttentionKind, tuple[int, int]] = {
        "encoder_self": (n_source, n_source),
        "decoder_self": (n_target, n_target),
        "cross": (n_target, n_source),
    }
    return {
        kind: named[kind] if kind in named else np.zeros((0, heads, *sides[kind]), dtype=np.float32)
        for kind in ATTENTION_KINDS
    }


def four_axes(where: str, name: str, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape as [L, H, n, m], without a batch axis of one, as in [L, 1, H, n, m].

    Raises: `CheckpointError` for a shape that is not allowed.
    """
    four = tuple(shape)
    if len(four) == 5:
        if four[1] != 1:
            other = f", or maps[0] if these are {four[1]} layers" if four[0] == 1 else ""
            raise wrong(
                where, name, shape,
                f" is a batch of {four[1]}: choose one (`batch=0`){other}",
            )  # fmt: skip
        four = four[:1] + four[2:]
    if len(four) not in (2, 3, 4):
        raise wrong(
            where, name, shape,
            " is not a map; allowed are [layers, heads, queries, keys], [heads, queries, keys] and "
            "[queries, keys]",
        )  # fmt: skip
    four = (1,) * (4 - len(four)) + four
    layers, heads, n, m = four
    if layers > MAX_LAYERS or layers * heads > MAX_MAPS:
        raise wrong(
            where, name, shape,
            f" has {layers} layers of {heads} heads; at most {MAX_LAYERS} layers and {MAX_MAPS:,} "
            "heads in all are allowed",
        )  # fmt: skip
    if max(n, m) > MAX_TOKENS:
        raise wrong(
            where, name, shape, f" has {max(n, m):,} tokens; at most {MAX_TOKENS} are allowed"
        )
    return four


def _checked_map(where: str, name: str, array: NDArray[Any]) -> Floats:
    """Return weights as float32 [L, H, n, m]: finite, from 0 to 1, rows that sum to 1."""
    shape = four_axes(where, name, array.shape)
    if array.dtype.kind not in "biuf":
        raise wrong_type(where, name, array, "numbers")
    if name in SINGLE and shape[-2] != shape[-1]:
        raise wrong(where, name, array.shape, _NOT_SQUARE)
    if array.size == 0:
        return np.zeros(shape, dtype=np.float32)
    with np.errstate(over="ignore"):
        maps = np.ascontiguousarray(array.reshape(shape), dtype=np.float32)
    sums = maps.sum(axis=-1, dtype=np.float64)
    low, high = -WEIGHT_TOLERANCE, 1 + ABOVE_ONE
    for bad, values, fault in (
        (~np.isfinite(maps), maps, ": NaN or infinite at {at}; weights are from 0 to 1"),
        ((maps < low) | (maps > high), maps, ": {value:.4g} at {at}; weights are from 0 to 1"),
        (
            np.abs(sums - 1) > ROW_TOLERANCE, sums,
            f": row {{at}} sums to {{value:.4g}}; rows are queries and sum to 1 within "
            f"{ROW_TOLERANCE:g}",
        ),
    ):  # fmt: skip
        if bad.any():
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            raise wrong(where, name, array.shape, fault.format(value=values[at], at=at))
    return maps


def lengths(where: str, maps: Mapping[AttentionKind, Floats]) -> tuple[int, int]:
    """Return the numbers of source and target tokens.

    Raises: `CheckpointError` if the kinds disagree.
    """
    cross = maps["cross"]
    n_source, n_target = maps["encoder_self"].shape[-1], maps["decoder_self"].shape[-1]
    if cross.shape[-2:] != (n_target, n_source):
        raise wrong(
            where, "cross", cross.shape,
            f" for {n_target} queries (decoder_self) and {n_source} keys (encoder_self); "
            f"expected [..., {n_target}, {n_source}]",
        )  # fmt: skip
    return n_source, n_target


def _is_causal(maps: Floats) -> bool:
    n = min(maps.shape[-2:])
    later = np.triu(np.ones(maps.shape[-2:], dtype=bool), 1)
    return n == 0 or not (maps[..., later] > WEIGHT_TOLERANCE).any()


def wrong(where: str, name: str, shape: Sequence[int], fault: str) -> CheckpointError:
    """Return the error for an array: the source, its name and shape, and the fault."""
    return CheckpointError(f"{where}: array {name!r} {list(shape)[:9]}{fault}")


def wrong_type(where: str, name: str, array: NDArray[Any], expected: str) -> CheckpointError:
    """Return the error for an array of the wrong type."""
    return wrong(where, name, array.shape, f" has type {array.dtype}; expected {expected}")


def no_maps(where: str) -> CheckpointError:
    """Return the error for a file without attention maps."""
    names = ", ".join((*ATTENTION_KINDS, SINGLE[0]))
    return CheckpointError(f"{where}: no attention maps; expected one or more of {names}")
