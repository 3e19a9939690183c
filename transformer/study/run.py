"""Run a study: a model reads a corpus, once with its weights and once with random ones.

The corpus is read in parts of 64 sentences. Each part is written when it is done, beside the
study's folder, so that a run that was stopped or killed goes on with the next part and ends with
the same files. Memory holds one part, and one more array that is as long as the corpus where the
examples of a large one are put together, which lies in a file.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from transformer.checkpoint.reference import ModelRef
from transformer.checkpoint.snapshots import readable_history
from transformer.checkpoint.weights import weights_digest
from transformer.errors import InputError
from transformer.files.atomic import write_atomic
from transformer.files.npz import Arrays
from transformer.measures import significance
from transformer.model import Transformer
from transformer.models.catalogue import open_tracer, opened, resolve
from transformer.models.huggingface import HuggingFaceModel
from transformer.models.one_stack.model import OneStack
from transformer.models.one_stack.tracer import StackModel
from transformer.study import statistics
from transformer.study.corpus import DEFAULT, Corpus, Sentence, is_taken, survey
from transformer.study.records import (
    FOLDER,
    SCHEMA,
    Looks,
    Role,
    Study,
    about,
    cache_folder,
    packed,
    studies_of,
)
from transformer.study.roles import (
    Tally,
    annotated,
    looks,
    rarest,
    roles_of,
    text_hits,
    words_of,
)
from transformer.trace.records import Trace
from transformer.trace.removals import heads_of
from transformer.trace.tracer import Tracer
from transformer.translator import Translator
from transformer.types import AttentionKind, Report

#: Sentences in a part, those traced at once, and the most documents that are told apart: of more,
#: neighbours count as one.
PART, BATCH, MAX_DOCUMENTS = 64, 8, 500
#: Highest p after Holm's correction of a role that is named.
ALPHA = 0.05


def study(
    path: str | Path | ModelRef,
    corpus: Path | None = None,
    out: Path | None = None,
    *,
    sentences: int | None = None,
    examples: int | None = None,
    device: str = "cpu",
    progress: Report | None = None,
) -> Path:
    """Study a model, or go on with a study that was stopped.

    Args:
        path: a model of any kind that reads sentences, a moment of training, or an edited one.
        corpus: see `transformer.study.corpus`; None is GUM in data/gum.
        out: folder of the study; None is one beside the checkpoint, or in the cache folder if that
            is read-only.
        sentences: read so many only, evenly over the corpus.
        examples: keep so many sentences, evenly over the corpus; None keeps all.
        progress: called with (sentences done, sentences in all); may raise to stop.

    Returns: the folder. A study with these settings that is there already is not made again.

    Raises: `DataError` for the corpus, `CheckpointError` or `InputError` for the model, `OSError`.
    """
    ref, found = resolve(path), survey(corpus or DEFAULT, sentences)
    weights = weights_digest(ref.folder)
    settings = {
        "schema": SCHEMA, "checkpoint": ref.name, "weights": weights,
        "edits": ref.edits, "corpus": found.digest, "examples": examples,
    }  # fmt: skip
    key = hashlib.sha256(json.dumps(settings).encode()).hexdigest()
    for place in studies_of(ref) if out is None else [out]:
        if about(place).get("key") == key:
            return place
    out = out or _place(ref, f"{found.name}-{key[:8]}")
    # Of these settings alone: another run may be writing another study to the same place.
    parts = out.with_name(f"{out.name}.{key[:8]}.parts")
    parts.mkdir(parents=True, exist_ok=True)
    model = open_tracer(ref, device)
    if lacking := model.lacks("any_sentence"):
        raise InputError(f"{ref}: {lacking}")
    control, said = control_of(ref, model)
    reading = _Reading(model, control, found, examples)
    remaining = iter(found)
    for number in range(-(-found.n_sentences // PART)):
        some = [*islice(remaining, PART)]
        if progress is not None:
            progress(number * PART, found.n_sentences)
        file = parts / f"{number:06}.npz"
        if not file.exists():
            write_atomic(file, packed(reading.part(number * PART, some)))
            if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
                trim(0)  # sentences of all lengths leave gaps that the C library would keep
    made = Study(
        checkpoint=ref.name, weights=weights, edits=ref.edits, corpus=found.name,
        corpus_digest=found.digest, source=found.source, n_sentences=found.n_sentences,
        n_words=found.n_words, n_documents=len(found.documents), control=said, key=key,
        roles=reading.roles, heads=reading.heads, **_gather(reading, parts),
    )  # fmt: skip
    made.save(out)
    shutil.rmtree(parts, ignore_errors=True)
    if progress is not None:
        progress(found.n_sentences, found.n_sentences)
    return out


def _place(ref: ModelRef, name: str) -> Path:
    beside = ref.folder / FOLDER
    if os.access(beside if beside.exists() else ref.folder, os.W_OK):
        return beside / (name if ref.updates is None else f"{name}@{ref.updates}")
    return cache_folder() / f"{ref.name}-{name}"


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


class _Reading:
    def __init__(
        self, model: Tracer, control: Tracer, corpus: Corpus, examples: int | None
    ) -> None:
        self.model, self.control, self.corpus = model, control, corpus
        self.roles: tuple[Role, ...] = roles_of(corpus)
        self._numbers = {role.name: number for number, role in enumerate(self.roles)}
        probe = model.trace("a", None, 1, top_k=1)
        self.kinds = model.kinds
        self.shapes = {kind: probe.attention(kind).shape[:2] for kind in self.kinds}
        self.heads = heads_of(self.shapes)
        n = corpus.n_sentences
        self._examples = n if examples is None else min(examples, n)
        self.n_groups = min(MAX_DOCUMENTS, len(corpus.documents))

    def group(self, sentence: Sentence) -> int:
        """Return the number of a sentence's document, or of the group it is in."""
        documents = self.corpus.documents
        return documents[sentence.document] * self.n_groups // len(documents)

    def part(self, start: int, sentences: Sequence[Sentence]) -> Arrays:
        """Read sentences from number `start` on, and return what they give as arrays."""
        groups = [self.group(sentence) for sentence in sentences]
        first = min(groups)
        tallies = {
            kind: Tally.empty(max(groups) - first + 1, len(self.roles), layers * heads)
            for kind, (layers, heads) in self.shapes.items()
        }
        skipped, kept = 0, list[Sentence]()
        seen: dict[AttentionKind, list[tuple[Any, ...]]] = {kind: [] for kind in self.kinds}
        for number, (sentence, trace, other) in enumerate(self._traced(sentences), start):
            if not trace or not other or 0 < len(trace.tgt_tokens) == len(trace.tgt_special):
                skipped += 1
                continue
            keep = is_taken(number, self._examples, self.corpus.n_sentences)
            target: tuple[str, ...] = ()
            for kind, tally in tallies.items():
                group = self.group(sentence) - first
                queries, *found = self._add(tally, group, sentence, kind, trace, other)
                if keep:
                    seen[kind].append(tuple(found))
                if kind == "decoder_self" and trace.src_tokens:
                    target = queries
            if keep:
                kept.append(replace(sentence, target=target))
        shared = {"first": first, "skipped": skipped, "kept": [each.__dict__ for each in kept]}
        arrays: Arrays = {"shared": np.array(json.dumps(shared))}
        for kind, tally in tallies.items():
            for name in ("hits", "pairs", "random", "blind", "offsets"):
                arrays[f"{kind}.{name}"] = getattr(tally, name)
            arrays[f"{kind}.words"] = np.array(json.dumps(tally.words))
            for name, column in zip(("keys", "weights", "own"), zip(*seen[kind], strict=True),
                                    strict=False):  # fmt: skip
                arrays[f"{kind}.{name}"] = np.concatenate(column, axis=1)
        return arrays

    def _add(
        self,
        tally: Tally,
        group: int,
        sentence: Sentence,
        kind: AttentionKind,
        trace: Trace,
        other: Trace,
    ) -> tuple[Any, ...]:
        """Count one sentence; return its query words and what is kept of each head's looks."""
        words, causal = words_of(sentence, trace, kind), kind == "decoder_self"
        special = (
            trace.src_special if kind == "encoder_self" else trace.tgt_special,
            trace.tgt_special if causal else trace.src_special,
        )
        tokens, both, hits = trace.axis_tokens(kind)[1], [], []
        for each in (trace, other):
            maps = each.attention(kind)
            maps = maps.reshape(-1, *maps.shape[2:])
            both.append(looks(maps, words, kind))
            hits.append(text_hits(maps, kind, tokens, special))
            if kind == "cross" or words.of_corpus:
                hits[-1]["rarest"] = rarest(
                    sentence, words, both[-1][0], self.corpus.counts, causal=causal
                )
        trials = [each for each in annotated(sentence) if each[0] in self._numbers]
        tally.add(
            group, self._numbers, trials if words.of_corpus else (), words,
            (*both[0][:2], both[1][0]), (hits[0], hits[1]), causal=causal,
        )  # fmt: skip
        keys, _, *weights = both[0]
        bytes_ = [np.round(255 * each).clip(0, 255).astype(np.uint8) for each in weights
                  if each is not None]  # fmt: skip
        return words.queries, keys.astype(np.uint16), *bytes_

    def _traced(
        self, sentences: Sequence[Sentence]
    ) -> Iterator[tuple[Sentence, Trace | None, Trace | None]]:
        """Yield each sentence with its trace and the control's, or None."""
        targets = targets_of(self.model, [sentence.text for sentence in sentences])
        for start in range(0, len(sentences), BATCH):
            some, given = sentences[start : start + BATCH], targets[start : start + BATCH]
            texts = [each.text for each in some]
            yield from zip(
                some, _traces(self.model, texts, given), _traces(self.control, texts, given),
                strict=True,
            )  # fmt: skip


