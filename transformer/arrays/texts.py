"""What stands beside attention maps in a file of arrays, checked: tokens, texts, ids, numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer.arrays.maps import wrong
from transformer.errors import CheckpointError
from transformer.types import Floats

MAX_TOKEN_CHARACTERS, MAX_TEXT_CHARACTERS, MAX_TOP = 1_000, 100_000, 100

#: Names that tokenizers give to what is no text.
_SPECIAL = re.compile(
    r"</?s>|<(?:pad|unk|bos|eos|cls|sep|mask)>|\[(?:PAD|UNK|BOS|EOS|CLS|SEP|MASK)\]|<\|\w{1,40}\|>"
)

Given = Mapping[str, NDArray[Any]]


def read_tokens(
    where: str, given: Given, name: str, length: int, *, marked: bool
) -> tuple[str, ...]:
    """One side's tokens, `▁` before each word; their positions where there are none."""
    called = name
    if name not in given and name != "predicted_tokens" and length and "tokens" in given:
        called = "tokens"
    if called not in given:
        return tuple(f"▁{position + 1}" for position in range(length))
    array = given[called]
    shape = list(array.shape)
    if array.size == 0 and not length:
        return ()
    if array.dtype.kind != "U":
        raise wrong(where, called, array, "text (str) is")
    if array.ndim == 2 and len(array) == 1:
        array = array[0]
    if array.shape != (length,):
        raise CheckpointError(
            f"{where}: array {called!r} {shape}: the maps have {length} tokens there, "
            f"so [{length}] is allowed"
        )
    tokens = tuple(_strings(where, called, array, MAX_TOKEN_CHARACTERS))
    return tokens if marked else with_marks(tokens)


def with_marks(tokens: Sequence[str]) -> tuple[str, ...]:
    """Tokens with `▁` before each word, as other tokenizers mean it.

    `Ġ` before a word becomes `▁`. Where pieces within words start with `##`, the others start
    words. Without any mark every token is a word. Special tokens get none.
    """
    if any(token.startswith("▁") for token in tokens):
        return tuple(tokens)
    if any(token.startswith("Ġ") for token in tokens):
        return tuple(f"▁{token[1:]}" if token.startswith("Ġ") else token for token in tokens)
    return tuple(
        token if _SPECIAL.fullmatch(token)
        else token[2:] if token.startswith("##") and len(token) > 2
        else f"▁{token}"
        for token in tokens
    )  # fmt: skip


def special_in(tokens: Sequence[str]) -> tuple[int, ...]:
    """Positions of what tokenizers call by such names as `<s>` and `[SEP]`."""
    return tuple(at for at, token in enumerate(tokens) if _SPECIAL.fullmatch(token))


def plain_text(tokens: Sequence[str], special: Sequence[int]) -> str:
    """What the tokens say, without the special ones."""
    words = [token for at, token in enumerate(tokens) if at not in special]
    return "".join(words).replace("▁", " ").strip()


def _strings(where: str, name: str, array: NDArray[Any], most: int) -> list[str]:
    try:
        texts: list[str] = array.ravel().tolist()
    except ValueError:
        raise CheckpointError(
            f"{where}: array {name!r} {list(array.shape)} holds numbers that are no characters"
        ) from None
    longest = max(map(len, texts), default=0)
    if longest > most:
        raise CheckpointError(
            f"{where}: array {name!r} {list(array.shape)} has a text of {longest:,} characters; "
            f"at most {most:,} are allowed"
        )
    return texts


def as_lists(value: Any) -> Any:
    """Tuples as lists, as arrays give them back."""
    return [as_lists(each) for each in value] if isinstance(value, tuple) else value


def read_text(where: str, given: Given, name: str, default: str = "") -> str:
    """One text, such as the sentence."""
    array = given.get(name)
    if array is None:
        return default
    if array.dtype.kind != "U" or array.size != 1:
        raise wrong(where, name, array, "one text (str) is")
    return _strings(where, name, array, MAX_TEXT_CHARACTERS)[0]


def read_positions(
    where: str, given: Given, name: str, length: int, default: tuple[int, ...]
) -> tuple[int, ...]:
    """Positions of tokens, from 0."""
    array = given.get(name)
    if array is None:
        return default
    found = _whole(where, name, array)
    bad = next((at for at in found if not 0 <= at < length), None)
    if bad is not None:
        raise CheckpointError(
            f"{where}: array {name!r} {list(array.shape)} holds {bad}; "
            f"allowed are positions from 0 to {length - 1}"
        )
    return found


def read_ids(where: str, given: Given, name: str, length: int) -> tuple[int, ...]:
    """Token ids, -1 where the file does not say."""
    array = given.get(name)
    if array is None:
        return (-1,) * length
    found = _whole(where, name, array)
    if len(found) != length:
        raise CheckpointError(
            f"{where}: array {name!r} {list(array.shape)}: [{length}] is allowed, an id a token"
        )
    return found


