"""Training facts of a checkpoint, or the paper's base model where it has none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from transformer.config import ModelConfig
from transformer.search.decoding import Decoding
from transformer.training.objective import learning_rate
from transformer.training.recipe import TrainingRecipe
from transformer.types import Floats
from ui.tours.stops import Scene

#: The paper's base model (sections 5.1 to 5.4): updates, target tokens of a batch, width.
PAPER_UPDATES, PAPER_BATCH, PAPER_WIDTH = 100_000, 25_000, 512


@dataclass(frozen=True)
class Part:
    """A part of a training: what it read, for how long, and on what.

    Attributes:
        corpora: names of the texts.  hardware: as the machine called itself; "" if unknown.
        updates, target_tokens, hours: its length; 0 if unknown.
    """

    corpora: tuple[str, ...]
    updates: int
    target_tokens: int
    hours: float
    hardware: str


#: The paper's base model (sections 5.1 and 5.2).
PAPER_PART = Part(
    ("WMT 2014 English-German",), PAPER_UPDATES, PAPER_UPDATES * PAPER_BATCH, 12.0,
    "8 NVIDIA P100 GPUs",
)  # fmt: skip


@dataclass(frozen=True)
class TrainingFacts:
    """A checkpoint's training by its metrics.json; the paper's base model's if that says nothing.

    Attributes:
        own: whether the numbers are the checkpoint's own.
        continued: whether they are of a last part only, which began from trained weights.
        recipe: room of a batch, warm-up, peak rate, cooldown, Adam's constants, label smoothing.
        dropout: share of the numbers set to 0 (section 5.4).
        parts: of the whole training, the last one at the end.
        averages: (epochs whose weights are averaged, BLEU on validation), decoded in one way.
        updates, epochs, target_tokens, hours: its length; epochs and hours are 0 if unknown.
        longest: tokens of the longest target sentence, 0 if unknown.
        val_nll: loss on held-out text in nats a token, None if unknown.
        tried: (decoding, BLEU on validation) of one set of weights.
        tests: BLEU by the name of the test set.
        d_model, vocab_size: of the model meant.
    """

    own: bool
    continued: bool
    recipe: TrainingRecipe
    dropout: float
    parts: tuple[Part, ...]
    averages: tuple[tuple[int, float], ...]
    updates: int
    epochs: int
    target_tokens: int
    hours: float
    longest: int
    val_nll: float | None
    tried: tuple[tuple[Decoding, float], ...]
    tests: Mapping[str, float]
    d_model: int
    vocab_size: int

    @property
    def hours_in_all(self) -> float:
        """Hours of all parts; 0 if those of one are unknown."""
        known = all(part.hours > 0 for part in self.parts)
        return sum(part.hours for part in self.parts) if known else 0.0

    @property
    def rates(self) -> tuple[np.ndarray[Any, np.dtype[np.int64]], Floats]:
        """About 400 updates, and the learning rate at each."""
        steps = np.unique(np.linspace(1, self.updates, 400).round().astype(np.int64))
        rates = [learning_rate(int(n), self.recipe, self.d_model, self.updates) for n in steps]
        return steps, np.array(rates, dtype=np.float32)


def _number(value: Any, default: float = 0.0) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if good else default


def _part(held: Any, name: str) -> Mapping[str, Any]:
    found = held.get(name) if isinstance(held, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def training_facts(scene: Scene) -> TrainingFacts:
    """Return the facts of a scene's checkpoint."""
    return facts_of(scene.config, scene.metrics)


