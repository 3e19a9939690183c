"""Checks of the tokens, texts, ids and numbers that accompany attention maps."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer.arrays.maps import wrong, wrong_type
from transformer.errors import CheckpointError
from transformer.types import Floats

MAX_TOKEN_CHARACTERS, MAX_TEXT_CHARACTERS, MAX_TOP = 1_000, 100_000, 100

#: Names that tokenizers give to special tokens.
_SPECIAL = re.compile(
    r"</?s>|<(?:pad|unk|bos|eos|cls|sep|mask)>|\[(?:PAD|UNK|BOS|EOS|CLS|SEP|MASK)\]|<\|\w{1,40}\|>"
)

Arrays = Mapping[str, NDArray[Any]]


def read_tokens(
    where: str, arrays: Arrays, name: str, length: int, *, marked: bool
) -> tuple[str, ...]:
    """Return one side's tokens, `▁` before each word; their positions if the file has none."""
    stored = name
    if name not in arrays and name != "predicted_tokens" and length and "tokens" in arrays:
        stored = "tokens"
    if stored not in arrays:
        return tuple(f"▁{position + 1}" for position in range(length))
    array = arrays[stored]
    shape = array.shape
    if array.size == 0 and not length:
        return ()
    if array.dtype.kind != "U":
        raise wrong_type(where, stored, array, "text (str)")
    if array.ndim == 2 and len(array) == 1:
        array = array[0]
    if array.shape != (length,):
        raise wrong(
            where, stored, shape,
            f": the maps have {length} tokens there; expected [{length}]",
        )  # fmt: skip
    tokens = tuple(_strings(where, stored, array, MAX_TOKEN_CHARACTERS))
    return tokens if marked else with_marks(tokens)