def read_numbers(
    where: str, given: Given, name: str, length: int, low: float = -math.inf, high: float = math.inf
) -> Floats:
    """One finite number a step, [length]; none where the file does not say."""
    array = given.get(name)
    if array is None or not array.size:
        return np.zeros(0, dtype=np.float32)
    if array.dtype.kind not in "iuf":
        raise wrong(where, name, array, "numbers are")
    if array.shape != (length,):
        raise CheckpointError(
            f"{where}: array {name!r} {list(array.shape)}: [{length}] is allowed, one for each "
            "position of the decoder"
        )
    numbers = array.astype(np.float32)
    if not np.isfinite(numbers).all() or numbers.min() < low or numbers.max() > high:
        raise CheckpointError(
            f"{where}: array {name!r} {list(array.shape)} holds what is no such number; allowed "
            f"are finite ones{'' if high == math.inf else ' up to 0'}"
            f"{'' if low == -math.inf else ' from 0'}"
        )
    return numbers


def read_scalar(where: str, given: Given, name: str, default: Any) -> Any:
    """One number or truth value."""
    array = given.get(name)
    if array is None:
        return default
    if array.dtype.kind not in "biuf" or array.size != 1:
        raise wrong(where, name, array, "one number is")
    return array.item()


def read_top(
    where: str, given: Given, predicted: Sequence[str], predicted_ids: Sequence[int], n_steps: int
) -> dict[str, Any]:
    """The most probable next tokens as fields of a `Trace`, [T, K]; K is 0 without any."""
    arrays = {
        name: given[name]
        for name in ("top_log_probs", "top_ids", "top_tokens", "allowed")
        if name in given
    }
    if "top_log_probs" not in arrays:
        if arrays:
            raise CheckpointError(f"{where}: array {next(iter(arrays))!r} needs top_log_probs")
        nothing = np.zeros((n_steps, 0))
        return {
            "top_log_probs": nothing.astype(np.float32),
            "top_ids": nothing.astype(np.int64),
            "top_tokens": ((),) * n_steps,
        }
    shape = arrays["top_log_probs"].shape
    for name, kinds in (
        ("top_log_probs", "f"), ("top_ids", "iu"), ("top_tokens", "U"), ("allowed", "b"),
    ):  # fmt: skip
        array = arrays.get(name)
        if array is None:
            continue
        if array.dtype.kind not in kinds and array.size:
            raise wrong(where, name, array, {"U": "text (str) is"}.get(kinds, "numbers are"))
        if array.shape != shape or len(shape) != 2 or shape[0] != n_steps or shape[1] > MAX_TOP:
            raise CheckpointError(
                f"{where}: array {name!r} {list(array.shape)}: [{n_steps}, K] is allowed, the same "
                f"K from 0 to {MAX_TOP} in all that begin with top_"
            )
    log_probs = arrays["top_log_probs"].astype(np.float32)
    # Of a token that cannot come, the log-probability is -inf.
    if np.isnan(log_probs).any() or (log_probs > 1e-3).any():
        raise CheckpointError(
            f"{where}: array 'top_log_probs' {list(shape)} holds what is no log-probability; "
            "allowed is up to 0"
        )
    ids = arrays["top_ids"].astype(np.int64) if "top_ids" in arrays else None
    if "top_tokens" in arrays:
        flat = _strings(where, "top_tokens", arrays["top_tokens"], MAX_TOKEN_CHARACTERS)
    else:
        flat = ["?"] * log_probs.size if ids is None else [f"#{each}" for each in ids.flat]
    width = shape[1]
    tokens = tuple(tuple(flat[t * width : (t + 1) * width]) for t in range(n_steps))
    if ids is None:
        # Without ids, a token that reads like the predicted one is that one.
        ids = np.full(shape, -2, dtype=np.int64)
        for t, (token, token_id) in enumerate(zip(predicted, predicted_ids, strict=True)):
            ids[t, [k for k, each in enumerate(tokens[t]) if each == token][:1]] = token_id
    top: dict[str, Any] = {"top_log_probs": log_probs, "top_ids": ids, "top_tokens": tokens}
    if "allowed" in arrays:
        top["allowed"] = arrays["allowed"].astype(np.bool_)
    if "n_allowed" in given:
        counts = read_ids(where, given, "n_allowed", n_steps)
        top["n_allowed"] = np.array(counts, dtype=np.int64)
    return top


def _whole(where: str, name: str, array: NDArray[Any]) -> tuple[int, ...]:
    if array.size == 0:
        return ()
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise wrong(where, name, array, "whole numbers in one row are")
    return tuple(array.tolist())
