"""Read and write a `Trace` as arrays by name.

docs/arrays.md describes the layout. In short: maps are named `encoder_self`, `decoder_self` and
`cross` and are [L, H, n, m] or [n, m]; `axes` names the axes of others. `attention` is the
self-attention of a model with one stack. Tokens are text arrays: `src_tokens` and `tgt_tokens`, or
`tokens` for one stack. Everything else is optional. Rows are queries and sum to 1; nothing is
renormalised.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np

from transformer.files.folders import check_place, write_atomic
from transformer.files.npz import describe_npz, packed, read_npz
from transformer.models.arrays import maps as checks
from transformer.models.arrays.maps import ALIASES, MAX_TOKENS, SINGLE
from transformer.models.arrays.texts import Arrays, plain_text, special_in
from transformer.trace.records import CELL_MEASURES, Cells, Trace
from transformer.trace.tracer import Unedited
from transformer.types import ATTENTION_KINDS, AttentionKind, CheckpointError, InputError

SUFFIX = ".npz"
#: Mark of files written by this module, whose tokens are read as stored.
LAYOUT, OURS = "layout", "headlight 1"

#: Name of the measure whose maps [L + 1, H + 1, n, m] are stored as `encoder_self_cells` and so on.
CELL = "cell"

_TEXTS = ("src_tokens", "tgt_tokens", "predicted_tokens", "top_tokens", "source", "text")
#: `Trace` fields that a file stores; a search is too large, and measures are not weights.
STORED = tuple(field.name for field in fields(Trace) if field.name not in ("search", "cells"))
KNOWN = frozenset({*STORED, *ALIASES, *SINGLE, "tokens", "axes", LAYOUT})


def load_arrays(path: str | Path, batch: int | None = None) -> Trace:
    """Read a trace from an .npz file written by any program.

    Args: batch: index of the sentence in maps with an axis for it, such as [L, B, H, n, m].

    Raises: `CheckpointError`, one line with the file, the array, its shape and the allowed values.
    """
    path = Path(path)
    return trace_of(read_npz(path, KNOWN), str(path), batch)


def describe_arrays(path: str | Path) -> dict[AttentionKind, tuple[int, ...]]:
    """Return the shapes [L, H, n, m] of a file's maps by kind, from its headers alone.

    Raises: `CheckpointError` for bad headers, like `load_arrays`.
    """
    where = str(path)
    axes = read_npz(Path(path), frozenset({"axes"})).get("axes")
    shapes: dict[AttentionKind, tuple[int, ...]] = {}
    for name, (shape, _) in describe_npz(Path(path), KNOWN).items():
        field = "encoder_self" if name in SINGLE else ALIASES.get(name, name)
        for kind in ATTENTION_KINDS:
            if kind == field and 0 not in shape:
                if axes is not None:
                    empty = np.broadcast_to(np.float32(0), shape)
                    shape = checks.named_axes(where, name, empty, str(axes)).shape
                shapes[kind] = checks.four_axes(where, name, shape)
    if not shapes:
        raise checks.no_maps(where)
    return shapes


def npz_path(path: str | Path) -> Path:
    """Append `.npz` to a path if missing. Raises `OSError` if the path cannot be a file."""
    path = Path(path)
    if path.suffix != ".npz" and path.name not in ("", ".."):
        path = path.with_name(path.name + ".npz")
    check_place(path)
    return path


def load_measured(path: str | Path, trace: Trace) -> Trace:
    """Return a file's trace with the measure that it stores beside the weights, if it has one.

    Raises: `CheckpointError`, one line that names the file, for an array that is not one.
    """
    names = {kind: f"{kind}_cells" for kind in ATTENTION_KINDS}
    arrays = read_npz(Path(path), frozenset({CELL, *names.values()}))
    if CELL not in arrays:
        return trace
    measures = [measure for measure in CELL_MEASURES if measure == str(arrays[CELL])]
    wide = {kind: arrays.get(name, np.zeros(0)) for kind, name in names.items()}
    for kind, maps in wide.items():
        shape = tuple(np.add(trace.attention(kind).shape, (1, 1, 0, 0)))
        fits = maps.shape == shape and maps.dtype == np.float32
        if not (measures and fits and np.isfinite(maps).all()):
            raise CheckpointError(
                f"{path}: measure {str(arrays[CELL])!r:.60} is damaged or unknown"
            )
    return Cells(measures[0], wide).instead_of_weights(trace)


def save_arrays(trace: Trace, path: str | Path, cells: Cells | None = None) -> Path:
    """Write a trace without its search as an .npz file for `load_arrays`.

    Texts are Unicode arrays, so `np.load` needs no pickle. Fields that are None are omitted.

    Args: cells: a measure to store beside the weights, for `load_measured`.

    Returns: the path, with `.npz` appended if missing.

    Raises: `ValueError` for a text with a final null character, which such an array cannot hold;
        `OSError` if the file cannot be written.
    """
    path = npz_path(path)
    arrays: dict[str, Any] = {LAYOUT: np.array(OURS)}
    for name in STORED:
        value = getattr(trace, name)
        if value is None:
            continue
        if name in _TEXTS:
            texts = np.array(value, dtype=object)
            if any(text.endswith("\0") for text in texts.flat):
                raise ValueError(f"{name}: a text ends in a null character, which cannot be stored")
            shape = trace.top_ids.shape if name == "top_tokens" else texts.shape
            arrays[name] = texts.astype(str).reshape(shape)
        elif isinstance(value, tuple):
            arrays[name] = np.array(value, dtype=np.int64)
        else:
            arrays[name] = np.asarray(value)
    if cells is not None:
        arrays[CELL] = np.array(cells.measure)
        arrays |= {f"{kind}_cells": maps for kind, maps in cells.wide.items()}
    write_atomic(path, packed(arrays))
    return path


def trace_of(arrays: Mapping[str, Any], where: str = "arrays", batch: int | None = None) -> Trace:
    """Return a trace from arrays by name; unknown names are ignored.

    Missing tokens are named by their positions (`▁1`, `▁2`, ...), missing ids are -1, and missing
    log-probabilities, entropies and predictions are empty.

    Args:
        where: source name in messages, such as the file.
        batch: index of the sentence in maps with an axis for it, such as [L, B, H, n, m], or of the
            result of `generate`.

    Raises: `CheckpointError`, one line, see `load_arrays`.
    """
    arrays = checks.chosen_maps(where, arrays, batch)
    known = {name: checks.array_of(where, name, arrays[name]) for name in arrays if name in KNOWN}
    given = Arrays(where, known, ours=Arrays(where, known).text(LAYOUT) == OURS)
    maps = checks.checked_maps(where, known)
    n_target, n_source = maps["cross"].shape[-2:]
    if "tokens" in known and n_source and n_target:
        raise CheckpointError(
            f"{where}: array 'tokens' {list(known['tokens'].shape)} names one side, but there are "
            "two; expected src_tokens and tgt_tokens"
        )
    src = given.tokens("src_tokens", n_source)
    tgt = given.tokens("tgt_tokens", n_target)
    predicted: tuple[str, ...] = ()
    if "predicted_tokens" in known and known["predicted_tokens"].size:
        predicted = given.tokens("predicted_tokens", n_target)
    predicted_ids = given.ids("predicted_ids", len(predicted))
    src_special = given.positions("src_special", n_source, special_in(src))
    tgt_special = given.positions("tgt_special", n_target, special_in(tgt))
    log_probs = given.numbers("log_probs", n_target, high=1e-3)
    source = plain_text(src, src_special) if n_source else plain_text(tgt, tgt_special)
    text = plain_text(predicted, special_in(predicted)) or plain_text(tgt, tgt_special)
    score = float(log_probs.sum(dtype=np.float64)) if log_probs.size else math.nan
    gap, n_forced = given.scalar("forcing_gap", None), given.scalar("n_forced", 0)
    if not 0 <= n_forced <= n_target or n_forced != int(n_forced):
        allowed = f"expected a whole number from 0 to {n_target}"
        raise given.error("n_forced", f" is {n_forced!r}; {allowed}")
    return Trace(
        src_tokens=src, tgt_tokens=tgt, predicted_tokens=predicted,
        src_ids=given.ids("src_ids", n_source), tgt_ids=given.ids("tgt_ids", n_target),
        predicted_ids=predicted_ids, encoder_self=maps["encoder_self"],
        decoder_self=maps["decoder_self"], cross=maps["cross"],
        log_probs=log_probs, **given.top(predicted, predicted_ids, n_target),
        entropy=given.numbers("entropy", n_target, low=-1e-3),
        source=given.text("source", source), text=given.text("text", text if n_target else ""),
        score=float(given.scalar("score", score)),
        src_unknown=given.positions("src_unknown", n_source),
        src_special=src_special, tgt_special=tgt_special,
        complete=bool(given.scalar("complete", True)),
        forced_end=bool(given.scalar("forced_end", False)),
        forced=bool(given.scalar("forced", False)), n_forced=int(n_forced),
        forcing_gap=None if gap is None else float(gap),
        penalties=given.numbers("penalties", n_target, low=1e-38),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class ArchivedTrace(Unedited):
    """One sentence recorded elsewhere."""

    cases = ("archive",)
    name: str  # file name
    record: Trace  # trace in the file
    device: str = "cpu"
    max_tokens: int = MAX_TOKENS

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read an .npz file. Raises `CheckpointError`, see `load_arrays`."""
        return cls(Path(path).name, load_arrays(path))

    @property
    def kinds(self) -> tuple[AttentionKind, ...]:
        """Kinds of maps in the file."""
        return tuple(kind for kind in ATTENTION_KINDS if self.record.attention(kind).size)

    @property
    def sentence(self) -> str:
        """Source sentence in the file."""
        return self.record.source

    def trace(self, sentence: str, target: str | None = None, **options: Any) -> Trace:
        """Return the record. Raises `InputError` for any other sentence, a target or edits."""
        self.refuse_edits(options.get("edits"))
        if sentence != self.sentence:
            raise InputError(f"{self.name} holds one sentence, which is not this one")
        if target is not None:
            raise InputError(
                f"{self.name} holds one sentence with its translation; no other can be given"
            )
        return self.record
