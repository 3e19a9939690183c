"""A training run as a file: model, tokenizer, data and optimisation (section 5), read from TOML."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from transformer.config import PRESETS, ConfigError, ModelConfig

Precision = Literal["auto", "float32", "bfloat16"]


@dataclass(frozen=True)
class TokenizerRecipe:
    """How the joint tokenizer is trained; see `transformer.tokenizer.train_tokenizer`."""

    vocab_size: int = 8_000
    model_type: Literal["unigram", "bpe", "char"] = "unigram"
    character_coverage: float = 1.0
    byte_fallback: bool = False
    casefold: bool = False


@dataclass(frozen=True)
class DataRecipe:
    """Which text. `corpora` are names ("multi30k", "tatoeba", "reversal") or paths under --data.

    A path ending in .tsv holds source TAB target; any other is a prefix of two files, PREFIX.src
    and PREFIX.tgt with the languages' names as endings. `val` is such a path too; without it,
    0.5% of the sources are held out for validation and 1% for testing.
    """

    corpora: tuple[str, ...] = ("multi30k",)
    src: str = "en"
    tgt: str = "de"
    val: str | None = None


@dataclass(frozen=True)
class TrainingRecipe:
    """The paper's optimisation (sections 5.1 to 5.4), with what a small data set needs.

    Attributes:
        epochs: passes over the training text.
        max_updates: stop earlier after this many updates; 0 means no such limit.
        batch_tokens: padded tokens of an update on its longer side; the paper has about 25,000.
        micro_tokens: split an update into parts of at most this many tokens and add up their
            gradients; 0 means one part.
        warmup: updates of linear warmup.
        peak_lr: learning rate at the end of warmup; 0 means the paper's (d_model warmup)^-0.5.
        cooldown: last share of the updates over which the rate falls linearly to zero.
            Departure: the paper has none; 0 turns it off.
        label_smoothing: epsilon_ls of section 5.4.
        beta1, beta2, epsilon: Adam's (section 5.3).
        clip_norm: largest gradient norm; 0 means no limit. Departure: the paper names none.
        r_drop: weight of the divergence between two passes with different dropout (Liang et al.
            2021); 0 turns it off, and with it the second pass.
        subword_alpha: sample segmentations with this alpha (Kudo 2018); 0 turns it off.
        average: number of last epoch checkpoints averaged at the end (section 6.1).
        seed: of everything random.
        precision: "bfloat16" runs matrix products in bfloat16; "auto" does so on a GPU and on CPUs
            with bfloat16 instructions.
        compile: fuse the small operations with torch.compile (needs a C++ compiler on the CPU);
            twice the speed on a small model.
        save_every: updates between saved states, beside one at the end of every epoch.
        init: folder of a checkpoint to start the weights from, or "".
    """

    epochs: int = 60
    max_updates: int = 0
    batch_tokens: int = 4096
    micro_tokens: int = 0
    warmup: int = 4000
    peak_lr: float = 0.0
    cooldown: float = 0.0
    label_smoothing: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9
    clip_norm: float = 0.0
    r_drop: float = 0.0
    subword_alpha: float = 0.0
    average: int = 10
    seed: int = 1
    precision: Precision = "auto"
    compile: bool = False
    save_every: int = 500
    init: str = ""


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a training run."""

    model: ModelConfig
    tokenizer: TokenizerRecipe = field(default_factory=TokenizerRecipe)
    data: DataRecipe = field(default_factory=DataRecipe)
    training: TrainingRecipe = field(default_factory=TrainingRecipe)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a JSON file."""
        return dataclasses.asdict(self)

    @classmethod
    def load(cls, preset_or_toml: str) -> Recipe:
        """A preset's name (with the default recipe) or the path of a TOML file.

        Raises: `ConfigError` naming the file and the setting.
        """
        if preset_or_toml in PRESETS:
            model = PRESETS[preset_or_toml]
            return cls(model, TokenizerRecipe(vocab_size=model.vocab_size))
        path = Path(preset_or_toml)
        if path.suffix != ".toml":
            raise ConfigError(
                f"{preset_or_toml!r} is neither a preset ({', '.join(sorted(PRESETS))}) "
                "nor the path of a .toml file"
            )
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: not valid TOML: {error}") from None
        try:
            return cls.from_dict(values)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Recipe:
        """Build a recipe from the tables of a TOML file."""
        unknown = set(values) - {"model", "tokenizer", "data", "training"}
        if unknown:
            raise ConfigError(
                f"unknown table [{min(unknown)}]; known: model, tokenizer, data, training"
            )
        tokenizer = _build(TokenizerRecipe, "tokenizer", values.get("tokenizer", {}))
        data = dict(values.get("data", {}))
        if "corpora" in data:
            data["corpora"] = tuple(data["corpora"])
        model = dict(values.get("model", {}))
        base = model.pop("preset", None)
        if base is not None and base not in PRESETS:
            raise ConfigError(f"[model] preset={base!r} is not one of {', '.join(sorted(PRESETS))}")
        start = dataclasses.asdict(PRESETS[base]) if base else {}
        config = ModelConfig.from_dict(start | {"vocab_size": tokenizer.vocab_size} | model)
        if config.vocab_size != tokenizer.vocab_size:
            raise ConfigError(
                f"[model] vocab_size={config.vocab_size} differs from "
                f"[tokenizer] vocab_size={tokenizer.vocab_size}"
            )
        return cls(
            config,
            tokenizer,
            _build(DataRecipe, "data", data),
            _build(TrainingRecipe, "training", values.get("training", {})),
        )


def _build(kind: type[Any], table: str, values: Mapping[str, Any]) -> Any:
    known = {item.name: item for item in dataclasses.fields(kind)}
    checked: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            raise ConfigError(f"unknown setting [{table}] {name}; known: {', '.join(known)}")
        default = known[name].default
        if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if default is not None and type(value) is not type(default):
            raise ConfigError(
                f"[{table}] {name}={value!r} should be a {type(default).__name__}, "
                f"such as {default!r}"
            )
        if isinstance(value, int | float) and value < 0:
            raise ConfigError(f"[{table}] {name}={value!r} is below 0")
        checked[name] = value
    return kind(**checked)
