"""Types for records, measures and figures. Nothing here imports PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from inspect import signature
from typing import Literal, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

P = ParamSpec("P")
R = TypeVar("R")

Floats = NDArray[np.float32]
Reals = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

AttentionKind = Literal["encoder_self", "decoder_self", "cross"]
ATTENTION_KINDS: tuple[AttentionKind, ...] = ("encoder_self", "decoder_self", "cross")


def checked_kind(kind: AttentionKind) -> AttentionKind:
    """Return an attention kind; raise `ValueError` for other names."""
    if kind not in ATTENTION_KINDS:
        raise ValueError(f"attention kind {kind!r} is not one of {', '.join(ATTENTION_KINDS)}")
    return kind


def literals(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse values that an argument's `Literal` type does not have, by `ValueError`."""
    names = signature(function)

    @cache
    def choices() -> dict[str, tuple[str, ...]]:
        hints = get_type_hints(function).items()
        return {name: get_args(hint) for name, hint in hints if get_origin(hint) is Literal}

    @wraps(function)
    def checked(*args: P.args, **options: P.kwargs) -> R:
        arguments = names.bind(*args, **options).arguments
        for name, allowed in choices().items():
            if arguments.get(name, allowed[0]) not in allowed:
                raise ValueError(f"{name} {arguments[name]!r} is not one of {', '.join(allowed)}")
        return function(*args, **options)

    return checked


def map_sizes(n_source: int, n_target: int) -> dict[AttentionKind, tuple[int, int]]:
    """Return (queries, keys) of the maps of every kind."""
    source, target = (n_source, n_source), (n_target, n_target)
    return {"encoder_self": source, "decoder_self": target, "cross": (n_target, n_source)}


#: Progress callback, called with (done, total); may raise to stop the work.
Report = Callable[[int, int], None]


def no_report(done: int, total: int) -> None:
    """Ignore progress, the default of functions that take a `Report`."""
