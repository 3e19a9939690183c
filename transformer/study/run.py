"""Run a study: a model reads a corpus, with trained and with random weights.

The corpus is read in parts of 64 sentences. Each finished part is written beside the study's
folder, so a stopped or killed run resumes at the next part and writes the same files. Memory holds
one part; arrays as long as the corpus are memory-mapped files.
"""

import ctypes
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer.checkpoint.reference import ModelRef
from transformer.checkpoint.weights import weights_digest
from transformer.files.folders import write_atomic
from transformer.files.npz import Arrays, packed
from transformer.models.catalogue import open_tracer, resolve
from transformer.study import records, statistics
from transformer.study.corpus import DEFAULT, Corpus, Sentence, is_taken, survey
from transformer.study.links import control_of, targets_of, traces_of
from transformer.study.roles import Tally, annotated, looks, rarest, roles_of, text_hits, words_of
from transformer.text.marks import decoded
from transformer.trace.records import Trace
from transformer.trace.removals import heads_of
from transformer.trace.tracer import Tracer
from transformer.types import AttentionKind, InputError, Report, no_report

#: Sentences in a part and in a batch, and maximum documents: more are grouped with neighbours.
PART, BATCH, MAX_DOCUMENTS = 64, 8, 500


def study(
    path: str | Path | ModelRef, corpus: Path | None = None, out: Path | None = None, *,
    sentences: int | None = None, examples: int | None = None, second: Path | None = None,
    device: str = "cpu", progress: Report = no_report, spread: "Spread | None" = None,
) -> Path:  # fmt: skip
    """Study a model, or resume a stopped study.

    Args:
        path: a model that reads sentences, a training snapshot, or an edited model.
        corpus: see `transformer.study.corpus`; by default GUM in data/gum.
        out: study folder; by default in the checkpoint, or in the cache folder if read-only.
        sentences: number of sentences to read, evenly spaced; by default all.
        examples: number of sentences to store, evenly spaced; by default all.
        second: another corpus, on which roles must hold too.
        progress: called with (sentences read, all sentences); may raise to stop.
        spread: makes the parts on other machines; by default in this process.

    Returns: the folder. A finished study with the same settings is returned at once.

    Raises: `DataError` for the corpus, `CheckpointError` or `InputError` for the model, `OSError`.
    """
    ref, text = resolve(path), survey(corpus or DEFAULT, sentences)
    again = survey(second) if second else None
    weights = weights_digest(ref.folder)
    settings = {
        "schema": records.SCHEMA, "checkpoint": ref.name, "weights": weights,
        "edits": ref.edits, "corpus": text.digest, "examples": examples,
        "second": again.digest if again else "",
    }  # fmt: skip
    key = hashlib.sha256(json.dumps(settings).encode()).hexdigest()
    for place in records.studies_of(ref) if out is None else [out]:
        if records.about(place).get("key") == key:
            return place
    out = out or _place(ref, f"{text.name}-{key[:8]}")
    # With the settings' digest, since another run may write another study to the same folder.
    parts = out.with_name(f"{out.name}.{key[:8]}.parts")
    model = open_tracer(ref, device)
    if lacking := model.lacks("any_sentence"):
        raise InputError(f"{ref}: {lacking}")
    control, about_control = control_of(ref, model)
    reading = _Reading(model, control, text, examples)
    where = partial(_elsewhere, spread, ref, device) if spread else None
    files = reading.parts(parts, progress, where)
    repeated = None
    if again is not None:
        other = _Reading(model, control, again, 0)
        repeated = other, other.parts(parts / "second", no_report, where)
    result = records.Study(
        checkpoint=ref.name, weights=weights, edits=ref.edits, corpus=text.name,
        corpus_digest=text.digest, source=text.source, n_sentences=text.n_sentences,
        n_words=text.n_words, n_documents=len(text.documents), control=about_control, key=key,
        roles=reading.roles, heads=reading.heads, **_gather(reading, files, repeated),
        second=f"{again.n_sentences:,} sentences of {again.name}" if again else "",
    )  # fmt: skip
    result.save(out)
    shutil.rmtree(parts, ignore_errors=True)
    progress(text.n_sentences, text.n_sentences)
    return out


