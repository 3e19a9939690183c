"""Learning tasks: building a model, preparing its batches, saving it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from transformer.checkpoint.folder import save_checkpoint
from transformer.config import ModelConfig
from transformer.model import Transformer
from transformer.models.one_stack.files import MASK, mask_id, save_stack
from transformer.models.one_stack.model import OneStack
from transformer.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizer
from transformer.training.corpus import one_side
from transformer.training.data import Batch, Corpus
from transformer.training.recipe import Recipe

#: BERT's share of predicted tokens, and of these the masked and the unchanged ones; the others are
#: replaced by random ones (Devlin et al. 2019, section 3.1).
PREDICTED, MASKED, UNCHANGED = 0.15, 0.8, 0.1


@dataclass(frozen=True)
class LearningTask:
    """The task of one kind of model."""

    build: Callable[[ModelConfig], Transformer | OneStack]  # makes the model
    #: makes a batch of the task from a batch of pairs; draws from PyTorch's generator
    prepare: Callable[[Batch], Batch]
    save: Callable[..., Path]  # writes the checkpoint, given folder, model, tokenizer and `metrics`
    hide: Callable[[Batch], Batch] | None = None  # `prepare` for measurements, if it differs
    setting: str = "each token predicted from those before it"  # of a measurement, in words

    @property
    def examine(self) -> Callable[[Batch], Batch]:
        """Makes a batch for measurements."""
        return self.hide or self.prepare


def task_of(recipe: Recipe, tokenizer: Tokenizer) -> LearningTask:
    """Return what a recipe's model learns."""
    if (stack := recipe.stack) is None:
        return LearningTask(Transformer, lambda batch: batch, save_checkpoint)

    def build(blocks: ModelConfig) -> OneStack:
        return OneStack(stack.config(blocks))

    if stack.task == "translate":
        return LearningTask(build, lambda batch: batch, save_stack)
    if stack.task == "continue":
        return LearningTask(build, continuation, save_stack)
    hidden = mask_id(tokenizer)

    def prepare(batch: Batch) -> Batch:
        return masked_tokens(batch, hidden, tokenizer.vocab_size)

    def hide(batch: Batch) -> Batch:
        # Tokens that are shown, or replaced by others, are not hidden.
        batch = prepare(batch)
        return replace(batch, tgt_out=batch.tgt_out.masked_fill(batch.tgt_in != hidden, PAD_ID))

    setting = f"hidden tokens only, {PREDICTED * MASKED:.0%} of the text, each shown as {MASK}"
    return LearningTask(build, prepare, save_stack, hide, setting)


def text_of(recipe: Recipe, corpus: Corpus) -> Corpus:
    """Return the text that a recipe's model learns: the pairs, or for GPT and BERT the sources."""
    if recipe.stack is None or recipe.stack.task == "translate":
        return corpus
    return one_side(corpus)


def continuation(batch: Batch) -> Batch:
    """Drop the source: every token of the text is predicted from those before it."""
    return Batch(batch.src[:, :0], batch.tgt_in, batch.tgt_out)


def masked_tokens(batch: Batch, mask: int, vocab_size: int) -> Batch:
    """Mask some tokens of the text, `<s>` to `</s>`, for BERT to predict.

    Args: mask: id of the piece that stands for a hidden token.
    """
    text = torch.cat([batch.tgt_in[:, :1], batch.tgt_out], dim=1)
    words = (text != PAD_ID) & (text != BOS_ID) & (text != EOS_ID)
    asked = words & (torch.rand(text.shape) < PREDICTED)
    draw = torch.rand(text.shape)
    shown = text.masked_fill(asked & (draw < MASKED), mask)
    others = torch.randint(EOS_ID + 2, vocab_size, text.shape)
    shown = torch.where(asked & (draw >= MASKED + UNCHANGED), others, shown)
    return Batch(batch.src[:, :0], shown, text.masked_fill(~asked, PAD_ID))