def with_marks(tokens: Sequence[str]) -> tuple[str, ...]:
    """Return tokens with `▁` before each word, from any tokenizer's marks.

    `Ġ` before a word becomes `▁`. If pieces within words start with `##`, all others start words.
    Without any mark, every token is a word. Special tokens get none.
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
    """Return the positions of special tokens, such as `<s>` and `[SEP]`."""
    return tuple(at for at, token in enumerate(tokens) if _SPECIAL.fullmatch(token))


def plain_text(tokens: Sequence[str], special: Sequence[int]) -> str:
    """Join the tokens into text, without the special ones."""
    words = [token for at, token in enumerate(tokens) if at not in special]
    return "".join(words).replace("▁", " ").strip()


def _strings(where: str, name: str, array: NDArray[Any], most: int) -> list[str]:
    try:
        texts: list[str] = array.ravel().tolist()
    except ValueError:
        fault = " holds code points that are not characters"
        raise wrong(where, name, array.shape, fault) from None
    longest = max(map(len, texts), default=0)
    if longest > most:
        raise wrong(
            where, name, array.shape,
            f" has a text of {longest:,} characters; at most {most:,} are allowed",
        )  # fmt: skip
    return texts


def as_lists(value: Any) -> Any:
    """Convert nested tuples to lists, as `ndarray.tolist` returns them."""
    return [as_lists(each) for each in value] if isinstance(value, tuple) else value


def read_text(where: str, arrays: Arrays, name: str, default: str = "") -> str:
    """Return one text, such as the sentence."""
    array = arrays.get(name)
    if array is None:
        return default
    if array.dtype.kind != "U" or array.size != 1:
        raise wrong_type(where, name, array, "one text (str)")
    return _strings(where, name, array, MAX_TEXT_CHARACTERS)[0]


def read_positions(
    where: str, arrays: Arrays, name: str, length: int, default: tuple[int, ...]
) -> tuple[int, ...]:
    """Return positions of tokens, 0-based."""
    array = arrays.get(name)
    if array is None:
        return default
    found = _whole(where, name, array)
    bad = next((at for at in found if not 0 <= at < length), None)
    if bad is not None:
        fault = f" holds {bad}; expected positions from 0 to {length - 1}"
        raise wrong(where, name, array.shape, fault)
    return found


def read_ids(where: str, arrays: Arrays, name: str, length: int) -> tuple[int, ...]:
    """Return token ids, -1 if the file has none."""
    array = arrays.get(name)
    if array is None:
        return (-1,) * length
    found = _whole(where, name, array)
    if len(found) != length:
        raise wrong(where, name, array.shape, f": expected [{length}], one id per token")
    return found


def read_numbers(
    where: str,
    arrays: Arrays,
    name: str,
    length: int,
    low: float = -math.inf,
    high: float = math.inf,
) -> Floats:
    """Return one finite number per step, [length]; empty if the file has none."""
    array = arrays.get(name)
    if array is None or not array.size:
        return np.zeros(0, dtype=np.float32)
    if array.dtype.kind not in "iuf":
        raise wrong_type(where, name, array, "numbers")
    if array.shape != (length,):
        fault = f": expected [{length}], one for each position of the decoder"
        raise wrong(where, name, array.shape, fault)
    numbers = array.astype(np.float32)
    if not np.isfinite(numbers).all() or numbers.min() < low or numbers.max() > high:
        allowed = ("" if high == math.inf else " up to 0") + ("" if low == -math.inf else " from 0")
        fault = f" is out of range; expected finite numbers{allowed}"
        raise wrong(where, name, array.shape, fault)
    return numbers


def read_scalar(where: str, arrays: Arrays, name: str, default: Any) -> Any:
    """Return one number or Boolean."""
    array = arrays.get(name)
    if array is None:
        return default
    if array.dtype.kind not in "biuf" or array.size != 1:
        raise wrong_type(where, name, array, "one number")
    return array.item()


def read_top(
    where: str, arrays: Arrays, predicted: Sequence[str], predicted_ids: Sequence[int], n_steps: int
) -> dict[str, Any]:
    """Return the most probable next tokens as fields of a `Trace`, [T, K]; K may be 0."""
    top_arrays = {
        name: arrays[name]
        for name in ("top_log_probs", "top_ids", "top_tokens", "allowed")
        if name in arrays
    }
    if "top_log_probs" not in top_arrays:
        if top_arrays:
            raise CheckpointError(f"{where}: array {next(iter(top_arrays))!r} needs top_log_probs")
        nothing = np.zeros((n_steps, 0))
        return {
            "top_log_probs": nothing.astype(np.float32),
            "top_ids": nothing.astype(np.int64),
            "top_tokens": ((),) * n_steps,
        }
    shape = top_arrays["top_log_probs"].shape
    for name, kinds in (
        ("top_log_probs", "f"), ("top_ids", "iu"), ("top_tokens", "U"), ("allowed", "b"),
    ):  # fmt: skip
        array = top_arrays.get(name)
        if array is None:
            continue
        if array.dtype.kind not in kinds and array.size:
            raise wrong_type(where, name, array, {"U": "text (str)"}.get(kinds, "numbers"))
        if array.shape != shape or len(shape) != 2 or shape[0] != n_steps or shape[1] > MAX_TOP:
            raise wrong(
                where, name, array.shape,
                f": expected [{n_steps}, K] with the same K, 0 to {MAX_TOP}, in every array named "
                "top_...",
            )  # fmt: skip
    log_probs = top_arrays["top_log_probs"].astype(np.float32)
    # The log-probability of an impossible token is -inf.
    if np.isnan(log_probs).any() or (log_probs > 1e-3).any():
        fault = " holds numbers that are not log-probabilities; expected at most 0"
        raise wrong(where, "top_log_probs", shape, fault)
    ids = top_arrays["top_ids"].astype(np.int64) if "top_ids" in top_arrays else None
    if "top_tokens" in top_arrays:
        flat = _strings(where, "top_tokens", top_arrays["top_tokens"], MAX_TOKEN_CHARACTERS)
    else:
        flat = ["?"] * log_probs.size if ids is None else [f"#{each}" for each in ids.flat]
    width = shape[1]
    tokens = tuple(tuple(flat[t * width : (t + 1) * width]) for t in range(n_steps))
    if ids is None:
        # Without ids, a token spelled like the predicted one is taken to be that one.
        ids = np.full(shape, -2, dtype=np.int64)
        for t, (token, token_id) in enumerate(zip(predicted, predicted_ids, strict=True)):
            ids[t, [k for k, each in enumerate(tokens[t]) if each == token][:1]] = token_id
    top: dict[str, Any] = {"top_log_probs": log_probs, "top_ids": ids, "top_tokens": tokens}
    if "allowed" in top_arrays:
        top["allowed"] = top_arrays["allowed"].astype(np.bool_)
    if "n_allowed" in arrays:
        counts = read_ids(where, arrays, "n_allowed", n_steps)
        top["n_allowed"] = np.array(counts, dtype=np.int64)
    return top


def _whole(where: str, name: str, array: NDArray[Any]) -> tuple[int, ...]:
    if array.size == 0:
        return ()
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise wrong_type(where, name, array, "whole numbers in one row")
    return tuple(array.tolist())
