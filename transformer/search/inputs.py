"""Argument checks; errors name the argument, its value and the allowed values in one line."""

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from transformer.config import ModelConfig
from transformer.types import InputError

MAX_BEAM, MAX_TOP_K, MAX_ALPHA = 64, 100, 10.0


def checked_whole(name: str, value: object, most: int | None = None, least: int = 1) -> int:
    """Return `value` if it is a whole number from `least` (to `most`), else raise `InputError`."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or int(value) < least or (most is not None and int(value) > most):  # type: ignore[call-overload]
        allowed = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise InputError(f"{name} {value!r} is not a whole number {allowed}")
    return int(value)  # type: ignore[call-overload, no-any-return]


def checked_number(
    name: str, value: object, most: float, *, least: float = 0, positive: bool = False
) -> float:
    """Return `value` if it is a number from `least` (or above) to `most`, else `InputError`."""
    number = isinstance(value, int | float | np.floating) and not isinstance(value, bool)
    if not number or not least <= value <= most or (positive and not value):  # type: ignore[operator]
        allowed = "above 0 and at most" if positive else f"from {least:g} to"
        raise InputError(f"{name} {value!r} is not a number {allowed} {most:g}")
    return float(value)  # type: ignore[arg-type]


def checked_new_tokens(value: object, n_before: int, most: int) -> int:
    """Return the number of tokens to append to `n_before`, else raise `InputError`."""
    new_tokens = checked_whole("new_tokens", value)
    if n_before + new_tokens > most:
        raise InputError(
            f"new_tokens={new_tokens} after {n_before} tokens exceeds the "
            f"limit of {most} tokens in total"
        )
    return new_tokens


def checked_beam(value: object) -> int:
    """Return `value` if it is a valid beam size, else raise `InputError`."""
    return checked_whole("beam size", value, MAX_BEAM)


def checked_alpha(value: object) -> float:
    """Return `value` if it is a valid exponent of the length penalty, else raise `InputError`."""
    return checked_number("alpha", value, MAX_ALPHA, least=-MAX_ALPHA)


def checked_ids(
    what: str, ids: Iterable[Any], config: ModelConfig, size: int | None = None, *, ended: bool =
    True,
) -> list[int]:  # fmt: skip
    """Return token ids that a model may read, without `<s>` and `</s>`, else raise `InputError`.

    Args:
        what: names the ids in the message.
        ids: from Python, NumPy, PyTorch or a trace.
        size: vocabulary size; None for the target's.
        ended: whether `</s>` is allowed.
    """
    size = config.target_vocab_size if size is None else size
    banned = (config.pad_id, config.bos_id, config.eos_id)
    checked = whole_ids(what, ids, config.pad_id)
    checked = checked[1:] if checked[:1] == [config.bos_id] else checked
    checked = checked[:-1] if ended and checked[-1:] == [config.eos_id] else checked
    for token in checked:
        if not 0 <= token < size or token in banned:
            raise InputError(
                f"{what} token {token} cannot be used; expected 0 to {size - 1} "
                f"without {', '.join(map(str, banned))}"
            )
    return checked


def whole_ids(what: str, ids: Iterable[Any], pad: int | None = None) -> list[int]:
    """Return ids from Python, NumPy or PyTorch as integers, else raise `InputError`.

    Args: pad: padding id, removed from the end of arrays.
    """
    whole = [_whole(what, token) for token in (ids.tolist() if hasattr(ids, "tolist") else ids)]
    while hasattr(ids, "tolist") and whole and whole[-1] == pad:
        del whole[-1]
    return whole


def _whole(what: str, token: object) -> int:
    try:
        if not isinstance(token, bool | np.bool_):
            return operator.index(token)  # type: ignore[arg-type]
    except TypeError:
        pass
    raise InputError(f"{what} token {token!r:.40} is not a whole number")


def check_length(ids: list[int] | tuple[int, ...], most: int) -> None:
    """Raise `InputError` if ids and `</s>` are more than `most` tokens."""
    if len(ids) + 1 > most:
        raise InputError(
            f"the sentence has {len(ids) + 1:,} tokens (</s> included); at most {most} are allowed"
        )
