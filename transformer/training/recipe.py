"""Training recipes in TOML: model, tokenizer, data and optimisation (section 5).

A recipe may have stages: runs from an earlier stage's weights, or mixtures of two stages. Its file
has shared tables and `[[stages]]`. A stage has a `name` and either tables that override the shared
ones or `mix`, the names of two earlier stages.
"""

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, get_args, get_type_hints

from transformer.config import PRESETS, ConfigError, ModelConfig
from transformer.models.one_stack.config import StackConfig, Task
from transformer.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID

Precision = Literal["auto", "float32", "bfloat16"]


@dataclass(frozen=True)
class TokenizerRecipe:
    """Settings of the joint tokenizer; see `transformer.text.tokenizer.train_tokenizer`.

    A text too small for `vocab_size` pieces gets fewer. `checkpoint` is a checkpoint folder whose
    tokenizer is used instead of a new one, so that models share their pieces.
    """

    vocab_size: int = 8_000
    model_type: Literal["unigram", "bpe", "char"] = "unigram"
    character_coverage: float = 1.0
    byte_fallback: bool = False
    casefold: bool = False
    split_digits: bool = False
    required_chars: str = ""
    checkpoint: str = ""


@dataclass(frozen=True)
class DataRecipe:
    """Training text. `corpora` are names or paths under --data.

    The names are "multi30k", "tatoeba", "agreement" (derived from Tatoeba's training part),
    "phrasebook" (the project's own lines), "wiktionary" (its words, with Tatoeba's frequencies),
    "gum" (sentences and their trees; `tgt` is then "tree") and "reversal".

    A .tsv path holds source TAB target, and a .csv path two comma-separated columns. Any other path
    is the prefix of two files, PREFIX.src and PREFIX.tgt, with language codes as extensions. Files
    may be gzipped. A repeated name is read as often in every epoch. From each path, 0.5% of sources
    are held out for validation and 1% for testing, but none from `train_only` paths, such as pairs
    that a model generated from the training text (Sennrich et al. 2016; Nguyen et al. 2020).
    """

    corpora: tuple[str, ...] = ("multi30k",)
    src: str = "en"
    tgt: str = "de"
    train_only: tuple[str, ...] | None = None


@dataclass(frozen=True)
class TrainingRecipe:
    """The paper's optimisation (sections 5.1 to 5.4), with options for small data sets."""

    epochs: int = 60  # passes over the training text
    max_updates: int = 0  # stop after this many updates; 0 means no limit
    #: padded tokens per update, on the longer side; the paper uses about 25,000
    batch_tokens: int = 4096
    warmup: int = 4000  # updates of linear warmup
    #: learning rate at the end of warmup; 0 means the paper's (d_model warmup)^-0.5
    peak_lr: float = 0.0
    #: final share of updates over which the rate falls linearly to zero. Departure: 0 in the paper.
    cooldown: float = 0.0
    label_smoothing: float = 0.1  # epsilon_ls of section 5.4
    beta1: float = 0.9  # Adam's settings (section 5.3)
    beta2: float = 0.98
    epsilon: float = 1e-9
    #: largest gradient norm; 0 means no limit. Departure: the paper has none.
    clip_norm: float = 0.0
    word_dropout: float = 0.0  # share of source tokens replaced by `<unk>` in training
    average: int = 10  # number of epochs whose weights are averaged at the end (section 6.1)
    seed: int = 1
    #: "bfloat16" multiplies matrices in bfloat16; "auto" does so on GPUs and on CPUs with bfloat16
    #: instructions
    precision: Precision = "auto"
    #: fuse small operations with torch.compile. It is for GPUs; a CPU gains little and needs a C++
    #: compiler.
    compile: bool = False
    save_every: int = 500  # updates between saved states; epochs end in one, too
    #: number of half-precision weights to keep: the first, then evenly in log(updates) from
    #: `first_snapshot` to the last
    snapshots: int = 0
    first_snapshot: int = 1  # update of the first snapshot
    init: str = ""  # checkpoint folder of the same kind with initial weights, or ""
    #: adapt `init` to this recipe's vocabulary and width (see `transformer.training.grow`);
    #: otherwise the vocabulary comes from `init`
    grow: bool = False


@dataclass(frozen=True)
class StackRecipe:
    """A one-stack model in place of encoder and decoder (`transformer.models.one_stack`).

    To "continue" or "fill", it learns the sources only; to "translate", the pairs.
    """

    task: Task
    n_layers: int = 4

    def config(self, blocks: ModelConfig) -> StackConfig:
        """Return the stack's config, given its blocks' config."""
        return StackConfig(self.task, self.n_layers, blocks)


