"""Attention maps and tokens as arrays, from anywhere: in and out of `Trace`.

The layout is described in docs/arrays.md. In short: maps are called `encoder_self`,
`decoder_self` and `cross` and are [L, H, n, m], or lack the axes that have one entry; `attention`
is the self-attention of a model with one stack. Tokens are arrays of text: `src_tokens` and
`tgt_tokens`, or `tokens` for one stack. All else is optional. Rows are queries and sum to 1;
nothing is renormalised here.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer.arrays.maps import (
    ALIASES,
    SINGLE,
    checked_maps,
    four_axes,
    lengths,
    no_maps,
    wrong,
)
from transformer.arrays.texts import (
    as_lists,
    plain_text,
    read_ids,
    read_numbers,
    read_positions,
    read_scalar,
    read_text,
    read_tokens,
    read_top,
    special_in,
)
from transformer.errors import CheckpointError
from transformer.files.atomic import check_place, write_atomic
from transformer.files.npz import describe_npz, read_npz
from transformer.trace.records import Trace
from transformer.types import ATTENTION_KINDS, AttentionKind

#: In files of this module: everything else is then taken exactly as it is.
LAYOUT, OURS = "layout", "headlight 1"

_TEXTS = ("src_tokens", "tgt_tokens", "predicted_tokens", "top_tokens", "source", "text")
#: The fields of a `Trace` that a file holds; a search is too large for one.
STORED = tuple(each.name for each in fields(Trace) if each.name != "search")
KNOWN = frozenset({*STORED, *ALIASES, *SINGLE, "tokens", LAYOUT})


def load_arrays(path: str | Path) -> Trace:
    """A trace from an .npz file, whoever wrote it.

    Raises: `CheckpointError`, one line with the file, the array, its shape and what is allowed.
    """
    path = Path(path)
    return trace_of(read_npz(path, KNOWN), str(path))


def look_at_arrays(path: str | Path) -> dict[AttentionKind, tuple[int, ...]]:
    """The kinds of maps in a file and their shapes [L, H, n, m], from headers alone.

    Raises: `CheckpointError` like `load_arrays`, for what the headers show.
    """
    where = str(path)
    found = {name: shape for name, (shape, _) in describe_npz(Path(path), KNOWN).items()}
    shapes: dict[AttentionKind, tuple[int, ...]] = {}
    for name, shape in found.items():
        called = "encoder_self" if name in SINGLE else ALIASES.get(name, name)
        for kind in ATTENTION_KINDS:
            if kind == called and 0 not in shape:
                shapes[kind] = four_axes(where, name, shape)
    if not shapes:
        raise no_maps(where)
    return shapes


def npz_path(path: str | Path) -> Path:
    """The path with `.npz` added where it was missing. Raises `OSError` where it names no file."""
    path = Path(path)
    if path.suffix != ".npz" and path.name not in ("", ".."):
        path = path.with_name(path.name + ".npz")
    check_place(path)
    return path


def save_arrays(trace: Trace, path: str | Path) -> Path:
    """Write a trace as an .npz file, such that `load_arrays` gives it back, without its search.

    Texts are Unicode arrays, and `np.load` reads all of it without pickle. Fields that are None
    are left out.

    Returns: the path, with `.npz` added where it was missing.

    Raises: `ValueError` for a text that ends in a null character, which no such array can hold;
        `OSError` where no file can be written.
    """
    path = npz_path(path)
    arrays: dict[str, Any] = {LAYOUT: np.array(OURS)}
    for name in STORED:
        value = getattr(trace, name)
        if value is None:
            continue
        if name in _TEXTS:
            arrays[name] = np.array(value, dtype=str)
            if name == "top_tokens":
                arrays[name] = arrays[name].reshape(trace.top_ids.shape)
            if arrays[name].tolist() != as_lists(value):
                raise ValueError(f"{name}: a text ends in a null character, which is not stored")
        elif isinstance(value, tuple):
            arrays[name] = np.array(value, dtype=np.int64)
        else:
            arrays[name] = np.asarray(value)
    written = io.BytesIO()
    np.savez_compressed(written, allow_pickle=False, **arrays)
    write_atomic(path, written.getvalue())
    return path


def trace_of(arrays: Mapping[str, Any], where: str = "arrays") -> Trace:
    """A trace from arrays by name; names that are not known are left alone.

    What is missing is filled in without making anything up: tokens are called by their positions
    (`▁1`, `▁2`, ...), ids are -1, and log-probabilities, entropies and predictions are empty.

    Args:
        where: what messages call the whole, such as the file.

    Raises: `CheckpointError`, one line, see `load_arrays`.
    """
    given = {name: _array(where, name, value) for name, value in arrays.items() if name in KNOWN}
    ours = read_text(where, given, LAYOUT) == OURS
    maps = checked_maps(where, given)
    n_source, n_target = lengths(where, maps)
    if "tokens" in given and n_source and n_target:
        raise CheckpointError(
            f"{where}: array 'tokens' {list(given['tokens'].shape)} names one side, but there are "
            "two; allowed are src_tokens and tgt_tokens"
        )
    src = read_tokens(where, given, "src_tokens", n_source, marked=ours)
    tgt = read_tokens(where, given, "tgt_tokens", n_target, marked=ours)
    predicted: tuple[str, ...] = ()
    if "predicted_tokens" in given and given["predicted_tokens"].size:
        predicted = read_tokens(where, given, "predicted_tokens", n_target, marked=ours)
    predicted_ids = read_ids(where, given, "predicted_ids", len(predicted))
    src_special = read_positions(where, given, "src_special", n_source, special_in(src))
    tgt_special = read_positions(where, given, "tgt_special", n_target, special_in(tgt))
    log_probs = read_numbers(where, given, "log_probs", n_target, high=1e-3)
    read = plain_text(src, src_special) if n_source else plain_text(tgt, tgt_special)
    said = plain_text(predicted, special_in(predicted)) or plain_text(tgt, tgt_special)
    score = float(log_probs.sum(dtype=np.float64)) if log_probs.size else math.nan
    gap = read_scalar(where, given, "forcing_gap", None)
    return Trace(
        src_tokens=src,
        tgt_tokens=tgt,
        predicted_tokens=predicted,
        src_ids=read_ids(where, given, "src_ids", n_source),
        tgt_ids=read_ids(where, given, "tgt_ids", n_target),
        predicted_ids=predicted_ids,
        encoder_self=maps["encoder_self"],
        decoder_self=maps["decoder_self"],
        cross=maps["cross"],
        log_probs=log_probs,
        **read_top(where, given, predicted, predicted_ids, n_target),
        entropy=read_numbers(where, given, "entropy", n_target, low=-1e-3),
        source=read_text(where, given, "source", read),
        text=read_text(where, given, "text", said if n_target else ""),
        score=float(read_scalar(where, given, "score", score)),
        src_unknown=read_positions(where, given, "src_unknown", n_source, ()),
        src_special=src_special,
        tgt_special=tgt_special,
        complete=bool(read_scalar(where, given, "complete", True)),
        forced=bool(read_scalar(where, given, "forced", False)),
        n_forced=_steps(where, given, n_target),
        forcing_gap=None if gap is None else float(gap),
    )


def _steps(where: str, given: Mapping[str, NDArray[Any]], n_target: int) -> int:
    """How many predictions were given, from 0 to all of them."""
    count = read_scalar(where, given, "n_forced", 0)
    if not 0 <= count <= n_target or count != int(count):
        raise CheckpointError(
            f"{where}: array 'n_forced' [] is {count!r}; whole numbers from 0 to {n_target} are "
            "allowed"
        )
    return int(count)


def _array(where: str, name: str, value: Any) -> NDArray[Any]:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):
        raise CheckpointError(f"{where}: {name!r} is no array: its parts differ in size") from None
    if array.dtype.hasobject:
        raise wrong(where, name, array, "numbers and text (str) are")
    return array