def targets_of(model: Any, texts: Sequence[str]) -> list[Sequence[int] | None]:
    """Return greedy translations as token ids, () for a model that writes none; see `_each`."""
    alone = isinstance(model, StackModel) and model.config.task == "translate"
    if alone or len(model.kinds) > 1:
        return _each(lambda some: [each.ids or None for each in model.translate(some, 1)], texts)
    return [()] * len(texts)


def _each(call: Callable[[Sequence[Any]], Sequence[Any]], items: Sequence[Any]) -> list[Any]:
    """Call for all items at once, or one by one; None for items that the model refuses."""
    try:
        return [*call(items)] if items else []
    except InputError:
        return [found for item in items for found in _each(call, [item])] if items[1:] else [None]


def _traces(
    model: Tracer, texts: Sequence[str], targets: Sequence[Sequence[int] | None]
) -> list[Trace | None]:
    """Trace texts with their translations; see `_each`."""

    def call(pairs: Sequence[tuple[str, Any]]) -> list[Trace]:
        if isinstance(model, Translator):
            some, given = zip(*pairs, strict=True)
            return model.traces(some, top_k=1, targets=map(list, given))
        return [model.trace(text, [*given] or None, top_k=1) for text, given in pairs]  # type: ignore[arg-type]

    pairs = [each for each in zip(texts, targets, strict=True) if each[1] is not None]
    found = iter(_each(call, pairs))
    return [None if target is None else next(found) for target in targets]


