"""Training recipes in TOML: model, tokenizer, data and optimisation (section 5).

A recipe may have stages, each a run from the weights of an earlier one or a mixture of two. Its
file has tables that all stages share, and `[[stages]]`: each has a `name` and tables of its own
that override the shared ones, or `mix`, the names of two earlier stages.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from transformer.config import PRESETS, ConfigError, ModelConfig
from transformer.models.one_stack.config import StackConfig, Task
from transformer.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID

Precision = Literal["auto", "float32", "bfloat16"]


@dataclass(frozen=True)
class TokenizerRecipe:
    """Settings of the joint tokenizer; see `transformer.text.tokenizer.train_tokenizer`.

    Text too small for `vocab_size` pieces gets fewer. `checkpoint` is the folder of a checkpoint
    whose tokenizer is taken in place of a new one, so that models share their pieces.
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

    A path ending in .tsv holds source TAB target, one in .csv two comma-separated columns; any
    other is the prefix of two files, PREFIX.src and PREFIX.tgt with language codes as extensions.
    Each may be gzipped. A name that is given several times is read as often in every epoch. `val`
    is also such a path; without it, 0.5% of each path's sources are held out for validation and 1%
    for testing. Nothing is held out from the paths of `train_only`, such as pairs that a model
    generated from the training text (Sennrich et al. 2016; Nguyen et al. 2020).
    """

    corpora: tuple[str, ...] = ("multi30k",)
    src: str = "en"
    tgt: str = "de"
    val: str | None = None
    train_only: tuple[str, ...] | None = None


@dataclass(frozen=True)
class TrainingRecipe:
    """The paper's optimisation (sections 5.1 to 5.4), with options for small data sets."""

    epochs: int = 60  # passes over the training text
    max_updates: int = 0  # stop earlier after this many updates; 0 means no limit
    #: padded tokens per update on the longer side; the paper has about 25,000
    batch_tokens: int = 4096
    warmup: int = 4000  # updates of linear warmup
    #: learning rate at the end of warmup; 0 means the paper's (d_model warmup)^-0.5
    peak_lr: float = 0.0
    #: last share of the updates over which the rate falls linearly to zero. Departure: the paper
    #: has none; 0 turns it off.
    cooldown: float = 0.0
    label_smoothing: float = 0.1  # epsilon_ls of section 5.4
    #: beta1, beta2, epsilon: Adam's (section 5.3)
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9
    #: largest gradient norm; 0 means no limit. Departure: the paper names none.
    clip_norm: float = 0.0
    word_dropout: float = 0.0  # share of the source tokens that are read as `<unk>` in training
    average: int = 10  # number of last epoch checkpoints averaged at the end (section 6.1)
    seed: int = 1  # of everything random
    #: "bfloat16" runs matrix products in bfloat16; "auto" does so on a GPU and on CPUs with
    #: bfloat16 instructions
    precision: Precision = "auto"
    #: fuse the small operations with torch.compile. For GPUs; on a CPU, where it needs a C++
    #: compiler, it gains little.
    compile: bool = False
    save_every: int = 500  # updates between saved states, besides one at the end of every epoch
    #: weights kept in half precision: the first weights, then evenly in log(updates) from
    #: `first_snapshot` to the last; 0 keeps none
    snapshots: int = 0
    first_snapshot: int = 1  # update after which weights are first kept
    init: str = ""  # folder of a checkpoint of the same kind with initial weights, or ""
    #: adapt them to this recipe's vocabulary and width (see `transformer.training.grow`); otherwise
    #: the vocabulary comes from `init`
    grow: bool = False


@dataclass(frozen=True)
class StackRecipe:
    """A model of one stack in place of encoder and decoder (`transformer.models.one_stack`).

    To "continue" or "fill", it learns the sources' text alone; to "translate", the pairs.
    """

    task: Task
    n_layers: int = 4

    def config(self, blocks: ModelConfig) -> StackConfig:
        """Return the stack's config for a config of its blocks."""
        return StackConfig(self.task, self.n_layers, blocks)


