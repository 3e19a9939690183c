"""Errors that callers handle, and types for records, measures and figures, without PyTorch."""

from collections.abc import Callable
from functools import cache, wraps
from inspect import signature
from types import UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

#: Maximum length of a message in characters; longer messages lose their middle.
_LONGEST = 600


class CheckpointError(ValueError):
    """A checkpoint that cannot be used; the message names the file and the error.

    Whatever the file contains, the message is one line of bounded length.
    """

    def __init__(self, message: object) -> None:
        line = " ".join("".join(c if c.isprintable() else " " for c in str(message)).split(" "))
        if len(line) > _LONGEST:
            line = f"{line[: _LONGEST - 100]} … {line[-97:]}"
        super().__init__(line)


class InputError(ValueError):
    """Input that cannot be used; the message names it, its value, and allowed values."""


class BlankError(InputError):
    """A sentence in which cleaning for the tokenizer leaves nothing."""


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
    """Refuse values that an argument's `Literal` type does not have, by `InputError`."""
    names = signature(function)

    @cache
    def choices() -> list[tuple[str, tuple[str, ...], tuple[type, ...]]]:
        hints = get_type_hints(function).items()
        return [(name, *named_values(hint)) for name, hint in hints if named_values(hint)[0]]

    @wraps(function)
    def checked(*args: P.args, **options: P.kwargs) -> R:
        arguments = names.bind(*args, **options).arguments
        for name, allowed, others in choices():
            value = arguments.get(name, allowed[0])
            if value not in allowed and not isinstance(value, others):
                raise InputError(f"{name} {value!r} is not one of {', '.join(allowed)}")
        return function(*args, **options)

    return checked


def named_values(hint: Any) -> tuple[tuple[str, ...], tuple[type, ...]]:
    """Return the names that a type such as `Literal["never"] | bool` has, and its other types."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    names = (name for kind in kinds if get_origin(kind) is Literal for name in get_args(kind))
    return tuple(names), tuple(kind for kind in kinds if isinstance(kind, type))


def map_sizes(n_source: int, n_target: int) -> dict[AttentionKind, tuple[int, int]]:
    """Return (queries, keys) of the maps of every kind."""
    source, target = (n_source, n_source), (n_target, n_target)
    return {"encoder_self": source, "decoder_self": target, "cross": (n_target, n_source)}


#: Progress callback, called with (done, total); may raise to stop the work.
Report = Callable[[int, int], None]


def no_report(done: int, total: int) -> None:
    """Ignore progress, the default of functions that take a `Report`."""
