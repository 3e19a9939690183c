"""The importance of each head to what a model predicts, by several measures that often disagree.

    gradient   |dL/dgate|, the slope of the loss when a head's output is scaled (Michel et al. 2019)
    removal    the loss of log-probability when it alone is taken out, per token
    bleu       the loss of BLEU when it alone is taken out
    order      its place when heads are taken out one after the other, least harmful first
    sharpness  the largest weight of its queries, which says nothing of importance: a comparison

Larger always means more important. L is the negative log-probability per token, in nats.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transformer.catalogue import inspect_entry, open_tracer
from transformer.checkpoint.reference import ModelRef
from transformer.errors import InputError
from transformer.evaluation.typed import has_languages, typed_sentences
from transformer.hooks import HeadGates, Hook, Record, matching
from transformer.measures.heads import rank_correlation
from transformer.model import Transformer
from transformer.one_stack.files import mask_id
from transformer.one_stack.model import OneStack
from transformer.one_stack.tracer import StackModel
from transformer.search.request import excluded
from transformer.search.scoring import normalised
from transformer.study.records import Study
from transformer.study.run import study
from transformer.trace.records import Pair, Trace
from transformer.trace.removals import Head, pruned
from transformer.translator import Translator
from transformer.types import AttentionKind, Floats, Report

Measure = Literal["gradient", "removal", "bleu", "order", "sharpness"]
MEASURES: tuple[Measure, ...] = get_args(Measure)

#: [L, H] by kind of attention.
ByKind = dict[AttentionKind, Floats]
_Values = dict[AttentionKind, NDArray[np.float64]]

Model = Translator | StackModel
Network = Transformer | OneStack

#: BLEU of translations and their references, as from `transformer.evaluation.scores`.
Bleu = Callable[[Sequence[str], Sequence[str]], float]

#: A model that fills in reads each text so many times, with every such token hidden: a token of
#: seven, about the share that its training hides.
_EVERY = 7

#: Numbers that the log-probabilities of one batch hold at most: 32 MB.
_MOST_NUMBERS = 8_000_000

#: Sentences of a study of other languages than the typed sentences.
MOST_SENTENCES = 200

#: Texts on which heads are taken out one after the other, and heads tried in a round, about.
FOR_ORDER, _TRIED = 50, 10


def importance(
    tracer: Model,
    sentences: Sequence[str],
    references: Sequence[str] = (),
    *,
    wanted: Sequence[Measure] = MEASURES,
    bleu: Bleu | None = None,
    report: Report | None = None,
) -> Iterator[tuple[Measure, ByKind]]:
    """Measure the heads of a model, one measure after the other.

    Args:
        sentences: some hundred; blank ones and those that are too long are left out.
        references: their translations, which "bleu" needs; without them the loss is that of the
            model's own translations.
        wanted: those that a stopped call has not yielded. A model of one stack has neither "bleu"
            nor "order"; "bleu" also needs references and the argument `bleu`.
        report: called with (texts read, texts to read); may raise to stop.

    Raises: `InputError` if the model can read none of the sentences.
    """
    kept = [row for row, each in enumerate(sentences) if _fits(tracer, each)]
    sentences = [sentences[row] for row in kept]
    references = [references[row] for row in kept] if references else ()
    measures = [
        each for each in MEASURES
        if each in wanted
        and (each != "order" or isinstance(tracer, Translator))
        and (each != "bleu" or (isinstance(tracer, Translator) and bleu and references))
    ]  # fmt: skip
    texts, model = readings(tracer, sentences, references), tracer.model
    few = texts[:: max(1, len(texts) // FOR_ORDER)][:FOR_ORDER]
    n, n_heads = len(texts), len(heads_of(model))
    work: dict[Measure, int] = {
        "gradient": n, "removal": n * n_heads, "bleu": len(sentences) * n_heads,
        "order": len(few) * n_heads * _TRIED, "sharpness": n,
    }  # fmt: skip
    most, before = sum(work[each] for each in measures), 0
    banned = () if isinstance(tracer, StackModel) else excluded(tracer.config)

    def done(read: int) -> None:
        if report is not None:
            report(before + read, most)

    def lost(done: Callable[[int], None]) -> _Values:
        assert isinstance(tracer, Translator) and bleu is not None
        return _bleu_lost(tracer, sentences, references, bleu, done)

    def order(done: Callable[[int], None]) -> _Values:
        assert isinstance(model, Transformer)
        return _order(model, few, banned, lambda out: done(out * len(few) * _TRIED))

    ways: dict[Measure, Callable[[Callable[[int], None]], _Values]] = {
        "gradient": partial(_slopes, model, texts, banned),
        "removal": partial(_losses, model, texts, banned), "bleu": lost, "order": order,
        "sharpness": partial(_sharpness, model, texts),
    }  # fmt: skip
    for measure in measures:
        found = ways[measure](done)
        before += work[measure]
        yield measure, {kind: each.astype(np.float32) for kind, each in found.items()}


def add_importance(
    folder: Path,
    ref: ModelRef,
    *,
    bleu: Bleu | None = None,
    device: str = "cpu",
    report: Report | None = None,
) -> None:
    """Measure the importance of heads and add it to the study in a folder, measure by measure.

    A model of English, German and French reads the typed sentences; another one those that the
    study keeps. Measures that the study has are not made again.

    Raises: `CheckpointError`, `InputError`, `OSError`; a model without gates is left as it is.
    """
    tracer, made = open_tracer(ref, device), Study.load(folder)
    if not isinstance(tracer, Translator | StackModel):
        return
    sentences, references = _typed(inspect_entry(ref).metrics)
    if not sentences:
        step = max(1, len(made.sentences) // MOST_SENTENCES)
        sentences = [each.text for each in made.sentences[::step]][:MOST_SENTENCES]
    wanted = [each for each in MEASURES if each not in made.importance]
    text = "typed sentences" if references else "sentences of the corpus"
    about = {"sentences": len(sentences), "text": text}
    for measure, found in importance(
        tracer, sentences, references, wanted=wanted, bleu=bleu, report=report
    ):
        made = replace(
            made, importance={**made.importance, measure: found},
            notes={**made.notes, "importance": about},
        )  # fmt: skip
        made.save(folder)


def whole_study(ref: ModelRef, corpus: Path, report: Report) -> Path:
    """Study a model over a corpus and measure importance; return the folder. See `study`."""
    folder = study(ref, corpus, progress=report)
    add_importance(folder, ref, report=report)
    return folder


def _typed(metrics: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the typed sentences in a translator's languages, and their translations."""
    match metrics:
        case {"training": {"recipe": {"data": {"src": str(src), "tgt": str(tgt)}}}}:
            if has_languages(src, tgt):
                found = typed_sentences(src, tgt)
                return [each.source for each in found], [each.accepted[0] for each in found]
    return [], []