@dataclass(frozen=True)
class Recipe:
    """All settings of a training run. Without `stack` it trains encoder and decoder."""

    model: ModelConfig
    tokenizer: TokenizerRecipe = field(default_factory=TokenizerRecipe)
    data: DataRecipe = field(default_factory=DataRecipe)
    training: TrainingRecipe = field(default_factory=TrainingRecipe)
    stack: StackRecipe | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for `from_dict`, without settings that are None."""
        return {
            table: {name: value for name, value in settings.items() if value is not None}
            for table, settings in dataclasses.asdict(self).items()
            if settings is not None
        }

    @classmethod
    def load(cls, preset_or_toml: str) -> Recipe:
        """Look up a preset by name (with the default recipe) or read a TOML file.

        Raises: `ConfigError` naming the file and the setting.
        """
        if preset_or_toml in PRESETS:
            model = PRESETS[preset_or_toml]
            # A preset may have fewer pieces than real text has characters.
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
    def from_record(cls, values: Mapping[str, Any]) -> Recipe:
        """Build a recipe from a record of training, which an older version may have written."""
        training = values.get("training")
        if isinstance(training, Mapping):
            known = {name: training[name] for name in training if name not in _RETIRED_SETTINGS}
            values = {**values, "training": known}
        return cls.from_dict(values)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Recipe:
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
            raise ConfigError("[model] tgt_vocab_size cannot be set: the tokenizer is a joint one")
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
            raise ConfigError("[training] grow is for models of two stacks, not of one")
        return cls(config, tokenizer, data, training, stack)


_TABLES = ("model", "tokenizer", "data", "training", "stack")

#: Training settings of older versions, which records still hold.
_RETIRED_SETTINGS = {"micro_tokens", "r_drop", "subword_alpha"}

#: Bounds besides "not below 0"; `_BELOW_ONE` are in [0, 1), the others include their bound.
_AT_LEAST_ONE = {"vocab_size", "epochs", "batch_tokens", "average", "n_layers"}
_AT_MOST_ONE = {"character_coverage", "cooldown"}
_BELOW_ONE = {"label_smoothing", "word_dropout", "beta1", "beta2"}
_LARGEST = 2**62


def _build(kind: type[Any], table: str, values: Mapping[str, Any]) -> Any:
    known, hints = {item.name for item in dataclasses.fields(kind)}, get_type_hints(kind)
    checked: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            raise ConfigError(
                f"unknown setting [{table}] {name}; known: {', '.join(sorted(known))}"
            )
        checked[name] = _checked(f"[{table}] {name}", name, value, hints[name])
    return kind(**checked)


def _checked(label: str, name: str, value: Any, hint: Any) -> Any:
    """Return `value` in the type of `hint` and within bounds. Raises `ConfigError`."""
    wanted = ""
    if hint in (tuple[str, ...], tuple[str, ...] | None):
        if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
            wanted = 'should be a list of names, such as ["multi30k"]'
        else:
            value = tuple(value)
    elif hint in (str, str | None):
        wanted = "" if isinstance(value, str) else "should be text in quotes"
    elif hint is bool:
        wanted = "" if isinstance(value, bool) else "should be true or false"
    elif hint not in (int, float):
        wanted = "" if value in get_args(hint) else f"is not one of: {', '.join(get_args(hint))}"
    elif type(value) is not int and (hint is int or type(value) is not float):
        wanted = f"should be a {'whole ' * (hint is int)}number"
    else:
        least, most = int(name in _AT_LEAST_ONE), _LARGEST
        allowed = f"at least {least}"
        if name in _AT_MOST_ONE | _BELOW_ONE:
            most, allowed = 1, f"from 0 to {'below ' * (name in _BELOW_ONE)}1"
        if not least <= value <= most or (name in _BELOW_ONE and value == 1):
            wanted = f"is out of range; allowed is {allowed}"
        elif hint is float:
            value = float(value)
    if wanted:
        raise ConfigError(f"{label}={value!r} {wanted}")
    return value


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        repr(values)  # messages print values, and dotted keys nest deeper than can be printed
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply") from None
    except ValueError as error:  # also for numbers of too many digits
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    return values


@dataclass(frozen=True)
class Stage:
    """One stage. `recipe` trains it; without one, the weights of `mix` are interpolated."""

    name: str  # folder of its result inside the run's; "" for the only stage of a plain recipe
    recipe: Recipe | None
    mix: tuple[str, str] | None = None  # names of the two stages, the trained one first
    #: of the second stage's weights, 0 to 1; None picks the best on validation text
    share: float | None = None

    def started_from(self, out: Path) -> Recipe | None:
        """Return the recipe with `init` as the folder of an earlier stage, where it names one."""
        if self.recipe is None or not self.recipe.training.init.startswith("stage "):
            return self.recipe
        folder = out / self.recipe.training.init.removeprefix("stage ")
        training = dataclasses.replace(self.recipe.training, init=str(folder))
        return dataclasses.replace(self.recipe, training=training)


def load_stages(preset_or_toml: str) -> tuple[Stage, ...]:
    """Read a recipe as its stages; a preset and a plain recipe have one.

    Raises: `ConfigError` naming the file, the stage and the setting.
    """
    path = Path(preset_or_toml)
    values = _read_toml(path) if path.suffix == ".toml" else {}
    if "stages" not in values:
        return (Stage("", Recipe.load(preset_or_toml)),)
    shared, listed = dict(values), values["stages"]
    del shared["stages"]
    if not isinstance(listed, list) or not all(isinstance(each, Mapping) for each in listed):
        raise ConfigError(f"{path}: stages={listed!r} should be tables, [[stages]]")
    found: list[Stage] = []
    for number, each in enumerate(listed, 1):
        try:
            found.append(_stage(dict(each), shared, [stage.name for stage in found]))
        except ConfigError as error:
            raise ConfigError(f"{path}: stage {number}: {error}") from None
    return tuple(found)


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
        raise ConfigError(f"[training] init={start!r}: the stages before are {', '.join(earlier)}")
    return Stage(name, recipe)
