"""A model and its random control as readers of a corpus: translations and traces of sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from transformer.checkpoint.reference import ModelRef
from transformer.checkpoint.snapshots import readable_history
from transformer.errors import InputError
from transformer.model import Transformer
from transformer.models.catalogue import opened, resolve
from transformer.models.huggingface import HuggingFaceModel
from transformer.models.one_stack.model import OneStack
from transformer.models.one_stack.tracer import StackModel
from transformer.trace.records import Trace
from transformer.trace.tracer import Tracer
from transformer.translator import Translator


def control_of(ref: ModelRef, model: Tracer) -> tuple[Tracer, str]:
    """Return the same model with the random weights that it began with, and what they are.

    A checkpoint without them gets others of the same shape, from a fixed seed.
    """
    history = readable_history(ref.folder)
    if history.snapshots and history.snapshots[0].updates == 0 and history.began == "":
        return opened(resolve(ref.after(0)), model.device), "its first random weights"
    return randomised(model), "random weights of the same shape, of seed 0"


def randomised(model: Tracer, seed: int = 0) -> Tracer:
    """Return a model of the same shape with random weights, edited in the same way.

    Raises: `InputError` for a model that is not built here or by the transformers library.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        options: dict[str, Any] = {"device": model.device}
        if isinstance(model, Translator):
            options |= {"max_tokens": model.max_tokens, "name": model.name}
            made = Translator.from_module(Transformer(model.config), model.tokenizer, **options)
            return made.edited(*model.edits) if model.edits else made
        if isinstance(model, StackModel):
            return StackModel(OneStack(model.config), model.tokenizer, **options)
        if isinstance(model, HuggingFaceModel):
            return model.randomised()
    raise InputError(f"{model.name}: its random weights are not known")


class Target(NamedTuple):
    """A greedy translation as token ids; its first one if it reached the length limit."""

    ids: Sequence[int] | None  # None for a sentence that the model refuses
    cut: bool = False


def targets_of(model: Any, texts: Sequence[str]) -> list[Target]:
    """Return greedy translations, () for a model that writes none; see `_each`."""

    def translated(some: Sequence[str]) -> list[Target]:
        found = model.translate(some, 1)
        return [Target(one.ids[: None if one.complete else 1] or None,
                       bool(one.ids) and not one.complete) for one in found]  # fmt: skip

    alone = isinstance(model, StackModel) and model.config.task == "translate"
    if alone or len(model.kinds) > 1:
        return [target or Target(None) for target in _each(translated, texts)]
    return [Target(())] * len(texts)


def _each(call: Callable[[Sequence[Any]], Sequence[Any]], items: Sequence[Any]) -> list[Any]:
    """Call for all items at once, or one by one; None for items that the model refuses."""
    try:
        return [*call(items)] if items else []
    except InputError:
        return [found for item in items for found in _each(call, [item])] if items[1:] else [None]


def traces_of(
    model: Tracer, texts: Sequence[str], targets: Sequence[Sequence[int] | None]
) -> list[Trace | None]:
    """Trace texts with their translations; see `_each`."""

    def call(pairs: Sequence[tuple[str, Any]]) -> list[Trace]:
        if isinstance(model, Translator):
            some, given = zip(*pairs, strict=True)
            return model.traces(some, top_k=1, targets=map(list, given))
        return [model.trace(text, [*given] or None, top_k=1) for text, given in pairs]  # type: ignore[arg-type]

    pairs = [pair for pair in zip(texts, targets, strict=True) if pair[1] is not None]
    found = iter(_each(call, pairs))
    return [None if target is None else next(found) for target in targets]