def agreement(measures: Mapping[str, ByKind]) -> dict[tuple[str, str], float]:
    """Return Spearman's rank correlation of each two measures over all heads; NaN if undefined."""
    joined = {
        name: np.concatenate([each.ravel() for each in found.values()])
        for name, found in measures.items()
    }
    return {
        (one, other): rank_correlation(joined[one], joined[other])
        for one, other in itertools.combinations(joined, 2)
    }


def head_shapes(model: Network) -> dict[AttentionKind, tuple[int, int]]:
    """Return the layers and heads of each kind of attention of a model."""
    if isinstance(model, OneStack):
        return {model.config.kind: (model.config.n_layers, model.config.blocks.n_heads)}
    config = model.config
    decoder = config.n_decoder_layers, config.decoder_heads
    encoder = config.n_encoder_layers, config.n_heads
    return {"encoder_self": encoder, "decoder_self": decoder, "cross": decoder}


def heads_of(model: Network) -> tuple[Head, ...]:
    """Return all heads of a model, by kind, layer and number."""
    return tuple(
        Head(kind, layer, head)
        for kind, (n_layers, n_heads) in head_shapes(model).items()
        for layer in range(n_layers)
        for head in range(n_heads)
    )


def readings(tracer: Model, sentences: Sequence[str], targets: Sequence[str] = ()) -> list[Pair]:
    """Return texts as a model predicts them.

    A translator predicts `targets`, by default its own translations, found greedily; a model that
    continues, each token from those before; one that fills in, hidden tokens from the others.

    Raises: `InputError` if there is none.
    """
    task = getattr(tracer.config, "task", "translate")
    if task == "translate" and not targets:
        targets = [each.text for each in tracer.translate(sentences, 1)]
    found: list[Pair] = []
    for row, sentence in enumerate(sentences):
        with suppress(InputError):  # a translation may be blank
            target = targets[row] if task == "translate" else None
            trace = tracer.trace(sentence, target, top_k=1)
            if isinstance(tracer, Translator):
                found.append(Pair(trace.src_ids, trace.tgt_ids, trace.predicted_ids))
            else:
                found += _of_one_stack(tracer, trace)
    if not found:
        raise InputError("the model can read none of these sentences")
    return found


def _of_one_stack(tracer: StackModel, trace: Trace) -> Iterator[Pair]:
    pad, bos = tracer.config.pad_id, tracer.config.blocks.bos_id
    if tracer.config.task != "fill":
        # The last prediction of a model that continues is its own; a source is not predicted.
        right, start = (*trace.tgt_ids[1:], pad), 0
        if tracer.config.task == "translate":
            right, start = trace.predicted_ids, trace.tgt_ids.index(bos)
        yield Pair((), trace.tgt_ids, (pad,) * start + right[start:])
        return
    hidden, ids = mask_id(tracer.tokenizer), trace.src_ids
    for first in range(1, min(_EVERY, len(ids) - 2) + 1):
        places = range(first, len(ids) - 1, _EVERY)
        yield Pair(
            (), tuple(hidden if place in places else each for place, each in enumerate(ids)),
            tuple(each if place in places else pad for place, each in enumerate(ids)),
        )  # fmt: skip


def _fits(tracer: Model, sentence: str) -> bool:
    try:
        return bool(tracer.tokenize(sentence).ids)
    except InputError:
        return False