def _gather(reading: _Reading, parts: Path) -> dict[str, Any]:
    """Put the parts of a study together: its scores, examples, and sentences skipped."""
    n_roles, n_parts = len(reading.roles), -(-reading.corpus.n_sentences // PART)
    files = [parts / f"{number:06}.npz" for number in range(n_parts)]
    tallies = {
        kind: Tally.empty(reading.n_groups, n_roles, layers * heads)
        for kind, (layers, heads) in reading.shapes.items()
    }
    skipped, kept = 0, list[Sentence]()
    for file in files:
        with np.load(file) as arrays:
            shared = json.loads(str(arrays["shared"]))
            skipped += shared["skipped"]
            kept += map(Sentence.of, shared["kept"])
            for kind, tally in tallies.items():
                here = slice(shared["first"], shared["first"] + len(arrays[f"{kind}.hits"]))
                for name in ("hits", "pairs", "offsets"):
                    getattr(tally, name)[here] += arrays[f"{kind}.{name}"]
                for name in ("random", "blind"):
                    getattr(tally, name)[:] += arrays[f"{kind}.{name}"]
                for name, words in json.loads(str(arrays[f"{kind}.words"])).items():
                    tally.words[name].update(words)
    if skipped == reading.corpus.n_sentences:
        raise InputError(f"{reading.model.name} can read none of the sentences")
    found = [statistics.scored(reading.roles, tally) for tally in tallies.values()]
    scores = {name: np.concatenate([each[name] for each in found], axis=1) for name in found[0]}
    scores["p"] = significance.holm(scores["p"])
    scores["named"] = (scores["low"] > scores["bar"]) & (scores["p"] < ALPHA)
    floats = {name: array.astype(np.float32) for name, array in scores.items()
              if array.dtype == np.float64}  # fmt: skip
    total = reading.corpus.n_sentences
    return {
        "n_skipped": skipped,
        "notes": {"kept": f"{len(kept):,} of {total:,} sentences, evenly over the corpus"},
        "scores": scores | floats,
        "sentences": tuple(kept),
        "looks": {kind: _looks(kind, reading, kept, files) for kind in reading.kinds},
    }


def _looks(
    kind: AttentionKind, reading: _Reading, kept: Sequence[Sentence], files: Sequence[Path]
) -> Looks:
    """Put together where heads look, in files mapped into memory."""
    starts = np.cumsum([0, *(len(each.queries(kind)) for each in kept)])
    shape = (*reading.shapes[kind], int(starts[-1]))
    small = all(len(each.keys(kind)) <= 256 for each in kept)
    types = {"keys": np.uint8 if small else np.uint16, "weights": np.uint8, "own": np.uint8}
    found: dict[str, Any] = {"own": None}
    for name in types if kind != "cross" else ("keys", "weights"):
        path, at = files[0].with_name(f"{kind}.{name}.{os.getpid()}.npy"), 0
        found[name] = np.zeros(shape, types[name])
        if shape[-1]:  # in a file, which may be larger than memory
            np.save(path, found[name])  # all its bytes, as a full disk would break a mapped file
            found[name] = np.load(path, mmap_mode="r+")
        for file in files:
            with np.load(file) as arrays:
                if (member := f"{kind}.{name}") in arrays:
                    part = arrays[member].reshape(*shape[:2], -1)
                    found[name][:, :, at : at + part.shape[2]] = part
                    at += part.shape[2]
    return Looks(starts, **found)
