"""Roles of cross-attention heads by known word links, and the reading of corpus sentences.

Text: 240 sentences of the training text with known links (`transformer.training.linked`). The
model follows the given translation; each linked target word is a trial, a hit has its largest
weight on a word that it may be linked to. A head must beat the diagonal (as the distance), the most
frequent link (as the word: the source word that a target word has most often in the other half of
the documents), the word with the head's largest weight from all other words, and random weights.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from transformer.checkpoint.reference import ModelRef
from transformer.checkpoint.snapshots import readable_history
from transformer.measures.pharaoh import Linked
from transformer.measures.words import Row, diagonal, words_of
from transformer.model import Transformer
from transformer.models.catalogue import opened, resolve
from transformer.models.huggingface import HuggingFaceModel
from transformer.models.one_stack.model import OneStack
from transformer.models.one_stack.tracer import StackModel
from transformer.study import statistics
from transformer.study.records import Role, Study
from transformer.study.roles import MAX_OFFSET, Tally, Words, looks
from transformer.trace.records import Trace
from transformer.trace.tracer import Tracer
from transformer.translator import Translator
from transformer.types import InputError, Report, no_report


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
    """A greedy translation as token ids, or only its first token if it reached the length limit."""

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


ROLES: dict[Row, Role] = {
    "predicting": Role("translates", "the word it translates", "links"),
    "reading": Role("translated", "the word just translated", "links"),
}
#: Sentences in a batch.
_BATCH = 16


def tally_of(
    model: Translator, control: Translator, linked: Sequence[Linked], report: Report = no_report
) -> Tally:
    """Return trials and hits of all cross-attention heads; every sentence is a document."""
    n_layers, n_heads = model.config.n_decoder_layers, model.config.n_heads
    tally = Tally.empty(len(linked), len(ROLES), n_layers * n_heads)
    halves = _frequent(linked[1::2]), _frequent(linked[::2])  # of the other documents
    for start in range(0, len(linked), _BATCH):
        report(start, len(linked))
        some = linked[start : start + _BATCH]
        texts = [pair.source for pair in some], [pair.target for pair in some]
        traces = zip(*(
            one.traces(texts[0], targets=texts[1], top_k=1) for one in (model, control)
        ), strict=True)  # fmt: skip
        for document, (pair, both) in enumerate(zip(some, traces, strict=True), start):
            for number, row in enumerate(ROLES):
                found = words_of(both[0], row)
                sources, targets = found.sources, found.targets
                words = Words(targets, sources, found.rows, found.columns, of_corpus=False)
                (keys, blind), (random, _) = (
                    looks(trace.cross.reshape(-1, *trace.cross.shape[2:]), words, "cross")[:2]
                    for trace in both
                )
                guess = {to: place for place, to in diagonal(len(targets), len(sources))}
                right: dict[int, list[int]] = defaultdict(list)
                for place, to in pair.gold.possible:
                    right[to].append(place)
                for to, places in right.items():
                    at = (document, number)
                    tally.pairs[at] += 1
                    for hits, looked in (
                        (tally.hits, keys), (tally.blind, blind), (tally.random, random)
                    ):  # fmt: skip
                        hits[at] += np.isin(looked[:, to], places)
                    tally.offsets[(*at, MAX_OFFSET)] += guess[to] in places
                    form = halves[document % 2].get(targets[to].casefold())
                    known = any(sources[place].casefold() == form for place in places)
                    tally.words[(*at, "most frequent link")] += known
    return tally


def _frequent(linked: Sequence[Linked]) -> dict[str, str]:
    """Return the source word that each target word is linked to most often."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for pair in linked:
        sources, targets = pair.source.casefold().split(), pair.target.casefold().split()
        for at, to in sorted(pair.gold.possible):
            counts[targets[to]][sources[at]] += 1
    return {target: count.most_common(1)[0][0] for target, count in counts.items()}


def with_links(
    study: Study, model: Translator, control: Translator, linked: Sequence[Linked],
    report: Report = no_report,
) -> Study:  # fmt: skip
    """Return a study with the roles of `ROLES`; Holm's correction is over them alone."""
    judged = statistics.judged([*ROLES.values()], [tally_of(model, control, linked, report)], None)
    cross = np.array([head.kind == "cross" for head in study.heads])
    scores = {name: _appended(name, row, judged, cross) for name, row in study.scores.items()}
    notes = {**study.notes, "links": f"{len(linked)} sentences of the training text"}
    return replace(study, roles=(*study.roles, *ROLES.values()), scores=scores, notes=notes)


def _appended(name: str, old: Any, judged: Mapping[str, Any], cross: Any) -> Any:
    new = np.full((len(ROLES), len(cross)), np.nan if old.dtype.kind == "f" else 0, old.dtype)
    new[:, cross] = judged[name]
    return np.concatenate([old, new])
