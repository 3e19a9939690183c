"""The change of a translation's log-probabilities when parts of the model are taken out.

The target stays the same and is read in one pass. Heads are taken out by gates, many at once, a row
of the batch for each; whatever else an edit can say takes a pass of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from transformer.edits.language import KINDS, Edit, Edits, Verb, parse_edits
from transformer.edits.model import Means, edited
from transformer.hooks import HeadGates
from transformer.model import Transformer
from transformer.search.scoring import normalised
from transformer.trace.building import to_array
from transformer.trace.records import Needs, StackName, Trace
from transformer.types import ATTENTION_KINDS, AttentionKind, Floats, Report

#: Numbers in the largest values inside the model for one batch, at most: 64 MB.
_MOST_NUMBERS = 16_000_000

Row = TypeVar("Row")


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
    edits: Sequence[Edits],
    *,
    means: Means | None = None,
    excluded: Sequence[int] = (),
    progress: Report | None = None,
) -> Floats:
    """Return the change of each token's log-probability under each of several sets of edits.

    Sets that take heads out or scale them share a pass; each of the others has one of its own.

    Args: see `without_heads` and `transformer.edits.model.edited`.

    Returns: [sets, T], in nats.
    """
    before, sets, done = log_probs(model, trace, excluded=excluded), [*map(parse_edits, edits)], 0
    rows = np.zeros((len(sets), len(before)), np.float32)
    alike = [n for n, chosen in enumerate(sets) if all(e.verb in ("off", "scale") for e in chosen)]
    rest = [[n] for n in range(len(sets)) if n not in set(alike)]
    for some in (*_batches(alike, model, trace), *rest):
        if some in rest:
            rows[some] = log_probs(edited(model, sets[some[0]], means), trace, excluded=excluded)
        else:
            gates = gates_of(model, [sets[n] for n in some])
            rows[some] = _gated(model, trace, gates, len(some), excluded)
        done += len(some)
        if progress is not None:
            progress(done, len(sets))
    return rows - before


def gates_of(model: Transformer, edits: Sequence[Sequence[Edit]]) -> HeadGates:
    """Return gates [L, sets, H] that compute what each of several sets of `off` and `scale` does.

    Raises: `InputError` for an edit that the model cannot take.
    """
    gates: dict[AttentionKind, Tensor] = {}
    for kind in ATTENTION_KINDS:
        layers = len(model.encoder if kind == "encoder_self" else model.decoder)
        n_heads = model.attention_block(kind, 0).n_heads
        gates[kind] = torch.ones(layers, len(edits), n_heads)
    for row, chosen in enumerate(edits):
        for edit in chosen:
            edit.check(model.config)
            layer, head = (slice(None) if at is None else at for at in (edit.layer, edit.index))
            gates[edit.kind][layer, row, head] *= edit.value or 0.0
    return HeadGates(**gates)


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
    rows: Sequence[Row], model: Transformer, trace: Trace
) -> Iterator[Sequence[Row]]:  # fmt: skip
    config, n = model.config, max(len(trace.src_ids), len(trace.tgt_ids))
    size = min(64, max(1, _MOST_NUMBERS // (n * max(config.d_ff, config.n_heads * n))))
    return (rows[start : start + size] for start in range(0, len(rows), size))


def _log_probs(
    model: Transformer, trace: Trace, out: Sequence[Collection[Head]], excluded: Sequence[int]
) -> Floats:
    """Return log-probabilities [R, T]; row r without the heads out[r]."""
    gates = gates_of(model, [[head.off for head in heads] for heads in out]) if any(out) else None
    return _gated(model, trace, gates, len(out), excluded)


def _gated(
    model: Transformer, trace: Trace, gates: HeadGates | None, n: int, excluded: Sequence[int]
) -> Floats:
    """Return log-probabilities [n, T] of `n` rows that gates may tell apart."""
    device = model.generator.weight.device

    def rows(ids: Sequence[int]) -> Tensor:
        return torch.tensor([list(ids)], device=device).expand(n, -1)

    with torch.inference_mode():
        states = model.hidden(rows(trace.src_ids), rows(trace.tgt_ids), gates)  # [R, T, d_model]
        found = [normalised(model.logits(each), excluded) for each in states]
        ids = torch.tensor(trace.predicted_ids, device=device)[:, None]
        return to_array(torch.stack([each.gather(1, ids)[:, 0] for each in found]))
