"""The training objective (section 5.4), the learning rate schedule (section 5.3), and tasks.

A learning task builds a model, prepares its batches and saves it.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from transformer.checkpoint.folder import save_checkpoint
from transformer.config import ModelConfig
from transformer.hooks import Hook
from transformer.model import Transformer
from transformer.models.one_stack.model import MASK, OneStack, mask_id, save_stack
from transformer.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizer
from transformer.training.corpus import one_side
from transformer.training.cross_entropy import projected_cross_entropy, smoothed_cross_entropy
from transformer.training.data import Batch, Corpus, collate
from transformer.training.recipe import Recipe, TrainingRecipe


@torch.no_grad()
def tally(
    model: Transformer | OneStack, sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]], *,
    prepare: Callable[[Batch], Batch] = lambda batch: batch,
    autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> tuple[float, int, int]:  # fmt: skip
    """Predict the targets. Leaves the model in evaluation mode and PyTorch's generator unchanged.

    Args: prepare: see `LearningTask`; it draws the same numbers every time.

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


#: BERT's shares: tokens to predict, and of these, masked and unchanged ones; the rest become random
#: tokens (Devlin et al. 2019, section 3.1).
PREDICTED, MASKED, UNCHANGED = 0.15, 0.8, 0.1


@dataclass(frozen=True)
class LearningTask:
    """The task of one kind of model."""

    build: Callable[[ModelConfig], Transformer | OneStack]  # builds the model
    #: turns a batch of pairs into a batch of the task; draws from PyTorch's generator
    prepare: Callable[[Batch], Batch]
    save: Callable[..., Path]  # writes the checkpoint: (folder, model, tokenizer, metrics=...)
    examine: Callable[[Batch], Batch]  # `prepare` for measurements
    setting: str = "each token predicted from those before it"  # measurement setting in words


def task_of(recipe: Recipe, tokenizer: Tokenizer) -> LearningTask:
    """Return the task of a recipe's model."""

    def unchanged(batch: Batch) -> Batch:
        return batch

    if (stack := recipe.stack) is None:
        return LearningTask(Transformer, unchanged, save_checkpoint, unchanged)

    def build(blocks: ModelConfig) -> OneStack:
        return OneStack(stack.config(blocks))

    if stack.task != "fill":
        prepare = unchanged if stack.task == "translate" else continuation
        return LearningTask(build, prepare, save_stack, prepare)
    mask = mask_id(tokenizer)

    def masked(batch: Batch) -> Batch:
        return masked_tokens(batch, mask, tokenizer.vocab_size)

    def hidden_only(batch: Batch) -> Batch:
        # Tokens that are shown, or replaced by others, are not hidden.
        batch = masked(batch)
        return replace(batch, tgt_out=batch.tgt_out.masked_fill(batch.tgt_in != mask, PAD_ID))

    setting = f"hidden tokens only, {PREDICTED * MASKED:.0%} of the text, each shown as {MASK}"
    return LearningTask(build, masked, save_stack, hidden_only, setting)


def text_of(recipe: Recipe, corpus: Corpus) -> Corpus:
    """Return the text that a recipe's model learns: pairs, or only sources for GPT and BERT."""
    if recipe.stack is None or recipe.stack.task == "translate":
        return corpus
    return one_side(corpus)


def continuation(batch: Batch) -> Batch:
    """Drop the source, so that every token of the text is predicted from the tokens before it."""
    return Batch(batch.src[:, :0], batch.tgt_in, batch.tgt_out)


def masked_tokens(batch: Batch, mask: int, vocab_size: int) -> Batch:
    """Mask some tokens of the text, `<s>` to `</s>`, with the id `mask`, for BERT to predict."""
    text = torch.cat([batch.tgt_in[:, :1], batch.tgt_out], dim=1)
    words = (text != PAD_ID) & (text != BOS_ID) & (text != EOS_ID)
    predicted = words & (torch.rand(text.shape) < PREDICTED)
    draw = torch.rand(text.shape)
    visible = text.masked_fill(predicted & (draw < MASKED), mask)
    others = torch.randint(EOS_ID + 2, vocab_size, text.shape)
    visible = torch.where(predicted & (draw >= MASKED + UNCHANGED), others, visible)
    return Batch(batch.src[:, :0], visible, text.masked_fill(~predicted, PAD_ID))
