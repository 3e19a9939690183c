"""Settings written by another library, checked as they are read."""

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

#: Generation settings of the `transformers` library that Headlight never follows, with the values
#: at which they have no effect.
UNUSED: dict[str, tuple[object, ...]] = {
    "max_length": (20,), "max_new_tokens": (), "num_return_sequences": (1,),
    "num_beam_groups": (1,), "diversity_penalty": (0,), "do_sample": (False,),
    "force_words_ids": (), "constraints": (), "sequence_bias": ({}, []), "guidance_scale": (1,),
    "exponential_decay_length_penalty": (), "penalty_alpha": (0,), "dola_layers": (),
    "remove_invalid_values": (False,), "max_time": (), "stop_strings": (),
    "watermarking_config": (),
}  # fmt: skip

#: `ModelConfig` sizes that may differ between the stacks, with the decoder's name for them.
_DECODERS = {"vocab_size": "tgt_vocab_size", "n_heads": "n_decoder_heads", "d_ff": "decoder_d_ff"}


def model_config(path: Path, **values: Any) -> ModelConfig:
    """Build a config from the settings in a file. Raises `CheckpointError` naming the file.

    Args: values: fields of `ModelConfig`; sizes of both stacks are pairs (encoder, decoder).
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
        """Args: where: prefix of names in messages, such as "model.encoder."."""
        self.path, self.values, self.where = path, values, where

    def error(self, name: str, allowed: str) -> CheckpointError:
        """Return the error for a value that is not allowed."""
        value = f"{self.values.get(name)!r:.80}"
        return CheckpointError(f"{self.path}: {self.where}{name}={value} is not {allowed}")

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Turn an `InputError` for a setting into an error that names the file."""
        try:
            yield
        except InputError as error:
            raise CheckpointError(f"{self.path}: {self.where}{error}") from None

    def unused(self, idle: Mapping[str, tuple[object, ...]]) -> tuple[str, ...]:
        """Return the settings in `idle` as `name=value`, except at values without effect."""
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
        """Return an integer, which is required without a default."""
        value: int = self.values.get(name, default)
        self.check(
            name, type(value) is int and value >= least, f"a whole number of at least {least}"
        )
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a Boolean."""
        value: bool = default if self.values.get(name) is None else self.values[name]
        self.check(name, isinstance(value, bool), "true or false")
        return value

    def share(self, name: str, default: float) -> float:
        """Return a probability below 1."""
        value: float = self.values.get(name, default)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        self.check(name, number and 0 <= value < 1, "a number in [0, 1)")
        return float(value)

    def choice(self, name: str, allowed: Collection[str], default: str) -> str:
        """Return one of the allowed texts."""
        value: str = self.values.get(name, default)
        fits = isinstance(value, str) and value in allowed
        self.check(name, fits, f"one of: {', '.join(allowed)}")
        return value

    def text(self, name: str, default: str | None = None) -> str | None:
        """Return a text, or None."""
        value: str | None = self.values.get(name, default)
        self.check(name, value is None or isinstance(value, str), "text")
        return value

    def within(self, *names: str) -> Settings:
        """Return the group under a name, or under several in turn; a missing group is empty."""
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