def _slopes(
    model: Network, texts: Sequence[Pair], banned: Sequence[int], done: Callable[[int], None]
) -> _Values:
    """Return |dL/dgate|, mean over texts."""
    shapes = head_shapes(model)
    sums = {kind: torch.zeros(shape, dtype=torch.float64) for kind, shape in shapes.items()}
    for read, text in enumerate(texts, 1):
        gates = {kind: torch.ones(shape, requires_grad=True) for kind, shape in shapes.items()}
        with torch.enable_grad():
            found = predicted(model, text, HeadGates(**gates), excluded=banned)
            slopes = torch.autograd.grad(-found.sum() / _count(model, text), list(gates.values()))
        for kind, slope in zip(gates, slopes, strict=True):
            sums[kind] += slope.abs()
        done(read)
    return {kind: (each / len(texts)).numpy() for kind, each in sums.items()}


def _losses(
    model: Network, texts: Sequence[Pair], banned: Sequence[int], done: Callable[[int], None]
) -> _Values:
    """Return the log-probability lost without each head, in nats per token."""
    heads, sums, count = heads_of(model), _zeros(model), 0
    for read, text in enumerate(texts):
        each = len(text.tgt_ids) * len(model.generator.weight)
        size = max(1, min(64, _MOST_NUMBERS // each))
        with torch.inference_mode():
            before = float(predicted(model, text, excluded=banned).sum())
            for start in range(0, len(heads), size):
                some = heads[start : start + size]
                gates = {
                    kind: torch.ones(n_layers, len(some), n_heads)
                    for kind, (n_layers, n_heads) in head_shapes(model).items()
                }
                for row, (kind, layer, head) in enumerate(some):
                    gates[kind][layer, row, head] = 0
                hooks = HeadGates(**gates)
                found = predicted(model, text, hooks, n_rows=len(some), excluded=banned)
                for (kind, layer, head), after in zip(some, found.sum(1).tolist(), strict=True):
                    sums[kind][layer, head] += before - after
                done(read * len(heads) + start + len(some))
        count += _count(model, text)
    return {kind: each / count for kind, each in sums.items()}


def _bleu_lost(
    translator: Translator, sentences: Sequence[str], references: Sequence[str],
    bleu: Bleu, done: Callable[[int], None],
) -> _Values:  # fmt: skip
    """Return the BLEU lost without each head, decoding greedily."""

    def reached(model: Translator, before: int = 0) -> float:
        found = model.translate(
            sentences, 1, on_translated=lambda translated, _: done(before + translated)
        )
        return bleu([each.text for each in found], references)

    whole, found = reached(translator), _zeros(translator.model)
    for number, head in enumerate(heads_of(translator.model)):
        lost = whole - reached(translator.edited(head.off), number * len(sentences))
        found[head.kind][head.layer, head.head] = lost
    return found


def _order(
    model: Transformer, texts: Sequence[Pair], banned: Sequence[int], done: Callable[[int], None]
) -> _Values:
    """Return the place of each head, from 1, when the least harmful one is taken out each time.

    Args: done: called with the number of heads that are out.
    """
    found = _zeros(model)
    order = pruned(model, texts, excluded=banned, progress=lambda out, _: done(out))
    for place, step in enumerate(order, 1):
        found[step.head.kind][step.head.layer, step.head.head] = place
    return found


def _sharpness(model: Network, texts: Sequence[Pair], done: Callable[[int], None]) -> _Values:
    """Return the largest weight of a query, mean over the queries of all texts."""
    sums, counts = _zeros(model), Counter[AttentionKind]()
    for read, text in enumerate(texts, 1):
        record = Record(matching(name="weights"))
        with torch.inference_mode():
            predicted(model, text, record)
        for kind, each in sums.items():
            weights = record.layers(kind)[:, 0]  # [L, H, n, m]
            each += weights.amax(-1).sum(-1).cpu().numpy()
            counts[kind] += weights.size(-2)
        done(read)
    return {kind: each / counts[kind] for kind, each in sums.items()}


def predicted(
    model: Network,
    text: Pair,
    hooks: Hook | None = None,
    *,
    n_rows: int = 1,
    excluded: Sequence[int] = (),
) -> Tensor:
    """Return the log-probability of each predicted token, in nats; 0 where none counts.

    Args: n_rows: copies of the text in the batch, for hooks that treat each in another way.

    Returns: [n_rows, T].
    """
    device = model.generator.weight.device

    def rows(ids: Sequence[int]) -> Tensor:
        return torch.tensor(list(ids), dtype=torch.long, device=device).expand(n_rows, -1)

    logits = model(rows(text.src_ids), rows(text.tgt_ids), hooks=hooks)  # [R, T, V]
    right = rows(text.predicted_ids)
    found = normalised(logits.flatten(0, 1), excluded).gather(1, right.reshape(-1, 1))
    return found.view_as(right).masked_fill(right == model.config.pad_id, 0)


def _zeros(model: Network) -> _Values:
    return {kind: np.zeros(shape) for kind, shape in head_shapes(model).items()}


def _count(model: Network, text: Pair) -> int:
    """Return the number of tokens that are predicted."""
    return sum(each != model.config.pad_id for each in text.predicted_ids)
