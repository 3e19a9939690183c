"""Head importance for predictions, by several measures that often disagree.

    gradient   |dL/dgate|, slope of the loss in a scale of the head's output (Michel et al. 2019)
    removal    log-probability lost per token without the head
    bleu       BLEU lost without the head
    order      place in the order of removal, least harmful head first
    sharpness  largest weight of its queries; not importance, but a comparison

Larger means more important. L is the negative log-probability per token, in nats.

Each measure is also computed on even and on odd sentences. The correlation r of these halves over
all heads gives its reliability, 2 r / (1 + r) (Spearman, Brown): the expected correlation with a
second text of equal length. Reliabilities bound the correlation of two measures.
"""

import itertools
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from transformer.checkpoint.reference import ModelRef
from transformer.hooks import HeadGates, Hook, Record, matching
from transformer.measures.bleu import corpus_bleu
from transformer.measures.heads import rank_correlation
from transformer.model import Transformer
from transformer.models.catalogue import inspect_entry, open_tracer
from transformer.models.one_stack.model import OneStack, mask_id
from transformer.models.one_stack.tracer import StackModel
from transformer.search.request import excluded
from transformer.search.scoring import normalised
from transformer.study.corpus import DEFAULT, NAMES, survey
from transformer.study.links import control_of, targets_of, with_links
from transformer.study.records import Study
from transformer.study.run import study
from transformer.trace.records import Pair
from transformer.trace.removals import heads_of, pruned
from transformer.training.linked import linked_sentences
from transformer.training.typed import has_languages, typed_sentences
from transformer.translator import Translator
from transformer.types import AttentionKind, Bools, Floats, InputError, Reals, Report, no_report

Measure = Literal["gradient", "removal", "bleu", "order", "sharpness"]
MEASURES: tuple[Measure, ...] = get_args(Measure)

#: [L, H] by kind of attention.
ByKind = dict[AttentionKind, Floats]

Model = Translator | StackModel
Network = Transformer | OneStack

#: A fill-in model reads each text 7 times with every 7th token hidden, about the share hidden in
#: training.
_EVERY = 7
#: Maximum log-probabilities in one batch, 32 MB.
_MOST_NUMBERS = 8_000_000
#: Maximum corpus sentences for languages without typed sentences.
MOST_SENTENCES = 200
#: Texts for "order"; its time is proportional.
FOR_ORDER = 25

_REFERENCES = "the first accepted translation of each sentence"


