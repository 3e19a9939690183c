"""Attention maps from any source, joined from steps if necessary and checked."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer import types
from transformer.files.safe import one_line

#: Map names of the `transformers` library.
ALIASES: dict[str, types.AttentionKind] = {
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

#: Largest deviation of a row's sum from 1, enough for bfloat16 weights with 8 bits of precision.
ROW_TOLERANCE = 5e-3
#: Largest absolute weight below 0 or above a causal map's diagonal, and largest excess over 1.
WEIGHT_TOLERANCE, ABOVE_ONE = 1e-6, 1e-3

_NOT_SQUARE = (
    " is not square; self-attention has as many keys as queries, other maps are called cross"
)

_NAMES = {*types.ATTENTION_KINDS, *ALIASES, *SINGLE}
#: Advice on outputs without weights, for messages.
_ASK = (
    "the transformers library returns them with attn_implementation='eager' and "
    "output_attentions=True, PyTorch's MultiheadAttention with need_weights=True and "
    "average_attn_weights=False (inside its layers by a hook, see docs/arrays.md)"
)

#: Names of axes, in the order of maps of several sentences.
AXES = ("layers", "batch", "heads", "queries", "keys")


def array_of(where: str, name: str, value: Any) -> NDArray[Any]:
    """Return numbers or text as an array, from tensors of any device and type or tuples of them."""
    if value is None:
        fault = f" instead of weights; {_ASK}" if name in _NAMES else ""
        raise types.CheckpointError(f"{where}: {name!r} is or holds None{fault}")
    if isinstance(value, list | tuple) and (_depth(value) or (0, -1))[1] >= 0:
        layers = [array_of(where, name, layer) for layer in value]
        for layer in layers:
            if layer.shape != layers[0].shape:
                fault = f" beside one of {list(layer.shape)}; expected one shape for all layers"
                raise wrong(where, name, layers[0].shape, fault)
        return np.stack(layers)
    try:
        if hasattr(value, "detach"):  # a PyTorch tensor; this module does not import PyTorch
            value = value.detach()
            value = (value.float() if value.is_floating_point() else value).cpu()
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:
        fault = "its rows differ in length" if "inhomogeneous" in str(error) else one_line(error)
        raise types.CheckpointError(f"{where}: {name!r} is not an array: {fault}") from None
    if array.dtype.hasobject:
        raise wrong_type(where, name, array, "numbers and text (str)")
    return array


def chosen_maps(where: str, given: Mapping[str, Any], batch: int | None) -> dict[str, Any]:
    """Return `given` with one sentence's maps; steps of `generate` are joined to [L, H, n, m].

    For every step, the transformers library returns a tuple of layers [rows, H, queries, keys]. The
    first step has a query for every token of the prompt, later steps have one for the new token.
    `beam_indices` [R, T] has the rows of R sequences at every step, -1 after their ends.
    """
    depths = {name: _depth(value) for name, value in given.items() if name in _NAMES}
    axes = None if "axes" not in given else str(array_of(where, "axes", given["axes"]))
    full = [name for name, depth in depths.items() if depth]
    if not full and (depths or hasattr(given, "to_tuple")):  # a `ModelOutput`
        missing = min(depths, default="attentions")
        raise types.CheckpointError(f"{where}: {missing!r} is empty or missing; {_ASK}")
    chosen = {name: value for name, value in given.items() if name not in depths}
    steps = [name for name in full if depths[name] == (2, 4)]
    beams, count, at = given.get("beam_indices"), 0, batch or 0
    if steps:
        rows, results = len(given[steps[0]][0][0]), given.get("sequences", [0])
        count = len(results if beams is None else beams)
        if beams is None and (hasattr(given, "beam_indices") or rows != count):
            raise types.CheckpointError(
                f"{where}: the {rows} rows of {steps[0]!r} cannot be joined without the sequences, "
                "and beam_indices if they are beams; pass the whole output of `generate`"
            )
        if not _is_index(at, count) or (batch is None and count > 1):
            fault = f"is of {count} sequences; choose one by batch=, from 0 to {count - 1}"
            raise types.CheckpointError(f"{where}: {steps[0]!r} {fault}")
    for name in full:
        if name in steps:
            single = name in SINGLE and "decoder_self" not in depths
            path = [at] * len(given[name]) if beams is None else [int(row) for row in beams[at]]
            chosen["decoder_self" if single else name] = _joined(where, name, given[name], path)
            continue
        array = array_of(where, name, given[name])
        if depths[name] == (1, 3) and array.shape[1] > 1 and axes is None:
            raise _unnamed(where, name, array.shape)
        chosen[name] = array = array if axes is None else named_axes(where, name, array, axes)
        if batch is not None:
            if array.ndim != 5:
                raise _unnamed(where, name, array.shape, f" has no axis for batch={batch!r}")
            n, sources = count or array.shape[1], array.shape[1]
            if not _is_index(batch, n) or not sources or n % sources:
                fault = f" has no batch={batch!r} of {n} sequences; choose from 0 to {n - 1}"
                raise wrong(where, name, array.shape, fault)
            chosen[name] = array[:, batch * sources // n]  # several sequences may share a source
    return chosen


def named_axes(where: str, name: str, array: NDArray[Any], axes: str) -> NDArray[Any]:
    """Return an array as [L, B, H, n, m]; `axes` names its axes, such as "batch, query, key".

    Raises: `CheckpointError` for other names, or another number of them.
    """
    singular = {"query": "queries", "layer": "layers", "head": "heads", "key": "keys"}
    names = [singular.get(axis, axis) for axis in axes.replace(",", " ").split()]
    if len(names) != array.ndim or {*names} - {*AXES} or not {"queries", "keys"} <= {*names}:
        fault = (
            f" does not have axes={axes!r:.80}; expected {array.ndim} different names, among them "
            f"queries and keys, of {', '.join(AXES)}"
        )
        raise wrong(where, name, array.shape, fault)
    ordered = array.transpose([names.index(axis) for axis in AXES if axis in names])
    return np.expand_dims(ordered, [at for at, axis in enumerate(AXES) if axis not in names])


def _unnamed(where: str, name: str, shape: Sequence[int], fault: str = "") -> types.CheckpointError:
    listed = "layers, " * (len(shape) == 4)
    others = [f"'{listed}{axis}, queries, keys'" for axis in ("heads", "batch")]
    if len(shape) == 3:
        others.append("'layers, queries, keys'")
    elif fault:
        others[0] = "'batch, heads, queries, keys'"
    fault = fault or f" may be {shape[-3]} heads or a batch of {shape[-3]}"
    fault += f": add axes={' or axes='.join(others)} to the arrays"
    return wrong(where, name, shape, fault)


def _is_index(value: object, n: int) -> bool:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and 0 <= int(value) < n  # type: ignore[call-overload]


def _depth(value: Any) -> tuple[int, int] | None:
    """Return the number of tuples around the first array or None, and its axes (-1 if neither)."""
    depth = 0
    while isinstance(value, list | tuple):
        if not value:
            return None
        value, depth = value[0], depth + 1
    array = value is None or hasattr(value, "shape")
    return depth, len(getattr(value, "shape", ())) if array else -1


def _joined(where: str, name: str, steps: Sequence[Any], rows: Sequence[int]) -> NDArray[Any]:
    """Join a sequence's maps from its row in every step, without padding at the start."""
    rows = [row for row in rows if row >= 0]
    heads, prompt, width = steps[0][0].shape[1:]
    cross, n = ALIASES.get(name, name) == "cross", prompt + len(rows) - 1
    whole = np.zeros((len(steps[0]), heads, n, width if cross else n), dtype=np.float32)
    for end, (step, row) in enumerate(zip(steps, rows, strict=False), prompt):
        layers = array_of(where, name, [maps if maps is None else maps[row] for maps in step])
        queries, keys = layers.shape[-2:]
        start, known = 0 if end == prompt else end - 1, width if cross else end
        # Without a cache a step repeats all queries; a cache of fixed size has unused keys.
        fits = layers.shape[:2] == whole.shape[:2] and queries in (end - start, end)
        if not fits or keys < known or layers[:, :, -1, known:].any():
            raise types.CheckpointError(
                f"{where}: {name!r} cannot be joined: a step has {queries} queries and {keys} keys "
                f"where {end} tokens were read; expected every step of one call, starting with its "
                "prompt"
            )
        whole[:, :, start:end, :known] = layers[:, :, start - end :, :known]
    padding = 0
    while not cross and whole[:, :, padding, padding + 1 :].any():
        padding += 1
    return whole if whole[:, :, padding:, :padding].any() else whole[:, :, padding:, padding:]


