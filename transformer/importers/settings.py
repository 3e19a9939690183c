"""Settings written by another library, each checked when it is read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from transformer.checkpoint.folder import check_size
from transformer.config import ConfigError, ModelConfig
from transformer.errors import CheckpointError

#: Activations by their names in other libraries.
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu"}

#: Names in `ModelConfig` of the decoder's sizes, if they differ from the encoder's.
_DECODERS = {"vocab_size": "tgt_vocab_size", "n_heads": "n_decoder_heads", "d_ff": "decoder_d_ff"}


def by_side(**sizes: tuple[Any, Any]) -> dict[str, Any]:
    """Return settings of a `ModelConfig` from pairs of sizes: the encoder's and the decoder's."""
    return {name: ours for name, (ours, _) in sizes.items()} | {
        _DECODERS[name]: None if theirs == ours else theirs
        for name, (ours, theirs) in sizes.items()
    }


def model_config(path: Path, values: dict[str, Any]) -> ModelConfig:
    """Build a config from the settings in a file. Raises `CheckpointError` naming the file."""
    try:
        config = ModelConfig.from_dict(values)
    except (ConfigError, TypeError) as error:
        raise CheckpointError(f"{path}: {error}") from None
    check_size(path, config)
    return config


class Settings:
    """Settings by name, with their file for error messages."""

    def __init__(self, path: Path, values: Mapping[str, Any], where: str = "") -> None:
        """Args: where: prefix of the names in messages, such as "model.encoder."."""
        self.path, self.values, self.where = path, values, where

    def error(self, name: str, allowed: str) -> CheckpointError:
        """Return the error for a value that is not allowed."""
        value = f"{self.values.get(name)!r:.80}"
        return CheckpointError(f"{self.path}: {self.where}{name}={value} is not {allowed}")

    def whole(self, name: str, default: int | None = None, least: int = 1) -> int:
        """Return an integer; without a default it is required."""
        value = self.values.get(name, default)
        if type(value) is not int or value < least:
            raise self.error(name, f"a whole number of at least {least}")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a boolean."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(name, "true or false")
        return value

    def share(self, name: str, default: float) -> float:
        """Return a probability below 1."""
        value = self.values.get(name, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1:
            raise self.error(name, "a number in [0, 1)")
        return float(value)

    def choice(self, name: str, allowed: Collection[str], default: str) -> str:
        """Return one of several texts."""
        value = self.values.get(name, default)
        if not isinstance(value, str) or value not in allowed:
            raise self.error(name, f"one of: {', '.join(allowed)}")
        return value

    def text(self, name: str, default: str | None = None) -> str | None:
        """Return a text, or None."""
        value = self.values.get(name, default)
        if value is not None and not isinstance(value, str):
            raise self.error(name, "text")
        return value

    def within(self, name: str) -> Settings:
        """Return the group of settings under a name, empty if it is missing."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, dict):
            raise self.error(name, "a group of settings")
        return Settings(self.path, value or {}, f"{self.where}{name}.")

    def refuse(self, *names: str) -> None:
        """Refuse settings that ask for anything but a plain Transformer."""
        for name in names:
            if self.values.get(name):
                raise self.error(name, "supported; only a plain Transformer is")
