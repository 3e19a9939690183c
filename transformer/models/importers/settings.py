"""Settings written by another library, each checked when it is read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformer.checkpoint.folder import check_size
from transformer.config import ConfigError, ModelConfig
from transformer.errors import CheckpointError, InputError

#: Activations by their names in other libraries.
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu"}

#: Sizes in `ModelConfig` that may differ between the stacks: their names for the decoder.
_DECODERS = {"vocab_size": "tgt_vocab_size", "n_heads": "n_decoder_heads", "d_ff": "decoder_d_ff"}


def model_config(path: Path, **values: Any) -> ModelConfig:
    """Build a config from the settings in a file. Raises `CheckpointError` naming the file.

    Args: values: fields of `ModelConfig`; a size of both stacks is (the encoder's, the decoder's).
    """
    for name, decoders in _DECODERS.items():
        values[name], other = values[name]
        values[decoders] = None if other == values[name] else other
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

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Turn an `InputError` for one of these settings into an error that names their file."""
        try:
            yield
        except InputError as error:
            raise CheckpointError(f"{self.path}: {self.where}{error}") from None

    def unused(self, idle: Mapping[str, tuple[object, ...]]) -> tuple[str, ...]:
        """Return settings as `name=value`, unless they have a value at which they do nothing."""
        return tuple(
            f"{name}={self.values[name]!r:.40}"
            for name, values in idle.items()
            if self.values.get(name) not in (None, *values)
        )

    def check(self, name: str, fits: bool, allowed: str) -> None:
        """Raise the error for a value unless it fits."""
        if not fits:
            raise self.error(name, allowed)

    def whole(self, name: str, default: int | None = None, least: int = 1) -> int:
        """Return an integer; without a default it is required."""
        value = self.values.get(name, default)
        if type(value) is not int or value < least:
            raise self.error(name, f"a whole number of at least {least}")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a boolean."""
        value = default if self.values.get(name) is None else self.values[name]
        self.check(name, isinstance(value, bool), "true or false")
        return bool(value)

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

    def within(self, *names: str) -> Settings:
        """Return the group of settings under a name, or under several in turn; empty if missing."""
        group = self
        for name in names:
            value = group.values.get(name)
            group.check(name, value is None or isinstance(value, dict), "a group of settings")
            group = Settings(group.path, value or {}, f"{group.where}{name}.")
        return group

    def refuse(self, *names: str) -> None:
        """Refuse settings that ask for anything but a plain Transformer."""
        for name in names:
            self.check(name, not self.values.get(name), "supported; only a plain Transformer is")
