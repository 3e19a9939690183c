"""Table 3 of the paper at a small scale: its rows, and the file of our runs.

Nothing here imports PyTorch; `transformer.experiments.ablation_runs` trains.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from transformer.errors import InputError
from transformer.training.recipe import Recipe

Group = Literal["base", "A", "B", "C", "D", "E"]

#: The runs that come with the project.
SHIPPED = Path(__file__).with_name("ablations.json")

#: Version of the file.
FORMAT = 1

#: Our base model: half the paper's depth and a quarter of its width; 8 heads, dropout and label
#: smoothing and the formula of the learning rate as in the paper. Multi30k has 29,000 pairs.
BASE: Mapping[str, Mapping[str, Any]] = {
    "model": {
        "n_encoder_layers": 3, "n_decoder_layers": 3, "d_model": 128, "d_ff": 512, "n_heads": 8,
        "d_k": 16, "d_v": 16, "dropout": 0.1, "max_positions": 256,
    },
    "tokenizer": {"vocab_size": 4000},
    "data": {"corpora": ["multi30k"], "src": "en", "tgt": "de"},
    "training": {
        "epochs": 8, "batch_tokens": 4096, "warmup": 400, "average": 3,
        "label_smoothing": 0.1, "save_every": 200,
    },
}  # fmt: skip


@dataclass(frozen=True)
class Published:
    """A row's results in the paper, on newstest2013.

    Attributes:
        perplexity: per token.  bleu: on the same text.  parameters: in millions; None where the
            paper leaves the cell empty, which stands for the base model's.
    """

    perplexity: float
    bleu: float
    parameters: float | None = None


@dataclass(frozen=True)
class Variation:
    """A row of table 3.

    Attributes:
        name: in commands and files.  group: the row's letter.
        change: what differs from the base model, ours.  theirs: the same in the paper.
        published: the paper's results.
        model, training: settings of the recipe that differ from `BASE`.
    """

    name: str
    group: Group
    change: str
    theirs: str
    published: Published
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


def _heads(count: int, perplexity: float, bleu: float) -> Variation:
    """Row A: as many heads as the width of each allows, at the same cost."""
    width = 128 // count
    return Variation(
        f"heads-{count}", "A", f"h = {count}, d_k = d_v = {width}",
        f"h = {count}, d_k = d_v = {512 // count}", Published(perplexity, bleu),
        {"n_heads": count, "d_k": width, "d_v": width},
    )  # fmt: skip


def _depth(layers: int, theirs: int, *published: float) -> Variation:
    return Variation(
        f"layers-{layers}", "C", f"N = {layers}", f"N = {theirs}", Published(*published),
        {"n_encoder_layers": layers, "n_decoder_layers": layers},
    )  # fmt: skip


def _smoothing(share: float, *published: float) -> Variation:
    change = f"label smoothing {share:g}"
    return Variation(
        f"smoothing-{share:g}", "D", change, change, Published(*published),
        training={"label_smoothing": share},
    )  # fmt: skip


def _width(d_model: int, *published: float) -> Variation:
    return Variation(
        f"width-{d_model}", "C", f"d_model = {d_model}, d_k = d_v = {d_model // 8}",
        f"d_model = {4 * d_model}, d_k = d_v = {d_model // 2}", Published(*published),
        {"d_model": d_model, "d_k": d_model // 8, "d_v": d_model // 8},
    )  # fmt: skip


#: Every row, in the paper's order.
VARIATIONS: tuple[Variation, ...] = (
    Variation("base", "base", "base", "base", Published(4.92, 25.8, 65)),
    _heads(1, 5.29, 24.9),
    _heads(4, 5.00, 25.5),
    _heads(16, 4.91, 25.8),
    _heads(32, 5.01, 25.4),
    Variation("keys-4", "B", "d_k = 4", "d_k = 16", Published(5.16, 25.1, 58), {"d_k": 4}),
    Variation("keys-8", "B", "d_k = 8", "d_k = 32", Published(5.01, 25.4, 60), {"d_k": 8}),
    _depth(1, 2, 6.11, 23.7, 36),
    _depth(2, 4, 5.19, 25.3, 50),
    _depth(4, 8, 4.88, 25.5, 80),
    _width(64, 5.75, 24.5, 28),
    _width(256, 4.66, 26.0, 168),
    Variation(
        "inner-256", "C", "d_ff = 256", "d_ff = 1024", Published(5.12, 25.4, 53), {"d_ff": 256}
    ),
    Variation(
        "inner-1024", "C", "d_ff = 1024", "d_ff = 4096", Published(4.75, 26.2, 90), {"d_ff": 1024}
    ),
    Variation(
        "dropout-0", "D", "dropout 0", "dropout 0", Published(5.77, 24.6), {"dropout": 0.0}
    ),
    Variation(
        "dropout-0.2", "D", "dropout 0.2", "dropout 0.2", Published(4.95, 25.5), {"dropout": 0.2}
    ),
    _smoothing(0.0, 4.67, 25.3),
    _smoothing(0.2, 5.47, 25.7),
    Variation(
        "learned-positions", "E", "learned positions", "learned positions",
        Published(4.92, 25.7), {"positions": "learned"},
    ),
)  # fmt: skip

#: The order in which rows are run, the most instructive first.
RUN_ORDER = (
    "base", "heads-1", "layers-1", "learned-positions", "dropout-0", "smoothing-0", "keys-4",
    "width-64", "heads-32", "dropout-0.2", "smoothing-0.2", "inner-256", "heads-4", "heads-16",
    "keys-8", "layers-2", "layers-4", "width-256", "inner-1024",
)  # fmt: skip

_BY_NAME = {each.name: each for each in VARIATIONS}


def variation(name: str) -> Variation:
    """Look up a row by name. Raises `InputError` with the valid names."""
    if name not in _BY_NAME:
        raise InputError(f"no row {name!r} in table 3; rows: {', '.join(_BY_NAME)}")
    return _BY_NAME[name]


@dataclass(frozen=True)
class Run:
    """One trained model and its results on Multi30k's validation text.

    Attributes:
        row: name of the variation.  seed: of the run.
        nll: negative log-likelihood in nats per piece, without smoothing.
        bleu: cased sacreBLEU with beam 4 and alpha 0.6 (section 6.1).
        parameters: trained numbers.  pieces: in the vocabulary.
        updates: of Adam.  target_tokens: seen.  hours: of training.
        hardware, torch: what it ran on.  recipe: all its settings.
    """

    row: str
    seed: int
    nll: float
    bleu: float
    parameters: int
    pieces: int
    updates: int
    target_tokens: int
    hours: float
    hardware: str
    torch: str
    recipe: Mapping[str, Mapping[str, Any]]

    @property
    def perplexity(self) -> float:
        """Per piece, so only comparable within one vocabulary."""
        return math.exp(self.nll)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Run:
        """Read what `asdict` wrote. Raises `InputError` for anything else."""
        try:
            run = cls(**values)
            if run.row not in _BY_NAME:
                raise ValueError(f"no row {run.row!r}")
            numbers = (run.nll, run.bleu, run.parameters, run.updates, run.hours)
            if not all(math.isfinite(each) and each >= 0 for each in numbers):
                raise ValueError(f"{run.row}, seed {run.seed}: a figure is not a number from 0 up")
            Recipe.from_record(run.recipe)
        except (TypeError, ValueError, AttributeError) as error:
            raise InputError(f"not a run of table 3: {error}") from None
        return run


@dataclass(frozen=True)
class Results:
    """All runs, in the order of `VARIATIONS` and by seed."""

    runs: tuple[Run, ...]

    @classmethod
    def of(cls, runs: Iterable[Run]) -> Results:
        """Put runs in order; of two with one row and seed the last counts."""
        by_key = {(each.row, each.seed): each for each in runs}
        order = list(_BY_NAME)
        return cls(
            tuple(by_key[key] for key in sorted(by_key, key=lambda k: (order.index(k[0]), k[1])))
        )

    def row(self, name: str) -> tuple[Run, ...]:
        """Return the runs of one row."""
        return tuple(each for each in self.runs if each.row == name)

    def to_json(self) -> str:
        """Write the file's text, one line a run."""
        lines = ",\n  ".join(json.dumps(asdict(each)) for each in self.runs)
        return f'{{\n "format": {FORMAT},\n "runs": [\n  {lines}\n ]\n}}\n'

    @classmethod
    def from_json(cls, text: str) -> Results:
        """Read what `to_json` wrote. Raises `InputError` for anything else."""
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
