"""Settings of a toy run, including changes to the paper's model."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor

from transformer.config import ConfigError, ModelConfig
from transformer.hooks import Hooks, Site
from transformer.training.recipe import Recipe, TrainingRecipe
from transformer.training.toys.tasks import TASKS, TOYS

#: Changes to the paper's model, with their names on screen.
CHANGES: Mapping[str, str] = TOYS["changes"]
#: Bounds of whole numbers, to keep models small on a public server.
BOUNDS: Mapping[str, tuple[int, int]] = TOYS["bounds"]
#: Bounds of the learning rate at the end of warm-up.
RATES = (1e-5, 0.1)


@dataclass(frozen=True)
class ToySettings:
    """One toy run."""

    task: str = "reverse"  # a key of `TASKS`
    change: str = "none"  # a key of `CHANGES`
    d_model: int = 64
    n_heads: int = 4
    n_layers: int = 2  # depth of each stack
    warmup: int = 60
    peak_lr: float = 0.003  # learning rate at the end of warm-up
    updates: int = 900
    seed: int = 1

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise ConfigError(f"task={self.task!r} is not one of: {', '.join(TASKS)}")
        if self.change not in CHANGES:
            raise ConfigError(f"change={self.change!r} is not one of: {', '.join(CHANGES)}")
        for name, (low, high) in BOUNDS.items():
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise ConfigError(f"{name}={value!r} is not a whole number from {low} to {high:,}")
        rate, (least, most) = self.peak_lr, RATES
        if type(rate) is not float or not least <= rate <= most:
            raise ConfigError(f"learning rate {rate!r} is not a number from {least:g} to {most:g}")
        self.model(8)

    @property
    def keepable(self) -> bool:
        """True if a checkpoint can describe the trained model."""
        return self.change != "no_residual"

    def model(self, vocab_size: int) -> ModelConfig:
        """Return the model config. Raises `ConfigError`."""
        return ModelConfig(
            vocab_size, d_model=self.d_model, d_ff=2 * self.d_model, dropout=0.0,
            n_heads=1 if self.change == "one_head" else self.n_heads,
            n_encoder_layers=self.n_layers, n_decoder_layers=self.n_layers,
            norm="pre" if self.change == "pre_norm" else "post",
            # A model whose table of positions is zero has none, as a checkpoint can describe.
            positions="stored" if self.change == "no_positions" else "sinusoidal",
            max_positions=64,
        )  # fmt: skip

    def recipe(self, vocab_size: int) -> Recipe:
        """Return the recipe that `Trainer` runs."""
        training = TrainingRecipe(
            batch_tokens=768, warmup=1 if self.change == "no_warmup" else self.warmup,
            peak_lr=self.peak_lr, max_updates=self.updates, cooldown=0.3, label_smoothing=0.0,
            average=1, seed=self.seed, precision="float32",
        )  # fmt: skip
        return Recipe(self.model(vocab_size), training=training)

    def hooks(self) -> Hooks | None:
        """Return the change inside the forward pass, or None if the config makes it."""
        if self.change == "no_scaling":
            return Unscaled(self.d_model // self.n_heads)
        return NoResidual() if self.change == "no_residual" else None

    def replace(self, **changes: Any) -> Self:
        """Return a validated copy with some fields changed."""
        return dataclasses.replace(self, **changes)


class Unscaled(Hooks):
    """Undoes the division of scores by sqrt(d_k)."""

    def __init__(self, d_k: int) -> None:
        self.factor = math.sqrt(d_k)

    def wants(self, site: Site) -> bool:
        """Return True for scores."""
        return site.name == "scores"

    def __call__(self, site: Site, value: Tensor) -> Tensor:
        """Multiply the scores by sqrt(d_k)."""
        return value * self.factor


class NoResidual(Hooks):
    """Removes the residual connection from post-norm layers: LayerNorm(Sublayer(x)).

    It subtracts x from a sub-layer's output before the connection adds x, which is exact without
    dropout.
    """

    def __init__(self) -> None:
        self._input: Tensor | None = None

    def wants(self, site: Site) -> bool:
        """Return True for inputs and outputs of sub-layers."""
        return site.name in ("input", "output")

    def __call__(self, site: Site, value: Tensor) -> Tensor:
        """Store the input; subtract it from the output."""
        if site.name == "input":
            self._input = value
            return value
        assert self._input is not None  # each sub-layer's input comes right before its output
        return value - self._input