def checked_maps(
    where: str, given: Mapping[str, NDArray[Any]]
) -> dict[types.AttentionKind, types.Floats]:
    """Return maps of all three kinds, [L, H, n, m]; missing kinds have no layers.

    Raises: `CheckpointError` for bad maps, or kinds whose lengths disagree.
    """
    named: dict[str, NDArray[Any]] = {}
    for name, array in given.items():
        kind = ALIASES.get(name, name)
        if name in SINGLE or kind in types.ATTENTION_KINDS:
            key = "attention" if name in SINGLE else kind
            if key in named:
                raise types.CheckpointError(f"{where}: array {name!r} is stored under two names")
            named[key] = _checked_map(where, name, array)
    present = [key for key, array in named.items() if array.size]
    if not present:
        raise no_maps(where)
    if "attention" in named:
        if len(present) > 1:
            other = next(key for key in present if key != "attention")
            fault = (
                f" beside {other!r}; 'attention' is for models with one stack, others use "
                "encoder_self, decoder_self and cross"
            )
            raise wrong(where, "attention", named["attention"].shape, fault)
        maps = named.pop("attention")
        causal = maps.shape[-1] > 1 and _is_causal(maps)
        named["decoder_self" if causal else "encoder_self"] = maps
    for kind in ("encoder_self", "decoder_self"):
        if kind in named and named[kind].shape[-2] != named[kind].shape[-1]:
            raise wrong(where, kind, named[kind].shape, _NOT_SQUARE)
    own, source, cross = (named.get(kind) for kind in ("decoder_self", "encoder_self", "cross"))
    if own is not None and not _is_causal(own):
        fault = (
            " has weight above the diagonal; a decoder sees no later token, other maps are called "
            "encoder_self"
        )
        raise wrong(where, "decoder_self", own.shape, fault)
    n, m = (0, 0) if cross is None else cross.shape[-2:]
    n_target = n if own is None else own.shape[-1]
    n_source = m if source is None else source.shape[-1]
    if cross is not None and (n, m) != (n_target, n_source):
        fault = (
            f" for {n_target} queries (decoder_self) and {n_source} keys (encoder_self); "
            f"expected [..., {n_target}, {n_source}]"
        )
        raise wrong(where, "cross", cross.shape, fault)
    heads = next(iter(named.values())).shape[1]
    return {
        kind: named.get(kind, np.zeros((0, heads, *size), dtype=np.float32))
        for kind, size in types.map_sizes(n_source, n_target).items()
    }


