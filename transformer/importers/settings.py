"""Reading settings that another library wrote: each checked when it is taken."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from transformer.errors import CheckpointError

#: What `ModelConfig` calls the decoder's size where it is not the encoder's.
_DECODERS = {"vocab_size": "tgt_vocab_size", "n_heads": "n_decoder_heads", "d_ff": "decoder_d_ff"}


def by_side(**sizes: tuple[Any, Any]) -> dict[str, Any]:
    """Settings of a `ModelConfig` from sizes of the encoder and of the decoder, in this order."""
    return {name: ours for name, (ours, _) in sizes.items()} | {
        _DECODERS[name]: None if theirs == ours else theirs
        for name, (ours, theirs) in sizes.items()
    }


class Settings:
    """Values by name, from a file that messages name."""

    def __init__(self, path: Path, values: Mapping[str, Any], where: str = "") -> None:
        """Args: where: put before the names, as "model.encoder."."""
        self.path, self.values, self.where = path, values, where

    def error(self, name: str, allowed: str) -> CheckpointError:
        """That a value is none of those allowed."""
        value = f"{self.values.get(name)!r:.80}"
        return CheckpointError(f"{self.path}: {self.where}{name}={value} is not {allowed}")

    def whole(self, name: str, default: int | None = None, least: int = 1) -> int:
        """A whole number; without a default it has to be there."""
        value = self.values.get(name, default)
        if type(value) is not int or value < least:
            raise self.error(name, f"a whole number of at least {least}")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false; nothing said is the default."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(name, "true or false")
        return value

    def share(self, name: str, default: float) -> float:
        """A probability, less than 1."""
        value = self.values.get(name, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1:
            raise self.error(name, "a number in [0, 1)")
        return float(value)

    def choice(self, name: str, allowed: Collection[str], default: str) -> str:
        """One of several texts."""
        value = self.values.get(name, default)
        if not isinstance(value, str) or value not in allowed:
            raise self.error(name, f"one of: {', '.join(allowed)}")
        return value

    def text(self, name: str, default: str | None = None) -> str | None:
        """A text, or nothing."""
        value = self.values.get(name, default)
        if value is not None and not isinstance(value, str):
            raise self.error(name, "text")
        return value

    def within(self, name: str) -> Settings:
        """The settings under a name, none where there are none."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, dict):
            raise self.error(name, "a group of settings")
        return Settings(self.path, value or {}, f"{self.where}{name}.")

    def refuse(self, *names: str) -> None:
        """Refuse settings that ask for something else than a plain Transformer."""
        for name in names:
            if self.values.get(name):
                raise self.error(name, "supported; only a plain Transformer is")