def importance(
    tracer: Model, sentences: Sequence[str], references: Sequence[str] = (), *,
    names: Sequence[Measure] = MEASURES, report: Report = no_report,
) -> Iterator[tuple[Measure, ByKind, float]]:  # fmt: skip
    """Yield measures of head importance, values and reliability.

    Args:
        sentences: a few hundred; blank and overlong sentences are left out.
        references: their translations, required by "bleu"; otherwise the loss is measured on the
            model's own translations.
        names: measures to compute; a one-stack model has no "bleu" or "order".
        report: called with (texts read, texts to read); may raise to stop.

    Raises: `InputError` if the model can read no sentence.
    """
    rows, model = readings(tracer, sentences, references), tracer.model
    texts = [*itertools.chain(*rows)]
    references = [reference for reference, row in zip(references, rows, strict=False) if row]
    second = [at % 2 == 1 for at, row in enumerate(filter(None, rows)) for _ in row]
    parts = [np.ones(len(texts), bool), ~np.array(second), np.array(second)]
    if not any(second):  # a single sentence has no halves
        parts[2] = parts[0]
    banned = () if isinstance(tracer, StackModel) else excluded(tracer.config)
    few = texts[:: max(1, len(texts) // FOR_ORDER)][:FOR_ORDER]
    shapes, n = model.config.head_shapes, len(texts)
    n_heads = len(heads_of(shapes))
    #: By measure: texts to read, and a function that returns values [3, N] of each head on all
    #: texts and each half.
    ways: dict[Measure, tuple[int, Callable[[Callable[[int], None]], Reals]]] = {
        "gradient": (n, lambda done: _means(parts, _slopes(model, texts, banned, done))),
        "removal": (n * n_heads, lambda done: _means(parts, _losses(model, texts, banned, done))),
        "sharpness": (n, lambda done: _means(parts, _sharpness(model, texts, done))),
    }
    if isinstance(tracer, Translator):
        if references:
            ways["bleu"] = (
                n * n_heads,
                lambda done: _bleu_lost(tracer, texts, references, parts, done),
            )
        ways["order"] = 3 * n * n_heads, lambda done: _order(tracer.model, few, banned, n, done)
    measures = [measure for measure in MEASURES if measure in names and measure in ways]
    most, before = sum(ways[measure][0] for measure in measures), 0

    def done(read: int) -> None:
        report(before + read, most)

    for measure in measures:
        work, measured = ways[measure]
        values = measured(done)
        before += work
        flat, by_kind = iter(values[0].astype(np.float32)), ByKind()
        for kind, shape in shapes.items():
            by_kind[kind] = np.fromiter(flat, np.float32, math.prod(shape)).reshape(shape)
        halves = rank_correlation(*values[1:])
        yield measure, by_kind, 2 * halves / (1 + halves) if halves > 0 else 0.0


def _means(parts: Sequence[Bools], sums: tuple[Reals, Reals]) -> Reals:
    """Return sums [texts, N] / counts [texts, 1 or N] over each part of the texts, [parts, N]."""
    return np.stack([sums[0][part].sum(0) / sums[1][part].sum(0) for part in parts])


def whole_study(
    ref: ModelRef, corpus: Path | None, report: Report, out: Path | None = None, *,
    device: str = "cpu", **options: Any,
) -> Path:  # fmt: skip
    """Study a model over a corpus, measure head importance, and return the folder.

    A translator of English, German or French also has the roles of `transformer.study.links`.

    Importance is measured on the typed sentences in English, German and French, and in other
    languages on sentences of the corpus. Measures already stored are not computed again. Training
    snapshots and models without gates have none.

    Args: options: arguments of `transformer.study.run.study`.
    """
    # oneDNN caches a kernel for each of 1,024 shapes, and a corpus has many shapes.
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(name, "32")
    sentences, references = _typed(inspect_entry(ref).metrics)
    with tempfile.TemporaryDirectory() as temporary:
        if sentences and options.get("second") is None:
            options["second"] = Path(temporary) / "typed_sentences.txt"
            options["second"].write_text("".join(f"{text}\n" for text in sentences), "utf-8")
        folder = study(ref, corpus, out, device=device, progress=report, **options)
    result, tracer = Study.load(folder), open_tracer(ref, device)
    if ref.updates is not None or not isinstance(tracer, Translator | StackModel):
        return folder
    codes = _codes(inspect_entry(ref).metrics)
    if isinstance(tracer, Translator) and has_languages(*codes) and not result.role("translates"):
        control, _ = control_of(ref, tracer)
        assert isinstance(control, Translator)
        result = with_links(result, tracer, control, linked_sentences(*codes), report)
        result.save(folder)
    about: dict[str, Any] = {"text": "typed sentences" if references else "sentences of the corpus"}
    if not sentences:
        n = min(options.get("sentences") or MOST_SENTENCES, MOST_SENTENCES)
        sentences = [sentence.text for sentence in survey(corpus or DEFAULT, n)]
    about["sentences"], translates = len(sentences), getattr(tracer.config, "task", "translate")
    if translates == "translate":
        about["translations"] = _REFERENCES if references else "the model's own, decoded greedily"
    names = [measure for measure in MEASURES if measure not in result.importance]
    for measure, grids, reliability in importance(
        tracer, sentences, references, names=names, report=report
    ):
        notes = result.notes.get("importance", {})
        about |= {measure: NAMES["notes"][measure].format(most=FOR_ORDER)}
        about["reliability"] = {**notes.get("reliability", {}), measure: round(reliability, 3)}
        result = replace(
            result, importance={**result.importance, measure: grids},
            notes={**result.notes, "importance": {**notes, **about}},
        )  # fmt: skip
        result.save(folder)
    return folder


def _codes(metrics: Mapping[str, Any]) -> tuple[str, str]:
    """Return a translator's languages, or "" for both."""
    match metrics:
        case {"training": {"recipe": {"data": {"src": str(src), "tgt": str(tgt)}}}}:
            return src, tgt
    return "", ""


def _typed(metrics: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return typed sentences in a translator's languages and their translations, or empty lists."""
    src, tgt = _codes(metrics)
    if not has_languages(src, tgt):
        return [], []
    typed = typed_sentences(src, tgt)
    return [line.source for line in typed], [line.accepted[0] for line in typed]


def readings(
    tracer: Model, sentences: Sequence[str], targets: Sequence[str] = ()
) -> list[list[Pair]]:
    """Return the predictions to score in each sentence; [] if the model cannot read it.

    A translator predicts `targets`, by default its greedy translations; a language model, each next
    token; a fill-in model, hidden tokens.

    Raises: `InputError` if the model can read no sentence.
    """
    pairs: list[list[Pair]] = [[] for _ in sentences]
    own = (None if target.cut else target.ids for target in targets_of(tracer, sentences))
    for row, target in enumerate(targets or own):
        with suppress(InputError):  # a translation may be blank
            if target is None:
                continue
            if isinstance(tracer, Translator):
                pairs[row].append(tracer.pair(sentences[row], target))
            else:
                pairs[row] += _of_one_stack(tracer, sentences[row], target)
    if not any(pairs):
        raise InputError("the model cannot read any of these sentences")
    return pairs


def _of_one_stack(tracer: StackModel, sentence: str, target: Any) -> Iterator[Pair]:
    task, pad, bos = tracer.config.task, tracer.config.pad_id, tracer.config.blocks.bos_id
    trace = tracer.trace(sentence, target if task == "translate" else None, top_k=1)
    if task != "fill":
        # A language model's last prediction has no target, and a source is not predicted.
        right, start = (*trace.tgt_ids[1:], pad), 0
        if task == "translate":
            right, start = trace.predicted_ids, trace.tgt_ids.index(bos)
        yield Pair((), trace.tgt_ids, (pad,) * start + right[start:])
        return
    hidden, ids = mask_id(tracer.tokenizer), trace.src_ids
    for first in range(1, min(_EVERY, len(ids) - 2) + 1):
        places = range(first, len(ids) - 1, _EVERY)
        yield Pair(
            (), tuple(hidden if place in places else token for place, token in enumerate(ids)),
            tuple(token if place in places else pad for place, token in enumerate(ids)),
        )  # fmt: skip


def _slopes(
    model: Network, texts: Sequence[Pair], banned: Sequence[int], done: Callable[[int], None]
) -> tuple[Reals, Reals]:
    """Return |dL/dgate| [texts, N], and counts of 1."""
    shapes, rows = model.config.head_shapes, list[Reals]()
    for read, text in enumerate(texts, 1):
        gates = {kind: torch.ones(shape, requires_grad=True) for kind, shape in shapes.items()}
        with torch.enable_grad():
            logs = predicted(model, text, HeadGates(**gates), excluded=banned)
            slopes = torch.autograd.grad(-logs.sum() / _count(model, text), [*gates.values()])
        rows.append(torch.cat([slope.abs().flatten() for slope in slopes]).double().numpy())
        done(read)
    return np.stack(rows), np.ones((len(texts), 1))


def _losses(
    model: Network, texts: Sequence[Pair], banned: Sequence[int], done: Callable[[int], None]
) -> tuple[Reals, Reals]:
    """Return the log-probability lost without each head in nats [texts, N], and token counts."""
    shapes, n = model.config.head_shapes, len(heads_of(model.config.head_shapes))
    parts = torch.split(1 - torch.eye(n), [*map(math.prod, shapes.values())], 1)
    without = dict(zip(shapes, parts, strict=True))  # row n lacks head n
    sums = np.zeros((len(texts), n))
    for read, text in enumerate(texts):
        n_numbers = len(text.tgt_ids) * len(model.generator.weight)
        size = max(1, min(64, _MOST_NUMBERS // n_numbers))
        with torch.inference_mode():
            before = float(predicted(model, text, excluded=banned).sum())
            for start in range(0, n, size):
                rows = range(start, min(start + size, n))
                hooks = HeadGates(**{
                    kind: without[kind][rows].view(-1, *shape).transpose(0, 1)
                    for kind, shape in shapes.items()
                })  # fmt: skip
                log_probs = predicted(model, text, hooks, n_rows=len(rows), excluded=banned)
                sums[read, rows] = before - log_probs.sum(1).numpy(force=True)
                done(read * n + rows.stop)
    return sums, np.array([[_count(model, text)] for text in texts])


def _bleu_lost(
    translator: Translator, texts: Sequence[Pair], references: Sequence[str],
    parts: Sequence[Bools], done: Callable[[int], None],
) -> Reals:  # fmt: skip
    """Return the BLEU [parts, N] lost without each head, decoding greedily."""
    sources, scores = [text.src_ids for text in texts], list[list[float]]()
    # One model at a time, since each has its own weights, prepared for the fast decoder.
    edited = (translator.edited(head.off) for head in heads_of(translator.config.head_shapes))
    for number, model in enumerate(itertools.chain([translator], edited)):
        hypotheses = [translation.text for translation in model.translate(
            sources, 1, progress=lambda *_, at=number: done(at * len(texts))
        )]  # fmt: skip
        scores.append(
            [
                corpus_bleu(
                    *([*itertools.compress(some, part)] for some in (hypotheses, references))
                )
                for part in parts
            ]
        )
    lost: Reals = (np.array(scores[:1]) - np.array(scores[1:])).T
    return lost


def _order(
    model: Transformer, texts: Sequence[Pair], banned: Sequence[int], n_read: int,
    done: Callable[[int], None],
) -> Reals:  # fmt: skip
    """Return each head's 1-based place in the order of removal, [3, N]: all texts, then halves.

    Args: n_read: number of texts to report for each head.
    """
    heads, orders = heads_of(model.config.head_shapes), list[list[int]]()

    def progress(out: int, _: int) -> None:
        done((len(orders) * len(heads) + out) * n_read)

    for some in (texts, texts[::2], texts[1::2] or texts):
        order = pruned(model, some, excluded=banned, progress=progress)
        places = {step.head: place for place, step in enumerate(order, 1)}
        orders.append([places[head] for head in heads])
    return np.array(orders, float)


def _sharpness(
    model: Network, texts: Sequence[Pair], done: Callable[[int], None]
) -> tuple[Reals, Reals]:
    """Return largest weights summed over queries [texts, N], and query counts [texts, N]."""
    sums, counts = list[Reals](), list[Reals]()
    for read, text in enumerate(texts, 1):
        record = Record(matching(name="weights"))
        with torch.inference_mode():
            predicted(model, text, record)
        maps = [record.layers(kind)[:, 0] for kind in model.config.head_shapes]  # [L, H, n, m]
        largest = [weights.amax(-1).sum(-1).double().numpy(force=True) for weights in maps]
        sums.append(np.concatenate([values.ravel() for values in largest]))
        sizes = [np.full(weights.shape[:2], weights.size(-2)).ravel() for weights in maps]
        counts.append(np.concatenate(sizes))
        done(read)
    return np.stack(sums), np.stack(counts)


def predicted(
    model: Network, text: Pair, hooks: Hook | None = None, *, n_rows: int = 1,
    excluded: Sequence[int] = (),
) -> Tensor:  # fmt: skip
    """Return the log-probability of each predicted token in nats, [n_rows, T], or 0 for padding.

    Args: n_rows: copies of the text in the batch, for hooks that edit each copy differently.
    """
    device = model.generator.weight.device

    def rows(ids: Sequence[int]) -> Tensor:
        return torch.tensor(list(ids), dtype=torch.long, device=device).expand(n_rows, -1)

    logits = model(rows(text.src_ids), rows(text.tgt_ids), hooks=hooks)  # [R, T, V]
    right = rows(text.predicted_ids)
    log_probs = normalised(logits.flatten(0, 1), excluded).gather(1, right.reshape(-1, 1))
    return log_probs.view_as(right).masked_fill(right == model.config.pad_id, 0)


def _count(model: Network, text: Pair) -> int:
    return sum(token != model.config.pad_id for token in text.predicted_ids)