@dataclass(frozen=True)
class Recipe:
    """All settings of a training run. Without `stack`, it trains an encoder and a decoder."""

    model: ModelConfig
    tokenizer: TokenizerRecipe = field(default_factory=TokenizerRecipe)
    data: DataRecipe = field(default_factory=DataRecipe)
    training: TrainingRecipe = field(default_factory=TrainingRecipe)
    stack: StackRecipe | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for `from_dict`, omitting settings that are None."""
        return {
            table: {name: value for name, value in settings.items() if value is not None}
            for table, settings in dataclasses.asdict(self).items()
            if settings is not None
        }

    @classmethod
    def load(cls, preset_or_toml: str) -> Self:
        """Look up a preset by name, for the default recipe, or read a TOML file.

        Raises: `ConfigError` naming the file and the setting.
        """
        if preset_or_toml in PRESETS:
            model = PRESETS[preset_or_toml]
            # Real text may have more characters than a preset has pieces.
            tokenizer = TokenizerRecipe(vocab_size=max(model.vocab_size, 1_000))
            return cls(model.replace(vocab_size=tokenizer.vocab_size), tokenizer)
        path = Path(preset_or_toml)
        if path.suffix != ".toml":
            raise ConfigError(
                f"{preset_or_toml!r} is neither a preset ({', '.join(sorted(PRESETS))}) "
                "nor the path of a .toml file"
            )
        values = _read_toml(path)
        try:
            return cls.from_dict(values)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None

    @classmethod
    def from_record(cls, values: Mapping[str, Any]) -> Self:
        """Build a recipe from a training record, possibly of an older version."""
        training = values.get("training")
        if isinstance(training, Mapping):
            current = {name: training[name] for name in training if name not in _RETIRED_SETTINGS}
            values = {**values, "training": current}
        return cls.from_dict(values)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Build a recipe from the tables of a TOML file."""
        for name, table in values.items():
            if name not in _TABLES:
                raise ConfigError(f"unknown table [{name}]; known: {', '.join(_TABLES)}")
            if not isinstance(table, Mapping):
                raise ConfigError(f"{name}={table!r} should be a table, [{name}]")
        tokenizer = _build(TokenizerRecipe, "tokenizer", values.get("tokenizer", {}))
        model = dict(values.get("model", {}))
        base = model.pop("preset", None)
        if base is not None and (not isinstance(base, str) or base not in PRESETS):
            raise ConfigError(f"[model] preset={base!r} is not one of {', '.join(sorted(PRESETS))}")
        start = dataclasses.asdict(PRESETS[base]) if base else {}
        try:
            config = ModelConfig.from_dict(start | {"vocab_size": tokenizer.vocab_size} | model)
        except ConfigError as error:
            raise ConfigError(f"[model] {error}") from None
        if config.vocab_size != tokenizer.vocab_size:
            raise ConfigError(
                f"[model] vocab_size={config.vocab_size} differs from "
                f"[tokenizer] vocab_size={tokenizer.vocab_size}"
            )
        if config.tgt_vocab_size is not None:
            raise ConfigError("[model] tgt_vocab_size cannot be set: the tokenizer is joint")
        ids = (config.pad_id, config.bos_id, config.eos_id, config.unk_id)
        if ids != (PAD_ID, BOS_ID, EOS_ID, UNK_ID):
            raise ConfigError("[model] omit the ids of special tokens: the tokenizer sets them")
        data = _build(DataRecipe, "data", values.get("data", {}))
        training = _build(TrainingRecipe, "training", values.get("training", {}))
        if "stack" not in values:
            return cls(config, tokenizer, data, training)
        if "task" not in values["stack"]:
            raise ConfigError(f"[stack] needs a task: {', '.join(get_args(Task))}")
        stack = _build(StackRecipe, "stack", values["stack"])
        stack.config(config)
        if training.grow:
            raise ConfigError("[training] grow needs two stacks: encoder and decoder")
        return cls(config, tokenizer, data, training, stack)


_TABLES = ("model", "tokenizer", "data", "training", "stack")

#: Training settings of older versions, which records may hold.
_RETIRED_SETTINGS = {"micro_tokens", "r_drop", "subword_alpha"}

#: Bounds of numbers, which are at least 0; `_BELOW_ONE` excludes 1, other bounds are inclusive.
_AT_LEAST_ONE = {"vocab_size", "epochs", "batch_tokens", "average", "n_layers"}
_AT_MOST_ONE = {"character_coverage", "cooldown"}
_BELOW_ONE = {"label_smoothing", "word_dropout", "beta1", "beta2"}
_LARGEST = 2**62


def _build(kind: type[Any], table: str, values: Mapping[str, Any]) -> Any:
    fields, hints = {item.name for item in dataclasses.fields(kind)}, get_type_hints(kind)
    checked: dict[str, Any] = {}
    for name, value in values.items():
        if name not in fields:
            allowed = ", ".join(sorted(fields))
            raise ConfigError(f"unknown setting [{table}] {name}; known: {allowed}")
        if problem := _problem(name, value, hint := hints[name]):
            raise ConfigError(f"[{table}] {name}={value!r} {problem}")
        checked[name] = (
            tuple(value) if isinstance(value, list) else float(value) if hint is float else value
        )
    return kind(**checked)


