"""The change of a translation's log-probabilities when parts of the model are taken out.

The target stays the same and is read in one pass. Heads are taken out by gates, many at once, a row
of the batch for each; whatever else an edit can say takes a pass of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from transformer.edits.language import KINDS, Edit, Verb
from transformer.edits.model import Means, edited
from transformer.hooks import HeadGates
from transformer.model import Transformer
from transformer.search.scoring import normalised
from transformer.trace.building import to_array
from transformer.trace.records import Needs, StackName, Trace
from transformer.types import ATTENTION_KINDS, AttentionKind, Floats, Report

#: Numbers that the log-probabilities of one batch hold at most: 64 MB.
_MOST_NUMBERS = 16_000_000


class Head(NamedTuple):
    """A head of a model, counted from 0."""

    kind: AttentionKind
    layer: int
    head: int

    @property
    def off(self) -> Edit:
        """The edit that takes it out."""
        where = next(name for name, kind in KINDS.items() if kind == self.kind)
        return Edit("off", where, self.layer, self.head)


def heads_of(model: Transformer) -> tuple[Head, ...]:
    """Return all heads of a model, by kind, layer and number."""
    config = model.config
    shapes = {
        "encoder_self": (config.n_encoder_layers, config.n_heads),
        "decoder_self": (config.n_decoder_layers, config.decoder_heads),
        "cross": (config.n_decoder_layers, config.decoder_heads),
    }
    return tuple(
        Head(kind, layer, head)
        for kind in ATTENTION_KINDS
        for layer in range(shapes[kind][0])
        for head in range(shapes[kind][1])
    )


def log_probs(model: Transformer, trace: Trace, *, excluded: Sequence[int] = ()) -> Floats:
    """Return the log-probability [T], in nats, of each token of a trace's translation."""
    found: Floats = _log_probs(model, trace, [()], excluded)[0]
    return found


def without_heads(
    model: Transformer,
    trace: Trace,
    *,
    excluded: Sequence[int] = (),
    removed: Collection[Head] = (),
    progress: Report | None = None,
) -> dict[AttentionKind, Floats]:
    """Return the change of each token's log-probability when single heads are taken out.

    Args:
        excluded: ids that never get probability, as in the search.
        removed: heads that are out already; the change is that from then on, and theirs is 0.
        progress: called with (heads done, heads in all); may raise to stop.

    Returns: by kind [L, H, T], in nats; negative where the token becomes less likely.
    """
    heads = heads_of(model)
    before = _log_probs(model, trace, [removed], excluded)[0]
    found, done = [], 0
    for some in _batches(heads, model, trace):
        after = _log_probs(model, trace, [{*removed, head} for head in some], excluded)
        found.append(after - before)
        done += len(some)
        if progress is not None:
            progress(done, len(heads))
    rows = dict(zip(heads, np.concatenate(found), strict=True))
    return {
        kind: np.stack([
            np.stack([rows[head] for head in heads if head[:2] == (kind, layer)])
            for layer in dict.fromkeys(head.layer for head in heads if head.kind == kind)
        ])
        for kind in ATTENTION_KINDS
    }  # fmt: skip


def with_edits(
    model: Transformer,
    trace: Trace,
    edits: Sequence[Sequence[Edit]],
    *,
    means: Means | None = None,
    excluded: Sequence[int] = (),
    progress: Report | None = None,
) -> Floats:
    """Return the change of each token's log-probability under each of several sets of edits.

    Args: see `without_heads` and `transformer.edits.model.edited`.

    Returns: [sets, T], in nats.
    """
    before, rows = log_probs(model, trace, excluded=excluded), []
    for done, chosen in enumerate(edits, 1):
        other = edited(model, chosen, means)
        rows.append(log_probs(other, trace, excluded=excluded) - before)
        if progress is not None:
            progress(done, len(edits))
    return np.stack(rows) if rows else np.zeros((0, len(before)), np.float32)


