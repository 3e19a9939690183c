"""Reads and writes a `Trace` as arrays by name.

The layout is described in docs/arrays.md. In short: maps are named `encoder_self`, `decoder_self`
and `cross` and are [L, H, n, m], or without leading axes of one entry; `attention` is the
self-attention of a model with one stack. Tokens are arrays of text: `src_tokens` and `tgt_tokens`,
or `tokens` for one stack. Everything else is optional. Rows are queries and sum to 1; nothing is
renormalised.
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
    wrong_type,
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

#: Marks a file written by this module, whose tokens are taken as they are.
LAYOUT, OURS = "layout", "headlight 1"

_TEXTS = ("src_tokens", "tgt_tokens", "predicted_tokens", "top_tokens", "source", "text")
#: The fields of a `Trace` that a file stores; a search is too large.
STORED = tuple(each.name for each in fields(Trace) if each.name != "search")
KNOWN = frozenset({*STORED, *ALIASES, *SINGLE, "tokens", LAYOUT})


def load_arrays(path: str | Path) -> Trace:
    """Read a trace from an .npz file written by any program.

    Raises: `CheckpointError`, one line with the file, the array, its shape and what is allowed.
    """
    path = Path(path)
    return trace_of(read_npz(path, KNOWN), str(path))


def describe_arrays(path: str | Path) -> dict[AttentionKind, tuple[int, ...]]:
    """Return the kinds of maps in a file and their shapes [L, H, n, m], from headers alone.

    Raises: `CheckpointError`, as `load_arrays` does, for anything wrong in the headers.
    """
    where = str(path)
    stored = {name: shape for name, (shape, _) in describe_npz(Path(path), KNOWN).items()}
    shapes: dict[AttentionKind, tuple[int, ...]] = {}
    for name, shape in stored.items():
        field = "encoder_self" if name in SINGLE else ALIASES.get(name, name)
        for kind in ATTENTION_KINDS:
            if kind == field and 0 not in shape:
                shapes[kind] = four_axes(where, name, shape)
    if not shapes:
        raise no_maps(where)
    return shapes


def npz_path(path: str | Path) -> Path:
    """Return the path with `.npz` appended if missing. Raises `OSError` if no file can be there."""
    path = Path(path)
    if path.suffix != ".npz" and path.name not in ("", ".."):
        path = path.with_name(path.name + ".npz")
    check_place(path)
    return path


def save_arrays(trace: Trace, path: str | Path) -> Path:
    """Write a trace as an .npz file that `load_arrays` reads back, without its search.

    Texts are Unicode arrays, so `np.load` reads everything without pickle. Fields that are None
    are omitted.

    Returns: the path, with `.npz` appended if it was missing.

    Raises: `ValueError` for a text that ends in a null character, which such an array cannot hold;
        `OSError` if the file cannot be written.
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
                raise ValueError(f"{name}: a text ends in a null character, which cannot be stored")
        elif isinstance(value, tuple):
            arrays[name] = np.array(value, dtype=np.int64)
        else:
            arrays[name] = np.asarray(value)
    written = io.BytesIO()
    np.savez_compressed(written, allow_pickle=False, **arrays)
    write_atomic(path, written.getvalue())
    return path


def trace_of(arrays: Mapping[str, Any], where: str = "arrays") -> Trace:
    """Return a trace from arrays by name; unknown names are ignored.

    Nothing missing is invented: tokens are named by their positions (`▁1`, `▁2`, ...), ids are -1,
    and log-probabilities, entropies and predictions are empty.

    Args:
        where: the name of the source in messages, such as the file.

    Raises: `CheckpointError`, one line, see `load_arrays`.
    """
    known = {name: _array(where, name, value) for name, value in arrays.items() if name in KNOWN}
    ours = read_text(where, known, LAYOUT) == OURS
    maps = checked_maps(where, known)
    n_source, n_target = lengths(where, maps)
    if "tokens" in known and n_source and n_target:
        raise CheckpointError(
            f"{where}: array 'tokens' {list(known['tokens'].shape)} names one side, but there are "
            "two; expected src_tokens and tgt_tokens"
        )
    src = read_tokens(where, known, "src_tokens", n_source, marked=ours)
    tgt = read_tokens(where, known, "tgt_tokens", n_target, marked=ours)
    predicted: tuple[str, ...] = ()
    if "predicted_tokens" in known and known["predicted_tokens"].size:
        predicted = read_tokens(where, known, "predicted_tokens", n_target, marked=ours)
    predicted_ids = read_ids(where, known, "predicted_ids", len(predicted))
    src_special = read_positions(where, known, "src_special", n_source, special_in(src))
    tgt_special = read_positions(where, known, "tgt_special", n_target, special_in(tgt))
    log_probs = read_numbers(where, known, "log_probs", n_target, high=1e-3)
    source = plain_text(src, src_special) if n_source else plain_text(tgt, tgt_special)
    text = plain_text(predicted, special_in(predicted)) or plain_text(tgt, tgt_special)
    score = float(log_probs.sum(dtype=np.float64)) if log_probs.size else math.nan
    gap = read_scalar(where, known, "forcing_gap", None)
    return Trace(
        src_tokens=src,
        tgt_tokens=tgt,
        predicted_tokens=predicted,
        src_ids=read_ids(where, known, "src_ids", n_source),
        tgt_ids=read_ids(where, known, "tgt_ids", n_target),
        predicted_ids=predicted_ids,
        encoder_self=maps["encoder_self"],
        decoder_self=maps["decoder_self"],
        cross=maps["cross"],
        log_probs=log_probs,
        **read_top(where, known, predicted, predicted_ids, n_target),
        entropy=read_numbers(where, known, "entropy", n_target, low=-1e-3),
        source=read_text(where, known, "source", source),
        text=read_text(where, known, "text", text if n_target else ""),
        score=float(read_scalar(where, known, "score", score)),
        src_unknown=read_positions(where, known, "src_unknown", n_source, ()),
        src_special=src_special,
        tgt_special=tgt_special,
        complete=bool(read_scalar(where, known, "complete", True)),
        forced=bool(read_scalar(where, known, "forced", False)),
        n_forced=_steps(where, known, n_target),
        forcing_gap=None if gap is None else float(gap),
    )


def _steps(where: str, known: Mapping[str, NDArray[Any]], n_target: int) -> int:
    """Return how many predictions were forced, from 0 to all of them."""
    count = read_scalar(where, known, "n_forced", 0)
    if not 0 <= count <= n_target or count != int(count):
        raise CheckpointError(
            f"{where}: array 'n_forced' [] is {count!r}; expected a whole "
            f"number from 0 to {n_target}"
        )
    return int(count)


def _array(where: str, name: str, value: Any) -> NDArray[Any]:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):
        raise CheckpointError(
            f"{where}: {name!r} is not an array: its rows differ in length"
        ) from None
    if array.dtype.hasobject:
        raise wrong_type(where, name, array, "numbers and text (str)")
    return array
