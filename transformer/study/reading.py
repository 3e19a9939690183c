"""Translations and traces of corpus sentences by a model and its random control."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from transformer.checkpoint.reference import ModelRef
from transformer.checkpoint.snapshots import readable_history
from transformer.model import Transformer
from transformer.models.catalogue import opened, resolve
from transformer.models.huggingface import HuggingFaceModel
from transformer.models.one_stack.model import OneStack
from transformer.models.one_stack.tracer import StackModel
from transformer.trace.records import Trace
from transformer.trace.tracer import Tracer
from transformer.translator import Translator
from transformer.types import InputError


def control_of(ref: ModelRef, model: Tracer) -> tuple[Tracer, str]:
    """Return the model with its initial random weights, and a description of them.

    A checkpoint that did not store them gets random weights from a fixed seed.
    """
    history = readable_history(ref.folder)
    if history.snapshots and history.snapshots[0].updates == 0 and history.began == "":
        return opened(resolve(ref.after(0)), model.device), "its first random weights"
    return randomised(model), "random weights of the same shape, seed 0"


def randomised(model: Tracer, seed: int = 0) -> Tracer:
    """Return a model of the same shape with random weights and the same edits.

    Raises: `InputError` unless the model is Headlight's or the transformers library's.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        options: dict[str, Any] = {"device": model.device}
        if isinstance(model, Translator):
            options |= {"max_tokens": model.max_tokens, "name": model.name}
            result = Translator.from_module(Transformer(model.config), model.tokenizer, **options)
            return result.edited(*model.edits) if model.edits else result
        if isinstance(model, StackModel):
            return StackModel(OneStack(model.config), model.tokenizer, **options)
        if isinstance(model, HuggingFaceModel):
            return model.randomised()
    raise InputError(f"{model.name}: no random weights; expected a Headlight or transformers model")


class Target(NamedTuple):
    """A greedy translation as token ids, or its first token if it reached the length limit."""

    ids: Sequence[int] | None  # None if the model rejects the sentence
    cut: bool = False


def targets_of(model: Any, texts: Sequence[str]) -> list[Target]:
    """Return greedy translations, or () for models that do not translate."""

    def translated(some: Sequence[str]) -> list[Target]:
        return [Target(one.ids[: None if one.complete else 1] or None,
                       bool(one.ids) and not one.complete)
                for one in model.translate(some, 1)]  # fmt: skip

    alone = isinstance(model, StackModel) and model.config.task == "translate"
    if alone or len(model.kinds) > 1:
        return [target or Target(None) for target in _each(translated, texts)]
    return [Target(())] * len(texts)


def _each(call: Callable[[Sequence[Any]], Sequence[Any]], items: Sequence[Any]) -> list[Any]:
    """Call for all items at once, or one by one to get None for items that the model rejects."""
    try:
        return [*call(items)] if items else []
    except InputError:
        return [result for item in items for result in _each(call, [item])] if items[1:] else [None]


def traces_of(
    model: Tracer, texts: Sequence[str], targets: Sequence[Sequence[int] | None]
) -> list[Trace | None]:
    """Trace texts with their translations; None for texts that the model rejects."""

    def call(pairs: Sequence[tuple[str, Any]]) -> list[Trace]:
        if isinstance(model, Translator):
            sources, ids = zip(*pairs, strict=True)
            return model.traces(sources, top_k=1, targets=map(list, ids))
        return [model.trace(text, [*ids] or None, top_k=1) for text, ids in pairs]  # type: ignore[arg-type]

    pairs = [pair for pair in zip(texts, targets, strict=True) if pair[1] is not None]
    traces = iter(_each(call, pairs))
    return [None if target is None else next(traces) for target in targets]
