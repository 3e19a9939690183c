"""Learning tasks: they build a model, prepare its batches and save it."""

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
