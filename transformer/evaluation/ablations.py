"""Table 3 of the paper at a small scale: its rows, and the file of our runs.

Nothing here imports PyTorch; `transformer.evaluation.ablation_runs` trains.
"""

import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from transformer.training.recipe import Recipe
from transformer.types import InputError

Group = Literal["base", "A", "B", "C", "D", "E"]

#: The runs that come with the project.
SHIPPED = Path(__file__).with_name("ablations.json")

#: Version of the file.
FORMAT = 1

_TABLE = tomllib.loads(Path(__file__).with_name("table3.toml").read_text("utf-8"))

#: Tables of the recipe of our base model.
BASE: Mapping[str, Mapping[str, Any]] = _TABLE["base"]
#: What the rows of a letter ask.
GROUPS: Mapping[str, str] = _TABLE["groups"]
#: The order in which rows are run, the most instructive first.
RUN_ORDER: tuple[str, ...] = tuple(_TABLE["run_order"])


@dataclass(frozen=True)
class Published:
    """A row's results in the paper, on newstest2013."""

    perplexity: float  # per token
    bleu: float  # on the same text
    #: in millions; None where the paper leaves the cell empty, which stands for the base model's
    parameters: float | None = None


@dataclass(frozen=True)
class Variation:
    """A row of table 3."""

    name: str  # in commands and files
    group: Group  # the row's letter
    #: words, change, theirs: difference from the base model in words, in symbols, and the paper's
    words: str
    change: str
    theirs: str
    published: Published  # the paper's results
    #: model, training: settings of the recipe that differ from `BASE`
    model: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)

    def recipe(self, seed: int, start: Mapping[str, Mapping[str, Any]] = BASE) -> Recipe:
        """Return the recipe of one run."""
        return Recipe.from_dict(
            {
                **start,
                "model": {**start["model"], **self.model},
                "training": {**start["training"], **self.training, "seed": seed},
            }
        )


#: Every row, in the paper's order.
VARIATIONS = tuple(
    Variation(**{**row, "published": Published(**row["published"])}) for row in _TABLE["rows"]
)
_BY_NAME = {row.name: row for row in VARIATIONS}


def variation(name: str) -> Variation:
    """Look up a row by name. Raises `InputError` with the valid names."""
    if name not in _BY_NAME:
        raise InputError(f"no row {name!r} in table 3; rows: {', '.join(_BY_NAME)}")
    return _BY_NAME[name]


@dataclass(frozen=True)
class Run:
    """One trained model and its results on Multi30k's validation text."""

    row: str  # name of the variation
    seed: int  # random seed
    nll: float  # negative log-likelihood in nats per piece, without smoothing
    bleu: float  # cased sacreBLEU with beam 4 and alpha 0.6 (section 6.1)
    parameters: int  # trained numbers
    pieces: int  # vocabulary size
    updates: int  # Adam updates
    target_tokens: int  # seen
    hours: float  # training time
    #: hardware, torch: what it ran on
    hardware: str
    torch: str
    recipe: Mapping[str, Mapping[str, Any]]  # all its settings
    #: stamp of the measurement (see `transformer.evaluation.records`); empty in runs without one
    measured: Mapping[str, Any] = field(default_factory=dict)

    @property
    def precision(self) -> str:
        """Precision of the matrix products; "auto" in runs that did not record it."""
        return str(self.recipe.get("training", {}).get("precision", "auto"))

    @property
    def conditions(self) -> tuple[str, int]:
        """Precision and tokens seen; runs that differ in either are not compared.

        All rows see the same text, so other tokens come from another vocabulary, such as that of
        another release of SentencePiece; its tokens are the unit of the loss.
        """
        return self.precision, self.target_tokens

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Run":
        """Read the output of `asdict`. Raises `InputError` if it is invalid."""
        try:
            run = cls(**values)
            if run.row not in _BY_NAME:
                raise ValueError(f"no row {run.row!r}")
            numbers = (run.nll, run.bleu, run.parameters, run.updates, run.hours)
            if not all(math.isfinite(number) and number >= 0 for number in numbers):
                raise ValueError(f"{run.row}, seed {run.seed}: a figure is not a number from 0 up")
            Recipe.from_record(run.recipe)
        except (TypeError, ValueError, AttributeError) as error:
            raise InputError(f"not a run of table 3: {error}") from None
        return run


@dataclass(frozen=True)
class Results:
    """All runs, in the order of `VARIATIONS`, by seed and by conditions."""

    runs: tuple[Run, ...]

    @classmethod
    def of(cls, runs: Iterable[Run]) -> "Results":
        """Sort runs; a later run replaces one with the same row, seed and conditions."""
        by_key = {(run.row, run.seed, run.conditions): run for run in runs}
        order = list(_BY_NAME)
        keys = sorted(by_key, key=lambda key: (order.index(key[0]), *key[1:]))
        return cls(tuple(by_key[key] for key in keys))

    def row(self, name: str) -> tuple[Run, ...]:
        """Return the runs of one row."""
        return tuple(run for run in self.runs if run.row == name)

    @property
    def comparable(self) -> "Results":
        """The largest set of runs that share known conditions and include a base run."""
        base = {run.conditions for run in self.row("base")}
        known = [run.conditions for run in self.runs if run.precision != "auto"]
        chosen = max(
            known,
            key=lambda conditions: (conditions in base, known.count(conditions)),
            default=None,
        )
        return Results(tuple(run for run in self.runs if run.conditions == chosen))

    def to_json(self) -> str:
        """Return the file's text, one line per run."""
        lines = ",\n  ".join(json.dumps(asdict(run)) for run in self.runs)
        return f'{{\n "format": {FORMAT},\n "runs": [\n  {lines}\n ]\n}}\n'

    @classmethod
    def from_json(cls, text: str) -> "Results":
        """Read the output of `to_json`. Raises `InputError` if it is invalid."""
        try:
            values = json.loads(text)
            if values["format"] != FORMAT:
                raise ValueError("another version")
            return cls.of(map(Run.from_dict, values["runs"]))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise InputError(f"not a table of runs: {error}") from None


@cache
def shipped() -> Results:
    """Return the runs that come with the project."""
    return Results.from_json(SHIPPED.read_text("utf-8"))