def _problem(name: str, value: Any, hint: Any) -> str:
    """Return an error if a value is not of type `hint` or is out of bounds, or ""."""
    if hint in (tuple[str, ...], tuple[str, ...] | None):
        names = isinstance(value, list) and value and all(isinstance(item, str) for item in value)
        return "" if names else 'should be a list of names, such as ["multi30k"]'
    if hint is str:
        return "" if isinstance(value, str) else "should be text in quotes"
    if hint is bool:
        return "" if isinstance(value, bool) else "should be true or false"
    if hint not in (int, float):
        return "" if value in get_args(hint) else f"is not one of: {', '.join(get_args(hint))}"
    if type(value) is not int and (hint is int or type(value) is not float):
        return f"should be a {'whole ' * (hint is int)}number"
    least, most = int(name in _AT_LEAST_ONE), _LARGEST
    allowed = f"at least {least}"
    if name in _AT_MOST_ONE | _BELOW_ONE:
        most, allowed = 1, f"from 0 to {'below ' * (name in _BELOW_ONE)}1"
    inside = least <= value <= most and not (name in _BELOW_ONE and value == 1)
    return "" if inside else f"is out of range; allowed is {allowed}"


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        repr(values)  # messages print values, but deeply nested dotted keys cannot be printed
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply") from None
    except ValueError as error:  # also raised for numbers with too many digits
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    return values


@dataclass(frozen=True)
class Stage:
    """One stage: `recipe` trains it, or else the weights of `mix` are interpolated."""

    name: str  # its folder inside the run's; "" for the only stage of a plain recipe
    recipe: Recipe | None
    mix: tuple[str, str] | None = None  # names of two stages, the trained one first
    #: share of the second stage's weights, 0 to 1; None picks the best on validation text
    share: float | None = None

    def started_from(self, out: Path) -> Recipe | None:
        """Return the recipe, with `init` as the folder of the earlier stage that it names."""
        if self.recipe is None or not self.recipe.training.init.startswith("stage "):
            return self.recipe
        folder = out / self.recipe.training.init.removeprefix("stage ")
        training = dataclasses.replace(self.recipe.training, init=str(folder))
        return dataclasses.replace(self.recipe, training=training)


def load_stages(preset_or_toml: str) -> tuple[Stage, ...]:
    """Read a recipe's stages; a preset or a plain recipe has one.

    Raises: `ConfigError` naming the file, the stage and the setting.
    """
    path = Path(preset_or_toml)
    shared = _read_toml(path) if path.suffix == ".toml" else {}
    if "stages" not in shared:
        return (Stage("", Recipe.load(preset_or_toml)),)
    tables = shared.pop("stages")
    if not isinstance(tables, list) or not all(isinstance(table, Mapping) for table in tables):
        raise ConfigError(f"{path}: stages={tables!r} must be an array of tables, [[stages]]")
    stages: list[Stage] = []
    for number, table in enumerate(tables, 1):
        try:
            stages.append(_stage(dict(table), shared, [stage.name for stage in stages]))
        except ConfigError as error:
            raise ConfigError(f"{path}: stage {number}: {error}") from None
    return tuple(stages)


def _stage(values: dict[str, Any], shared: Mapping[str, Any], earlier: list[str]) -> Stage:
    name, mix, share = (values.pop(key, None) for key in ("name", "mix", "share"))
    if not isinstance(name, str) or not name.replace("-", "").isalnum() or name in earlier:
        raise ConfigError(f"name={name!r} should be letters, digits and hyphens, and its own")
    if mix is not None:
        if not isinstance(mix, list) or len(mix) != 2 or not set(mix) <= set(earlier) or values:
            raise ConfigError(f"mix={mix!r} should be two of: {', '.join(earlier)}; alone")
        if share is not None and not (isinstance(share, float) and 0 <= share <= 1):
            raise ConfigError(f"share={share!r} should be a number from 0 to 1, such as 0.5")
        return Stage(name, None, (mix[0], mix[1]), share)
    tables = {**shared, **values}
    for table in set(_TABLES) & shared.keys() & values.keys():
        if isinstance(values[table], Mapping) and isinstance(shared[table], Mapping):
            tables[table] = {**shared[table], **values[table]}
    recipe = Recipe.from_dict(tables)
    start = recipe.training.init
    if start.startswith("stage ") and start.removeprefix("stage ") not in earlier:
        raise ConfigError(f"[training] init={start!r}: earlier stages are {', '.join(earlier)}")
    return Stage(name, recipe)
