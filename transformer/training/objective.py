"""The training objective (section 5.4) and the learning rate schedule (section 5.3)."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from transformer.hooks import Hook
from transformer.model import Transformer
from transformer.models.one_stack.model import OneStack
from transformer.training.cross_entropy import projected_cross_entropy, smoothed_cross_entropy
from transformer.training.data import Batch, collate
from transformer.training.recipe import TrainingRecipe


@torch.no_grad()
def tally(
    model: Transformer | OneStack, sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]], *,
    prepare: Callable[[Batch], Batch] = lambda batch: batch,
    autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> tuple[float, int, int]:  # fmt: skip
    """Predict the targets. Leaves the model in evaluation mode and PyTorch's generator unchanged.

    Args: prepare: see `transformer.training.tasks.LearningTask`; it draws the same numbers every
        time.

    Returns: summed negative log-likelihood in nats, number of tokens ranked first, and number of
        tokens.
    """
    device = next(model.parameters()).device
    model.eval()
    total, right, count = 0.0, 0, 0
    order = sorted(range(len(sources)), key=lambda row: len(targets[row]))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for start in range(0, len(order), 64):
            rows = order[start : start + 64]
            pairs = [sources[row] for row in rows], [targets[row] for row in rows]
            batch = prepare(collate(*pairs))
            with autocast():
                logits = model(batch.src.to(device), batch.tgt_in.to(device))
            target, pad_id = batch.tgt_out.to(device), model.config.pad_id
            total += smoothed_cross_entropy(logits, target, 0.0, pad_id)[1].item()
            right += int(((logits.argmax(-1) == target) & (target != pad_id)).sum())
            count += batch.n_tokens
    return total, right, count


def validation_loss(*text: Any, **how: Any) -> float:
    """Return the mean loss of `tally` in nats per token, or NaN without tokens."""
    total, _, count = tally(*text, **how)
    return total / count if count else float("nan")


def smoothed_target(smoothing: float, vocab_size: int) -> tuple[float, float]:
    """Return smoothed probabilities of the right token and of any other token (section 5.4)."""
    other = smoothing / vocab_size
    return 1 - smoothing + other, other


class Objective(nn.Module):
    """Model and loss as one module, to be compiled and distributed together."""

    def __init__(
        self, model: Transformer | OneStack, recipe: TrainingRecipe, hooks: Hook | None = None
    ) -> None:
        super().__init__()
        self.model, self.hooks = model, hooks
        self.smoothing = recipe.label_smoothing

    def forward(self, src: Tensor, tgt_in: Tensor, tgt_out: Tensor) -> tuple[Tensor, Tensor]:
        """Return the summed loss and negative log-likelihood of a batch, in nats."""
        pad_id = self.model.config.pad_id
        hidden, generator = self.model.hidden(src, tgt_in, self.hooks), self.model.generator
        return projected_cross_entropy(hidden, generator, tgt_out, self.smoothing, pad_id)


def learning_rate(update: int, recipe: TrainingRecipe, d_model: int, n_updates: int) -> float:
    """Return the learning rate of an update, counted from 1 (section 5.3, eq. 3).

    d_model^-0.5 min(update^-0.5, update warmup^-1.5), scaled to a peak of `peak_lr` if it is set,
    and decayed linearly to zero over the final `cooldown` share of `n_updates`.
    """
    warmup = max(recipe.warmup, 1)
    peak: float = recipe.peak_lr or (d_model * warmup) ** -0.5
    rate: float = peak * min(update / warmup, (warmup / update) ** 0.5)
    falling = recipe.cooldown * n_updates
    if falling:
        rate *= min(1.0, max(n_updates - update + 1, 1) / falling)
    return rate