def four_axes(where: str, name: str, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape as [L, H, n, m], without a batch axis of one, as in [L, 1, H, n, m].

    Raises: `CheckpointError` for a shape that is not allowed.
    """
    four, fault = tuple(shape), ""
    if len(four) == 5:
        if four[1] != 1:
            other = f", or maps[0] if these are {four[1]} layers" if four[0] == 1 else ""
            fault = f" is a batch of {four[1]}: choose one (`batch=0`){other}"
            raise wrong(where, name, shape, fault)
        four = four[:1] + four[2:]
    if len(four) not in (2, 3, 4):
        fault = (
            " is not a map; expected [layers, heads, queries, keys], [queries, keys] and "
            "others whose axes have names (axes=)"
        )
        raise wrong(where, name, shape, fault)
    if len(four) == 3 and four[0] > 1:
        raise _unnamed(where, name, shape)
    layers, heads, n, m = four = (1,) * (4 - len(four)) + four
    if layers > MAX_LAYERS or layers * heads > MAX_MAPS:
        fault = (
            f" has {layers} layers of {heads} heads; at most {MAX_LAYERS} layers and {MAX_MAPS:,} "
            "heads in total are allowed"
        )
    elif max(n, m) > MAX_TOKENS:
        fault = f" has {max(n, m):,} tokens; at most {MAX_TOKENS} are allowed"
    if fault:
        raise wrong(where, name, shape, fault)
    return four


def _checked_map(where: str, name: str, array: NDArray[Any]) -> types.Floats:
    """Return float32 weights [L, H, n, m], checked to be from 0 to 1 in rows that sum to 1."""
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
    rows = f"rows are queries and sum to 1 within {ROW_TOLERANCE:g}"
    empty: types.Bools = np.asarray(np.isnan(maps).all(axis=-1) | ~maps.any(axis=-1))
    for bad, values, fault in (
        (empty & ~empty.all(), sums, ": row {at} sees nothing (its sum is {value:g})"),
        (~np.isfinite(maps), maps, ": NaN or infinite at {at}; weights are from 0 to 1"),
        ((maps < low) | (maps > high), maps, ": {value:.4g} at {at}; weights are from 0 to 1"),
        (np.abs(sums - 1) > ROW_TOLERANCE, sums, f": row {{at}} sums to {{value:.4g}}; {rows}"),
    ):
        if bad.any():
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            fault = fault.format(value=values[at], at=at)
            raise wrong(where, name, array.shape, f"{fault}. {_advice(array, maps, sums, empty)}")
    return maps


def _advice(array: NDArray[Any], maps: types.Floats, sums: types.Reals, empty: types.Bools) -> str:
    """Return why rows are probably not weights, and a remedy."""
    with np.errstate(over="ignore", invalid="ignore"):
        probable = np.abs(np.exp(maps).sum(axis=-1, dtype=np.float64) - 1) <= ROW_TOLERANCE
        columns = np.abs(maps.sum(axis=-2, dtype=np.float64) - 1) <= ROW_TOLERANCE
        constant = np.ptp(sums) <= ROW_TOLERANCE * np.abs(sums).max()
    if empty.all():
        return "All rows see nothing: did the model fail, or is every key masked?"
    if empty.any():
        return "Is it padding? Leave out its rows and columns"
    if np.isnan(maps).any():
        return "Did the model overflow? Run it in float32"
    if probable.all():
        return "Are these log-probabilities? Take exp(maps)"
    if array.dtype.kind in "biu":
        return f"Are these counts, ids or a mask ({array.dtype})? Weights are fractions"
    if (maps < 0).any() or np.isinf(maps).any():
        return "Are these scores in front of the softmax? Take softmax(maps) over the keys"
    if columns.all():
        return "Columns do: are queries and keys exchanged? Exchange the last two axes"
    if constant:
        return "All rows have this sum: are these percentages, or sums over heads? Divide by it"
    if np.abs(sums.mean() - 1) < 0.5:
        return (
            "Was the model in training mode, with dropout? Call model.eval(). Are keys left out? "
            "Divide rows by their sums"
        )
    return "Are these scores in front of the softmax? Take softmax(maps) over the keys"


def _is_causal(maps: types.Floats) -> bool:
    n = min(maps.shape[-2:])
    later = np.triu(np.ones(maps.shape[-2:], dtype=bool), 1)
    return n == 0 or not (maps[..., later] > WEIGHT_TOLERANCE).any()


def wrong(where: str, name: str, shape: Sequence[int], fault: str) -> types.CheckpointError:
    """Return the error for an array, with its source, name, shape and fault."""
    return types.CheckpointError(f"{where}: array {name!r} {list(shape)[:9]}{fault}")


def wrong_type(where: str, name: str, array: NDArray[Any], expected: str) -> types.CheckpointError:
    """Return the error for an array of a wrong type."""
    return wrong(where, name, array.shape, f" has type {array.dtype}; expected {expected}")


def no_maps(where: str) -> types.CheckpointError:
    """Return the error for a file without attention maps."""
    names = ", ".join((*types.ATTENTION_KINDS, SINGLE[0]))
    return types.CheckpointError(f"{where}: no attention maps; expected one or more of {names}")
