"""Checks of tokens, texts, ids and numbers beside attention maps."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer.models.arrays.maps import wrong, wrong_type
from transformer.text.marks import SPECIAL, Style, marked, style_of
from transformer.types import CheckpointError, Floats

MAX_TOKEN_CHARACTERS, MAX_TEXT_CHARACTERS, MAX_TOP = 1_000, 100_000, 100


def special_in(tokens: Sequence[str]) -> tuple[int, ...]:
    """Return the positions of special tokens, such as `<s>` and `[SEP]`."""
    return tuple(at for at, token in enumerate(tokens) if SPECIAL.fullmatch(token))


def plain_text(tokens: Sequence[str], special: Sequence[int]) -> str:
    """Join the tokens, except special ones, into text."""
    words = [token for at, token in enumerate(tokens) if at not in special]
    return "".join(words).replace("▁", " ").strip()


@dataclass(frozen=True)
class Arrays:
    """Arrays by name, whose readers check them and raise `CheckpointError`."""

    where: str  # name of their source, for messages
    by_name: Mapping[str, NDArray[Any]]
    ours: bool = False  # True keeps tokens as stored, with this project's marks

    def error(self, name: str, fault: str) -> CheckpointError:
        """Return the error for an array."""
        return wrong(self.where, name, self.by_name[name].shape, fault)

    def of_type(self, name: str, kinds: str, expected: str, *, one: bool = False) -> NDArray[Any]:
        """Return an array with one of these kinds of types, and a single entry if `one`."""
        array = self.by_name[name]
        if array.dtype.kind not in kinds or (one and array.size != 1):
            raise wrong_type(self.where, name, array, expected)
        return array

    def tokens(self, name: str, length: int) -> tuple[str, ...]:
        """Return one side's tokens with `▁` before words, or positions if the file has none."""
        stored = name
        if name not in self.by_name and name != "predicted_tokens" and length:
            stored = "tokens"
        if stored not in self.by_name:
            return tuple(f"▁{position + 1}" for position in range(length))
        if self.by_name[stored].size == 0 and not length:
            return ()
        array = self.of_type(stored, "U", "text (str)")
        if array.ndim == 2 and len(array) == 1:
            array = array[0]
        if array.shape != (length,):
            fault = f": the maps have {length} tokens there; expected [{length}]"
            raise self.error(stored, fault)
        tokens = tuple(self.strings(stored, array, MAX_TOKEN_CHARACTERS))
        if self.ours:
            return tokens
        after = self.pieces("tgt_tokens")[:1] if name == "predicted_tokens" else []
        return self._marked(name, tokens, *after)

    def pieces(self, name: str) -> list[str]:
        """Return one side's tokens as stored, or [] if the file has none."""
        name = name if name in self.by_name else "tokens"
        array = self.by_name.get(name, np.zeros(0, "U"))
        return self.strings(name, array, MAX_TOKEN_CHARACTERS) if array.dtype.kind == "U" else []

    def _marked(
        self, side: str, tokens: Sequence[str], after: str | None = None
    ) -> tuple[str, ...]:
        """Return one side's tokens with `▁` before every word.

        Args: after: the token before the first, if any.
        """
        after = None if after is None or SPECIAL.fullmatch(after) else after
        return marked(tokens, self._styles[side], special=special_in(tokens), after=after)

    @cached_property
    def _styles(self) -> dict[str, Style]:
        """Marks by side; a side without marks takes the other side's."""
        source = self.pieces("src_tokens")
        target = self.pieces("tgt_tokens") + self.pieces("predicted_tokens")
        every = style_of(source + target)
        own = {"src_tokens": style_of(source)}
        own |= dict.fromkeys(("tgt_tokens", "predicted_tokens"), style_of(target))
        return {side: every if style == "plain" else style for side, style in own.items()}

    def strings(self, name: str, array: NDArray[Any], most: int) -> list[str]:
        """Return the texts of an array, at most `most` characters long."""
        try:
            texts: list[str] = array.ravel().tolist()
        except ValueError:
            raise self.error(name, " holds code points that are not characters") from None
        longest = max(map(len, texts), default=0)
        if longest > most:
            fault = f" has a text of {longest:,} characters; at most {most:,} are allowed"
            raise self.error(name, fault)
        return texts

    def text(self, name: str, default: str = "") -> str:
        """Return one text, such as the sentence."""
        if name not in self.by_name:
            return default
        array = self.of_type(name, "U", "one text (str)", one=True)
        return self.strings(name, array, MAX_TEXT_CHARACTERS)[0]

    def positions(self, name: str, length: int, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Return 0-based token positions."""
        if name not in self.by_name:
            return default
        positions = self.whole(name)
        bad = next((at for at in positions if not 0 <= at < length), None)
        if bad is not None:
            raise self.error(name, f" holds {bad}; expected positions from 0 to {length - 1}")
        return positions

    def ids(self, name: str, length: int) -> tuple[int, ...]:
        """Return token ids, or -1 for every token if the file has none."""
        if name not in self.by_name:
            return (-1,) * length
        ids = self.whole(name)
        if len(ids) != length:
            raise self.error(name, f": expected [{length}], one id per token")
        return ids

    def whole(self, name: str) -> tuple[int, ...]:
        """Return whole numbers in one row."""
        array = self.by_name[name]
        if array.size and (array.dtype.kind not in "iu" or array.ndim != 1):
            raise wrong_type(self.where, name, array, "whole numbers in one row")
        return tuple(array.tolist()) if array.size else ()

    def numbers(
        self, name: str, length: int, low: float = -math.inf, high: float = math.inf
    ) -> Floats:
        """Return one finite number per step, [length]; empty if the file has none."""
        if name not in self.by_name or not self.by_name[name].size:
            return np.zeros(0, dtype=np.float32)
        array = self.of_type(name, "iuf", "numbers")
        if array.shape != (length,):
            raise self.error(name, f": expected [{length}], one number per decoder position")
        numbers = array.astype(np.float32)
        if not np.isfinite(numbers).all() or numbers.min() < low or numbers.max() > high:
            bounds = " up to 0" * (high < math.inf) + " from 0" * (low > -math.inf)
            raise self.error(name, f" is out of range; expected finite numbers{bounds}")
        return numbers

    def scalar(self, name: str, default: Any) -> Any:
        """Return one number or Boolean."""
        if name not in self.by_name:
            return default
        return self.of_type(name, "biuf", "one number", one=True).item()

    def top(
        self, predicted: Sequence[str], predicted_ids: Sequence[int], n_steps: int
    ) -> dict[str, Any]:
        """Return the most probable next tokens as fields of a `Trace`, [T, K]; K may be 0."""
        kinds = {"top_log_probs": "f", "top_ids": "iu", "top_tokens": "U", "allowed": "b"}
        present = {name: self.by_name[name] for name in kinds if name in self.by_name}
        if "top_log_probs" not in present:
            if present:
                raise CheckpointError(f"{self.where}: array {min(present)!r} needs top_log_probs")
            present["top_log_probs"] = np.zeros((n_steps, 0), np.float32)
        shape = present["top_log_probs"].shape
        for name, array in present.items():
            if array.size:
                self.of_type(name, kinds[name], "text (str)" if kinds[name] == "U" else "numbers")
            if array.shape != shape or len(shape) != 2 or shape[0] != n_steps or shape[1] > MAX_TOP:
                raise self.error(
                    name,
                    f": expected [{n_steps}, K] with the same K, 0 to {MAX_TOP}, in every array "
                    "named top_...",
                )
        log_probs = present["top_log_probs"].astype(np.float32)
        # The log-probability of an impossible token is -inf.
        if np.isnan(log_probs).any() or (log_probs > 1e-3).any():
            fault = " holds numbers that are not log-probabilities; expected at most 0"
            raise self.error("top_log_probs", fault)
        ids = present["top_ids"].astype(np.int64) if "top_ids" in present else None
        if "top_tokens" in present:
            flat = self.strings("top_tokens", present["top_tokens"], MAX_TOKEN_CHARACTERS)
        else:
            flat = ["?"] * log_probs.size if ids is None else [f"#{token}" for token in ids.flat]
        width = shape[1]
        rows = [flat[t * width : (t + 1) * width] for t in range(n_steps)]
        if "top_tokens" in present and not self.ours:
            before = self.pieces("tgt_tokens")
            rows = [
                [self._marked("predicted_tokens", (token,), *before[t : t + 1])[0] for token in row]
                for t, row in enumerate(rows)
            ]
        if ids is None:
            # Without ids, an alternative spelled like the predicted token counts as that token.
            ids = np.full(shape, -2, dtype=np.int64)
            for t, (token, token_id) in enumerate(zip(predicted, predicted_ids, strict=True)):
                ids[t, [k for k, other in enumerate(rows[t]) if other == token][:1]] = token_id
        tokens = tuple(map(tuple, rows))
        top: dict[str, Any] = {"top_log_probs": log_probs, "top_ids": ids, "top_tokens": tokens}
        if "allowed" in present:
            top["allowed"] = present["allowed"].astype(np.bool_)
        if "n_allowed" in self.by_name:
            top["n_allowed"] = np.array(self.ids("n_allowed", n_steps), dtype=np.int64)
        return top
