"""Settings written by another library, checked as they are read."""

import math
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from transformer.checkpoint.folder import check_size
from transformer.config import ConfigError, ModelConfig
from transformer.search.inputs import MAX_ALPHA, MAX_BEAM, checked_number, checked_whole
from transformer.search.request import Decoding, checked_early
from transformer.types import CheckpointError, InputError

Value = TypeVar("Value")
Other = TypeVar("Other")

#: Activations by their names in other libraries.
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu"}

#: Maximum number of tokens, or of sequences, that are never generated.
MAX_BANNED = 10_000

#: Lists of names and settings, see lists.toml.
LISTS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("lists.toml").read_text("utf-8"))

#: Generation settings of the `transformers` library that Headlight never follows, with the values
#: at which they have no effect, and bounds of the numbers that models may set for its search.
UNUSED: dict[str, list[object]] = LISTS["idle"]["library"]
NUMBERS: dict[str, tuple[float, float]] = LISTS["search"]["numbers"]
#: Settings of tokens for the library's search.
TOKENS = ("suppress_tokens", "begin_suppress_tokens", "forced_eos_token_id")

#: All generation settings besides special tokens. They change a search, but not a model.
GENERATING = (
    *UNUSED, *NUMBERS, *TOKENS, "num_beams", "length_penalty", "early_stopping", "bad_words_ids",
    "renormalize_logits", "forced_bos_token_id",
)  # fmt: skip

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
        self._not_followed: list[str] = []

    def error(self, name: str, allowed: str) -> CheckpointError:
        """Return the error for a value that is not allowed."""
        value = f"{self.values.get(name)!r:.80}"
        return CheckpointError(f"{self.path}: {self.where}{name}={value} is not {allowed}")

    def followed(self, name: str, read: Callable[[Any], Value], default: Other) -> Value | Other:
        """Return `read(value)`, or the default if the value is missing or `read` refuses it.

        A bad value changes what a search does, not what the model is, so `unused` lists it, and
        also a number that `read` brings within the limits of the search.

        Args: read: raises `InputError` for a bad value.
        """
        if (value := self.values.get(name)) is None:
            return default
        try:
            result = read(value)
        except InputError:
            self.leave(name, value)
            return default
        if isinstance(result, int | float) and result != value:
            self._not_followed.append(f"{name}={value!r:.40} ({result:g} here)")
        return result

    def leave(self, name: str, value: object) -> None:
        """List a value, or a part of it, as not followed."""
        self._not_followed.append(f"{name}={value!r:.40}")

    def unused(self, idle: Mapping[str, Sequence[object]]) -> tuple[str, ...]:
        """Return the settings not followed as `name=value`.

        Args: idle: settings that are never followed, with the values without effect.
        """
        idle_ones = (
            f"{name}={self.values[name]!r:.40}"
            for name, values in idle.items()
            if self.values.get(name) not in (None, *values)
        )
        return (*self._not_followed, *idle_ones)

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

    def within(self, *names: str) -> "Settings":
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


def library_decoding(settings: Settings) -> Decoding:
    """Return the decoding of the `transformers` library's settings, within the search's limits.

    The library's defaults are a beam of 1 and an exponent of 1.
    """
    early = settings.followed("early_stopping", checked_early, False)
    return Decoding(beam_setting(settings, "num_beams"), alpha_setting(settings), early)


def checked_flag(value: object) -> bool:
    """Return `value` if it is a Boolean, else raise `InputError`."""
    if isinstance(value, bool):
        return value
    raise InputError(f"{value!r:.40} is not true or false")


def beam_setting(settings: Settings, name: str) -> int:
    """Return a beam size, at most `MAX_BEAM`; 1 without one."""
    return settings.followed(name, lambda value: min(checked_whole(name, value), MAX_BEAM), 1)


def alpha_setting(settings: Settings, name: str = "length_penalty", default: float = 1.0) -> float:
    """Return an exponent of the length penalty, within `MAX_ALPHA` of 0."""

    def read(value: Any) -> float:
        number = checked_number(name, value, math.inf, least=-math.inf)
        return max(-MAX_ALPHA, min(number, MAX_ALPHA))

    return settings.followed(name, read, default)


def inside(value: Any, vocab_size: int) -> list[Any]:
    """Return one token or several as a list, without ids beyond the vocabulary."""
    given = value if isinstance(value, list) else [value]
    return [token for token in given if type(token) is not int or 0 <= token < vocab_size]