def facts_of(config: ModelConfig, metrics: Mapping[str, Any]) -> TrainingFacts:
    """Read a checkpoint's metrics.json, ignoring invalid values: anyone may have written it."""
    training = _part(metrics, "training")
    said = _part(_part(training, "recipe"), "training")
    updates = min(int(_number(training.get("updates"))), 10**9)
    own = updates > 0 and bool(said)
    recipe = TrainingRecipe(label_smoothing=0.1, batch_tokens=PAPER_BATCH)
    dropout = 0.1
    if own:
        dropout = min(
            max(_number(_part(_part(training, "recipe"), "model").get("dropout")), 0), 0.9
        )
        recipe = TrainingRecipe(
            warmup=min(int(_number(said.get("warmup"), 4000)), 10**9),
            peak_lr=_number(said.get("peak_lr")),
            cooldown=min(max(_number(said.get("cooldown")), 0.0), 1.0),
            label_smoothing=min(max(_number(said.get("label_smoothing")), 0.0), 1.0),
            batch_tokens=min(max(int(_number(said.get("batch_tokens"), 4096)), 1), 10**9),
            beta1=min(max(_number(said.get("beta1"), 0.9), 0.0), 0.9999),
            beta2=min(max(_number(said.get("beta2"), 0.98), 0.0), 0.9999),
            epsilon=_number(said.get("epsilon"), 1e-9),
        )
    nll = _number(training.get("val_nll"), -1)
    return TrainingFacts(
        own=own,
        continued=own and bool(said.get("init")),
        recipe=recipe,
        dropout=dropout,
        parts=_parts(metrics) if own else (PAPER_PART,),
        averages=_averages(metrics) if own else (),
        updates=updates if own else PAPER_UPDATES,
        epochs=int(_number(training.get("epochs"))) if own else 0,
        target_tokens=(
            int(_number(training.get("target_tokens"))) if own else PAPER_UPDATES * PAPER_BATCH
        ),
        hours=_number(training.get("hours")) if own else 12.0,
        longest=int(_number(training.get("longest_target"))) if own else 0,
        val_nll=nll if own and nll >= 0 else None,
        tried=_tried(metrics),
        tests=_tests(metrics),
        d_model=config.d_model if own else PAPER_WIDTH,
        vocab_size=config.vocab_size if own else 37_000,
    )


def _parts(metrics: Mapping[str, Any]) -> tuple[Part, ...]:
    earlier = metrics.get("earlier_parts")
    held = [*(earlier[-12:] if isinstance(earlier, list) else []), _part(metrics, "training")]
    return tuple(_read_part(each) for each in held if isinstance(each, Mapping))


def _read_part(said: Mapping[str, Any]) -> Part:
    corpora = _part(_part(said, "recipe"), "data").get("corpora")
    names = [str(name)[:40] for name in corpora[:12]] if isinstance(corpora, list) else []
    return Part(
        tuple(dict.fromkeys(names)),
        int(_number(said.get("updates"))),
        int(_number(said.get("target_tokens"))),
        max(_number(said.get("hours")), 0.0),
        str(said.get("hardware") or "")[:80],
    )


def _averages(metrics: Mapping[str, Any]) -> tuple[tuple[int, float], ...]:
    """Return greedy BLEU by the number of epochs averaged."""
    rows = metrics.get("tried_on_val")
    found = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    scores = {
        int(_number(row.get("averaged_epochs"))): _number(row.get("val_bleu"))
        for row in found
        if row.get("beam_size") == 1 and not row.get("mixed_share")
    }
    return tuple(sorted((n, bleu) for n, bleu in scores.items() if n > 0 and bleu > 0))


def _tried(metrics: Mapping[str, Any]) -> tuple[tuple[Decoding, float], ...]:
    rows = metrics.get("tried_on_val")
    found = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    kept = _part(metrics, "chosen_on_val").get("averaged_epochs")
    return tuple(
        (
            Decoding(int(_number(row.get("beam_size"))), _number(row.get("alpha"))),
            _number(row.get("val_bleu")),
        )
        for row in found
        if row.get("averaged_epochs") == kept and _number(row.get("beam_size")) > 0
    )


def _tests(metrics: Mapping[str, Any]) -> dict[str, float]:
    tests = _part(metrics, "tests")
    scores = {name: _part(tests, name).get("bleu") for name in tests}
    return {str(name): _number(score) for name, score in scores.items() if score is not None}


def whose(facts: TrainingFacts) -> str:
    """Return whose numbers these are, as the start of a sentence."""
    if facts.continued:
        return "The last part of this checkpoint's training"
    return "This checkpoint" if facts.own else "The paper's base model"


def how_long(hours: float) -> str:
    """Return a time with its unit, in minutes below an hour."""
    if hours >= 1:
        return f"{hours:,.{1 if hours < 100 else 0}f} hours"
    return f"{60 * hours:.0f} minutes"
