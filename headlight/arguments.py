"""Checks of the arguments of figures: their types, and positions that the trace has."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import signature
from math import isfinite
from numbers import Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from transformer.search.inputs import checked_whole
from transformer.trace.records import Trace
from transformer.types import InputError
from ui.attention.maps import kinds_of

#: Largest size of a figure that is made of numbers alone.
MOST = 10_000
_SIZES = dict.fromkeys(
    ("n", "d_model", "d", "n_offsets", "kernel", "window", "limit", "count", "length", "lengths",
     "reach"), (1, MOST),
)  # fmt: skip
_KINDS = {"encoder": "encoder_self", "decoder": "decoder_self", "both": "cross"}
_TYPES = {bool: (bool, "True or False"), str: (str, "a text"), float: (Real, "a number")}


def check_arguments(function: Callable[..., Any], *args: Any, **options: Any) -> None:
    """Check the arguments of a call.

    Raises: `InputError` naming a bad value and the allowed ones; `TypeError` for missing or unknown
        arguments.
    """
    bound = signature(function).bind(*args, **options)
    bound.apply_defaults()
    hints = get_type_hints(function)
    for name, value in bound.arguments.items():
        _check_type(name, value, hints[name])
    for name, (first, last) in (_SIZES | _bounds(bound.arguments)).items():
        value = bound.arguments.get(name, ())
        if isinstance(value, str):  # a name, such as "reading" for a row; its type was checked
            continue
        for index in value if isinstance(value, Iterable) else {value} - {None}:
            checked_whole(name, index, last, first)


def _check_type(name: str, value: Any, hint: Any) -> None:
    """Raise `InputError` if a value is not one of its literals, a number or a sequence."""
    hints = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    one, *others = (kind for kind in hints if kind is not NoneType)
    if others or (value is None and NoneType in hints):
        return
    origin, inner = get_origin(one), get_args(one)
    if origin is Literal and value not in inner:
        raise InputError(f"{name} {value!r:.80} is not one of {', '.join(inner)}")
    if one is int:
        checked_whole(name, value, MOST * 100, -MOST * 100)
    kind, words = _TYPES.get(one, (object, ""))
    if not isinstance(value, kind) or (isinstance(value, float) and not isfinite(value)):
        raise InputError(f"{name} {value!r:.80} is not {words}")
    if origin in (tuple, Sequence):
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise InputError(f"{name} {value!r:.80} is not a sequence")
        fixed = origin is tuple and inner[-1] is not ...
        if fixed and len([*value]) != len(inner):
            raise InputError(f"{name} {value!r:.80} is not of {len(inner)} values")
        for index, entry in enumerate(value):
            _check_type(name, entry, inner[index if fixed else 0])


def _bounds(arguments: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Return the first and last index in a trace, by the names of arguments.

    Raises: `InputError` for maps that the trace lacks, and heads and pins outside of them.
    """
    dimensions = {"dimensions": (0, arguments.get("d_model", MOST) - 1)}
    trace = arguments.get("trace", arguments.get("a"))
    if not isinstance(trace, Trace):
        return dimensions
    kind = arguments.get("stack", arguments.get("kind", "cross"))
    shape, kinds = trace.attention(_KINDS.get(kind, kind)).shape, kinds_of(trace)
    if not all(shape):
        if "kind" in arguments:
            raise InputError(f"kind {kind!r} is not one of the trace's: {', '.join(kinds)}")
        return dimensions
    layers, heads, queries, keys = shape
    several = arguments.get("heads")
    for layer, head in several if isinstance(several, Iterable) else ():
        checked_whole("layer", layer, layers - 1, 0)
        checked_whole("head", head, heads - 1, 0)
    if pin := arguments.get("pin"):
        checked_whole(f"pinned {pin[0]}", pin[1], (queries if pin[0] == "query" else keys) - 1, 0)
    sizes = {
        "layer": layers, "head": heads, "query": queries, "queries": queries, "key": keys,
        "keys": keys, "position": queries, "source": len(trace.src_tokens),
        "row": len(trace.tgt_tokens),
    }  # fmt: skip
    return dimensions | {name: (0, size - 1) for name, size in sizes.items() if size}