def _place(ref: ModelRef, name: str) -> Path:
    beside = ref.folder / records.FOLDER
    if os.access(beside if beside.exists() else ref.folder, os.W_OK):
        return beside / (name if ref.updates is None else f"{name}@{ref.updates}")
    return records.cache_folder() / f"{ref.name}-{name}"


#: Part: index of the first sentence, and sentences; Packed: the same index, and the part's file.
Part = tuple[int, Sequence[Sentence]]
Packed = tuple[int, bytes]
#: Applies a function to parts, and yields the results in order.
Spread = Callable[[Callable[[Part], Packed], Iterable[Part]], Iterator[Packed]]
Elsewhere = Callable[["_Reading", Iterable[Part]], Iterator[Packed]]

_OPEN: "dict[Any, _Reading]" = {}  # of a worker of a cluster; only the last


def _elsewhere(
    spread: Spread, ref: ModelRef, device: str, reading: "_Reading", parts: Iterable[Part]
) -> Iterator[Packed]:
    ref = replace(ref, folder=ref.folder.absolute())
    return spread(partial(_packed, ref, device, reading.corpus, reading.examples), parts)


def _packed(ref: ModelRef, device: str, corpus: Corpus, examples: int | None, part: Part) -> Packed:
    """Compute a part's file on another machine, which keeps the model open."""
    key = ref, device, corpus.digest, examples
    if key not in _OPEN:
        _OPEN.clear()
        model = open_tracer(ref, device)
        _OPEN[key] = _Reading(model, control_of(ref, model)[0], corpus, examples)
    return _OPEN[key].packed(part)