def needs(model: Transformer, trace: Trace, *, excluded: Sequence[int] = ()) -> Needs:
    """Return what a trace's translation needs: single heads, source words, networks, layers."""
    config = model.config
    depths: dict[StackName, int] = {
        "encoder": config.n_encoder_layers, "decoder": config.n_decoder_layers,
    }  # fmt: skip

    def without(edits: Sequence[Edit]) -> Floats:
        return with_edits(model, trace, [[edit] for edit in edits], excluded=excluded)

    def each_layer(verb: Verb) -> dict[StackName, Floats]:
        return {
            name: without([Edit(verb, name, layer) for layer in range(n)])
            for name, n in depths.items()
        }

    return Needs(
        log_probs(model, trace, excluded=excluded),
        without_heads(model, trace, excluded=excluded),
        without([Edit("cut", "cross", key=key) for key in range(len(trace.src_ids))]),
        each_layer("ffn off"),
        each_layer("skip"),
    )


class Pruned(NamedTuple):
    """A model after one more head was taken out."""

    head: Head
    log_prob: float  # of all translations together, in nats


def pruned(
    model: Transformer,
    traces: Sequence[Trace],
    *,
    removed: Sequence[Head] = (),
    excluded: Sequence[int] = (),
    at_random: int | None = None,
) -> Iterator[Pruned]:
    """Take heads out one after the other, those that harm the translations least first.

    Args:
        removed: heads that are out at the start: what was yielded before a stop.
        at_random: the seed of a random order instead, as a control.
    """
    gone, heads = list(removed), heads_of(model)
    order = np.random.default_rng(at_random).permutation(len(heads))
    while left := [heads[n] for n in order if heads[n] not in gone]:
        if at_random is not None:
            sums = {left[0]: sum(
                float(_log_probs(model, trace, [{*gone, left[0]}], excluded).sum(dtype=np.float64))
                for trace in traces
            )}  # fmt: skip
        else:
            left = [head for head in heads if head not in gone]
            sums = dict.fromkeys(left, 0.0)
            for trace in traces:
                for some in _batches(left, model, trace):
                    rows = _log_probs(model, trace, [{*gone, head} for head in some], excluded)
                    for head, row in zip(some, rows.sum(1, dtype=np.float64), strict=True):
                        sums[head] += float(row)
        head = max(sums, key=sums.__getitem__)
        gone.append(head)
        yield Pruned(head, sums[head])


def _batches(
    heads: Sequence[Head], model: Transformer, trace: Trace
) -> Iterator[Sequence[Head]]:  # fmt: skip
    each = len(trace.tgt_ids) * model.config.target_vocab_size
    size = min(64, max(1, _MOST_NUMBERS // each))
    return (heads[start : start + size] for start in range(0, len(heads), size))


def _log_probs(
    model: Transformer, trace: Trace, out: Sequence[Collection[Head]], excluded: Sequence[int]
) -> Floats:
    """Return log-probabilities [R, T]; row r without the heads out[r]."""
    device, n = model.generator.weight.device, len(out)
    config, gates = model.config, {}
    if any(out):
        encoder = (config.n_encoder_layers, n, config.n_heads)
        decoder = (config.n_decoder_layers, n, config.decoder_heads)
        for kind in ATTENTION_KINDS:
            gates[kind] = torch.ones(encoder if kind == "encoder_self" else decoder)
        for row, heads in enumerate(out):
            for kind, layer, head in heads:
                gates[kind][layer, row, head] = 0

    def rows(ids: Sequence[int]) -> Tensor:
        return torch.tensor([list(ids)], device=device).expand(n, -1)

    with torch.inference_mode():
        hooks = HeadGates(**gates) if gates else None
        logits = model(rows(trace.src_ids), rows(trace.tgt_ids), hooks=hooks)  # [R, T, V]
        found = [normalised(each, excluded) for each in logits]
        ids = torch.tensor(trace.predicted_ids, device=device)[:, None]
        return to_array(torch.stack([each.gather(1, ids)[:, 0] for each in found]))
