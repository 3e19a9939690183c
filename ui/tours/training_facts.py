"""Training facts of a checkpoint, or the paper's base model where it has none."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from transformer.config import ModelConfig
from transformer.search.request import Decoding
from transformer.training.objective import learning_rate
from transformer.training.recipe import TrainingRecipe
from ui.tours.stops import Scene

#: The paper's base model (sections 5.1 to 5.4): updates, target tokens of a batch, width.
PAPER_UPDATES, PAPER_BATCH, PAPER_WIDTH = 100_000, 25_000, 512


#: Names of the project's corpora; others go by the name in their recipe.
CORPORA = {
    "tatoeba": "Tatoeba", "multi30k": "Multi30k captions", "phrasebook": "a phrasebook",
    "wiktionary": "Wiktionary entries", "agreement": "sentences with agreeing pronouns",
    "gum": "GUM trees", "reversal": "random letters",
}  # fmt: skip


@dataclass(frozen=True)
class Part:
    """A part of a training: what it read, for how long, and on what."""

    corpora: tuple[str, ...]  # names of the texts
    #: updates, target_tokens, hours: its length; 0 if unknown
    updates: int
    target_tokens: int
    hours: float
    hardware: str  # as the machine called itself; "" if unknown


#: The paper's base model (sections 5.1 to 5.4).
PAPER_RECIPE = TrainingRecipe(label_smoothing=0.1, batch_tokens=PAPER_BATCH)
PAPER_PART = Part(
    ("WMT 2014 English-German",), PAPER_UPDATES, PAPER_UPDATES * PAPER_BATCH, 12.0,
    "8 NVIDIA P100 GPUs",
)  # fmt: skip


@dataclass(frozen=True)
class TrainingFacts:
    """A checkpoint's training by its metrics.json, or else that of the paper's base model."""

    own: bool = False  # whether the numbers are the checkpoint's own
    #: whether they are of a last part only, which began from trained weights
    continued: bool = False
    #: room of a batch, warm-up, peak rate, cooldown, Adam's constants, label smoothing
    recipe: TrainingRecipe = PAPER_RECIPE
    dropout: float = 0.1  # share of the numbers set to 0 (section 5.4)
    parts: tuple[Part, ...] = (PAPER_PART,)  # of the whole training, the last one at the end
    #: (epochs whose weights are averaged, BLEU on validation), decoded in one way
    averages: tuple[tuple[int, float], ...] = ()
    #: updates, epochs, target_tokens, hours: its length; epochs and hours are 0 if unknown
    updates: int = PAPER_UPDATES
    epochs: int = 0
    target_tokens: int = PAPER_PART.target_tokens
    hours: float = PAPER_PART.hours
    longest: int = 0  # tokens of the longest target sentence, 0 if unknown
    val_nll: float | None = None  # loss on held-out text in nats a token, None if unknown
    #: (decoding, BLEU on validation) of one set of weights
    tried: tuple[tuple[Decoding, float], ...] = ()
    tests: Mapping[str, float] = field(default_factory=dict)  # BLEU by the name of the test set
    #: d_model, vocab_size: of the model meant
    d_model: int = PAPER_WIDTH
    vocab_size: int = 37_000

    @property
    def hours_in_all(self) -> float:
        """Hours of all parts; 0 if those of one are unknown."""
        known = all(part.hours > 0 for part in self.parts)
        return sum(part.hours for part in self.parts) if known else 0.0

    def rate(self, update: int) -> float:
        """Return the learning rate at an update."""
        return learning_rate(update, self.recipe, self.d_model, self.updates)

    @property
    def rates(self) -> dict[int, float]:
        """The learning rate at about 400 updates."""
        steps = np.linspace(1, self.updates, 400).round().astype(np.int64).tolist()
        return {step: self.rate(step) for step in steps}


#: Settings of a recipe that are read: the default, and the most that is taken.
_SETTINGS: dict[str, tuple[float, float]] = {
    "warmup": (4000, 10**9), "peak_lr": (0.0, 1.0), "cooldown": (0.0, 1.0),
    "label_smoothing": (0.0, 1.0), "batch_tokens": (4096, 10**9), "beta1": (0.9, 0.9999),
    "beta2": (0.98, 0.9999), "epsilon": (1e-9, 1.0),
}  # fmt: skip


def _number(value: Any, default: float = 0.0, most: float = math.inf) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return min(max(float(value), 0.0), most) if good else default


def _part(record: Any, name: str) -> Mapping[str, Any]:
    part = record.get(name) if isinstance(record, Mapping) else None
    return part if isinstance(part, Mapping) else {}


def training_facts(scene: Scene) -> TrainingFacts:
    """Return the facts of a scene's checkpoint."""
    return facts_of(scene.config, scene.metrics)