class _Reading:
    def __init__(
        self, model: Tracer, control: Tracer, corpus: Corpus, examples: int | None
    ) -> None:
        self.model, self.control, self.corpus, self.examples = model, control, corpus, examples
        self.roles: tuple[records.Role, ...] = roles_of(corpus)
        self._numbers = {role.name: number for number, role in enumerate(self.roles)}
        probe = model.trace("a", None, 1, top_k=1)
        self.kinds = model.kinds
        self.shapes = {kind: probe.attention(kind).shape[:2] for kind in self.kinds}
        self.heads = heads_of(self.shapes)
        n = corpus.n_sentences
        self._examples = n if examples is None else min(examples, n)
        self.n_groups = min(MAX_DOCUMENTS, len(corpus.documents))

    def group(self, sentence: Sentence) -> int:
        """Return the index of a sentence's document, or document group."""
        documents = self.corpus.documents
        return documents[sentence.document] * self.n_groups // len(documents)

    def parts(self, folder: Path, progress: Report, where: Elsewhere | None = None) -> list[Path]:
        """Read the corpus in parts and return their files; existing files are kept."""
        folder.mkdir(parents=True, exist_ok=True)
        remaining, n = iter(self.corpus), self.corpus.n_sentences
        files = [folder / f"{start // PART:06}.npz" for start in range(0, n, PART)]

        def missing() -> Iterator[Part]:
            for number, file in enumerate(files):
                some = [*islice(remaining, PART)]
                if where is None:
                    progress(number * PART, n)
                if not file.exists():
                    yield number * PART, some

        done = where(self, missing()) if where else map(self.packed, missing())
        for start, content in done:
            write_atomic(files[start // PART], content)
            if where is not None:
                progress(start, n)
            elif trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
                trim(0)  # sentences of different lengths fragment the C heap
        return files

    def packed(self, part: Part) -> Packed:
        """Return a part's first index and its file."""
        return part[0], packed(self.part(*part))

    def part(self, start: int, sentences: Sequence[Sentence]) -> Arrays:
        """Read sentences, the first with index `start`, and return their counts as arrays."""
        groups = [self.group(sentence) for sentence in sentences]
        first = min(groups)
        tallies = {
            kind: Tally.empty(max(groups) - first + 1, len(self.roles), layers * heads)
            for kind, (layers, heads) in self.shapes.items()
        }
        skipped, n_cut, stored = 0, 0, list[Sentence]()
        seen: dict[AttentionKind, list[tuple[Any, ...]]] = {kind: [] for kind in self.kinds}
        for number, (sentence, cut, trace, other) in enumerate(self._traced(sentences), start):
            if not trace or not other or 0 < len(trace.tgt_tokens) == len(trace.tgt_special):
                skipped += 1
                continue
            n_cut += cut
            keep = is_taken(number, self._examples, self.corpus.n_sentences) and not cut
            target: tuple[str, ...] = ()
            for kind, tally in tallies.items():
                if cut and kind != "encoder_self":
                    continue
                group = self.group(sentence) - first
                queries, *found = self._add(tally, group, sentence, kind, trace, other)
                if keep:
                    seen[kind].append(tuple(found))
                if kind == "decoder_self" and trace.src_tokens:
                    target = queries
            if keep:
                stored.append(replace(sentence, target=target))
        shared = {"first": first, "skipped": skipped, "cut": n_cut,
                  "kept": [sentence.__dict__ for sentence in stored]}  # fmt: skip
        arrays: Arrays = {"shared": np.array(json.dumps(shared))}
        for kind, tally in tallies.items():
            for name in ("hits", "pairs", "random", "blind", "offsets"):
                arrays[f"{kind}.{name}"] = getattr(tally, name)
            words = [[*key, n] for key, n in tally.words.items()]
            arrays[f"{kind}.words"] = np.array(json.dumps(words))
            for name, column in zip(("keys", "weights", "own"), zip(*seen[kind], strict=True),
                                    strict=False):  # fmt: skip
                arrays[f"{kind}.{name}"] = np.concatenate(column, axis=1)
        return arrays

    def _add(
        self, tally: Tally, group: int, sentence: Sentence, kind: AttentionKind, trace: Trace,
        other: Trace,
    ) -> tuple[Any, ...]:  # fmt: skip
        """Count one sentence; return its query words, and each head's keys and weights."""
        words, causal = words_of(sentence, trace, kind), kind == "decoder_self"
        special = (
            trace.src_special if kind == "encoder_self" else trace.tgt_special,
            trace.tgt_special if causal else trace.src_special,
        )
        tokens, both, hits = decoded(trace.axis_tokens(kind)[1]), [], []
        for one in (trace, other):
            maps = one.attention(kind)
            maps = maps.reshape(-1, *maps.shape[2:])
            both.append(looks(maps, words, kind))
            hits.append(text_hits(maps, kind, tokens, special))
            if kind == "cross" or words.of_corpus:
                hits[-1]["rarest"] = rarest(
                    sentence, words, both[-1][0], self.corpus.counts, causal=causal
                )
        trials = [trial for trial in annotated(sentence) if trial[0] in self._numbers]
        tally.add(
            group, self._numbers, trials if words.of_corpus else (), words,
            (*both[0][:2], both[1][0]), (hits[0], hits[1]), causal=causal,
        )  # fmt: skip
        keys, _, *weights = both[0]
        bytes_ = [np.round(255 * values).clip(0, 255).astype(np.uint8) for values in weights
                  if values is not None]  # fmt: skip
        return words.queries, keys.astype(np.uint16), *bytes_

    def _traced(
        self, sentences: Sequence[Sentence]
    ) -> Iterator[tuple[Sentence, bool, Trace | None, Trace | None]]:
        """Yield each sentence, True if its translation is cut, and its traces or None."""
        targets = targets_of(self.model, [sentence.text for sentence in sentences])
        for start in range(0, len(sentences), BATCH):
            some, batch = sentences[start : start + BATCH], targets[start : start + BATCH]
            texts, ids = [sentence.text for sentence in some], [target.ids for target in batch]
            yield from zip(
                some, [target.cut for target in batch], traces_of(self.model, texts, ids),
                traces_of(self.control, texts, ids), strict=True,
            )  # fmt: skip


def _gather(
    reading: _Reading, files: Sequence[Path], again: tuple[_Reading, Sequence[Path]] | None
) -> dict[str, Any]:
    """Combine parts into scores, stored sentences, and skipped counts."""
    tallies, skipped, n_cut, stored = _summed(reading, files)
    if skipped == reading.corpus.n_sentences:
        raise InputError(f"{reading.model.name} cannot read any of the sentences")
    total = reading.corpus.n_sentences
    return {
        "n_skipped": skipped,
        "n_cut": n_cut,
        "notes": {"kept": f"{len(stored):,} of {total:,} sentences, evenly over the corpus"},
        "scores": statistics.judged(
            reading.roles,
            [*tallies.values()],
            None if again is None else _repeated(reading, *again),
        ),
        "sentences": tuple(stored),
        "looks": {kind: _looks(kind, reading, stored, files) for kind in reading.kinds},
    }


def _repeated(reading: _Reading, other: _Reading, files: Sequence[Path]) -> dict[str, NDArray[Any]]:
    """Return role scores on the second text, [R, N]."""
    tallies, all_groups = _summed(other, files)[0].values(), np.ones(other.n_groups, bool)
    kinds = [statistics.scored(other.roles, tally, all_groups, all_groups) for tally in tallies]
    repeated = {}
    for name in ("score", "low", "p"):
        rows = np.concatenate([scores[name] for scores in kinds], axis=1)
        by_name = {role.name: row for role, row in zip(other.roles, rows, strict=True)}
        missing = np.full(rows.shape[1], np.nan)
        repeated[name] = np.stack([by_name.get(role.name, missing) for role in reading.roles])
    return repeated


def _summed(
    reading: _Reading, files: Sequence[Path]
) -> tuple[dict[AttentionKind, Tally], int, int, list[Sentence]]:
    """Return summed tallies, numbers of skipped and cut sentences, and stored sentences."""
    tallies = {
        kind: Tally.empty(reading.n_groups, len(reading.roles), layers * heads)
        for kind, (layers, heads) in reading.shapes.items()
    }
    skipped, n_cut, stored = 0, 0, list[Sentence]()
    for file in files:
        with np.load(file) as arrays:
            shared = json.loads(str(arrays["shared"]))
            skipped, n_cut = skipped + shared["skipped"], n_cut + shared["cut"]
            stored += map(Sentence.of, shared["kept"])
            for kind, tally in tallies.items():
                here = slice(shared["first"], shared["first"] + len(arrays[f"{kind}.hits"]))
                for name in ("hits", "pairs", "random", "blind", "offsets"):
                    getattr(tally, name)[here] += arrays[f"{kind}.{name}"]
                for document, role, form, n in json.loads(str(arrays[f"{kind}.words"])):
                    tally.words[shared["first"] + document, role, form] += n
    return tallies, skipped, n_cut, stored


def _looks(
    kind: AttentionKind, reading: _Reading, stored: Sequence[Sentence], files: Sequence[Path]
) -> records.Looks:
    """Combine looks of all parts in memory-mapped files."""
    starts = np.cumsum([0, *(len(sentence.queries(kind)) for sentence in stored)])
    shape = (*reading.shapes[kind], int(starts[-1]))
    small = all(len(sentence.keys(kind)) <= 256 for sentence in stored)
    types = {"keys": np.uint8 if small else np.uint16, "weights": np.uint8, "own": np.uint8}
    arrays: dict[str, Any] = {"own": None}
    for name in types if kind != "cross" else ("keys", "weights"):
        path, at = files[0].with_name(f"{kind}.{name}.{os.getpid()}.npy"), 0
        arrays[name] = np.zeros(shape, types[name])
        if shape[-1]:  # in a file, which may be larger than memory
            np.save(path, arrays[name])  # writes all bytes, since a sparse file may fill the disk
            arrays[name] = np.load(path, mmap_mode="r+")
        for file in files:
            with np.load(file) as members:
                if (member := f"{kind}.{name}") in members:
                    part = members[member].reshape(*shape[:2], -1)
                    arrays[name][:, :, at : at + part.shape[2]] = part
                    at += part.shape[2]
    return records.Looks(starts, **arrays)