def facts_of(config: ModelConfig, metrics: Mapping[str, Any]) -> TrainingFacts:
    """Read a checkpoint's metrics.json, ignoring invalid values: anyone may have written it."""
    training = _part(metrics, "training")
    recipe, last = _part(training, "recipe"), _read_part(training)
    schedule = _part(recipe, "training")
    rows = metrics.get("tried_on_val")
    rows = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    epochs = _part(metrics, "chosen_on_val").get("averaged_epochs")
    tried = tuple(
        (Decoding(beam, _number(row.get("alpha"))), _number(row.get("val_bleu")))
        for row in rows
        if row.get("averaged_epochs") == epochs and (beam := int(_number(row.get("beam_size")))) > 0
    )
    results = _part(metrics, "tests")
    scores = {str(name): _part(results, name).get("bleu") for name in results}
    tests = {name: _number(score) for name, score in scores.items() if score is not None}
    if not (last.updates and schedule):
        return TrainingFacts(tried=tried, tests=tests)
    settings: dict[str, Any] = {
        name: type(default)(_number(schedule.get(name), default, most))
        for name, (default, most) in _SETTINGS.items()
    }
    settings["batch_tokens"] = max(settings["batch_tokens"], 1)
    nll, earlier = _number(training.get("val_nll"), math.nan), metrics.get("earlier_parts")
    earlier = earlier[-12:] if isinstance(earlier, list) else []
    by_epochs = {
        int(_number(row.get("averaged_epochs"))): _number(row.get("val_bleu"))
        for row in rows
        if row.get("beam_size") == 1 and not row.get("mixed_share")
    }
    averages = tuple(sorted((n, bleu) for n, bleu in by_epochs.items() if n > 0 and bleu > 0))
    return TrainingFacts(
        own=True,
        continued=bool(schedule.get("init")),
        recipe=TrainingRecipe(**settings),
        dropout=_number(_part(recipe, "model").get("dropout"), most=0.9),
        parts=(*(_read_part(part) for part in earlier if isinstance(part, Mapping)), last),
        averages=averages,
        updates=last.updates,
        epochs=int(_number(training.get("epochs"))),
        target_tokens=last.target_tokens,
        hours=last.hours,
        longest=int(_number(training.get("longest_target"))),
        val_nll=None if math.isnan(nll) else nll,
        tried=tried,
        tests=tests,
        d_model=config.d_model,
        vocab_size=config.vocab_size,
    )


def _read_part(record: Mapping[str, Any]) -> Part:
    corpora = _part(_part(record, "recipe"), "data").get("corpora")
    names = [str(name)[:40] for name in corpora[:12]] if isinstance(corpora, list) else []
    return Part(
        tuple(dict.fromkeys(CORPORA.get(name, name) for name in names)),
        int(_number(record.get("updates"), most=10**9)),
        int(_number(record.get("target_tokens"))),
        _number(record.get("hours")),
        str(record.get("hardware") or "")[:80],
    )


def whose(facts: TrainingFacts) -> str:
    """Return whose numbers these are, as the start of a sentence."""
    if facts.continued:
        return "The last part of this model's training"
    return "This model" if facts.own else "The paper's base model"


def how_long(hours: float) -> str:
    """Return a time with its unit, in minutes below an hour."""
    if hours >= 1:
        return f"{hours:,.{1 if hours < 100 else 0}f} hours"
    return f"{60 * hours:.0f} minutes"
