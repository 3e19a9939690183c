"""Changes of a translation's log-probabilities without parts of the model.

The decoder reads the same target in one pass. Gates remove many heads at once, in separate rows of
a batch; every other edit takes a separate pass.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import torch

from transformer.edits.language import PLACES, Edit, Edits, Verb, off_edits, parse_edits
from transformer.edits.model import Means, edited
from transformer.hooks import HeadGates
from transformer.model import Encoded, Transformer
from transformer.search.scoring import normalised
from transformer.trace.building import padded, to_array
from transformer.trace.records import Needs, Pair, StackName, Trace
from transformer.types import ATTENTION_KINDS, AttentionKind, Floats, Report, no_report

_MOST_NUMBERS = 16_000_000  # in the largest tensor of a batch: 64 MB
#: Rows of a pass: 64 take 1% less time, but other work waits for 0.36 s instead of 0.12 s.
_MOST_ROWS = 16
_PAIRS, _CANDIDATES = 25, 4  # translations in a batch, heads measured at once in pruning
_FEW = 8  # up to this many translations, every pruning round measures all heads

Row = TypeVar("Row")


class Head(NamedTuple):
    """A head of a model, counted from 0."""

    kind: AttentionKind
    layer: int
    head: int

    @property
    def off(self) -> Edit:
        """The edit that removes it."""
        return Edit("off", PLACES[self.kind], self.layer, self.head)


def heads_of(shapes: Mapping[AttentionKind, tuple[int, int]]) -> tuple[Head, ...]:
    """Return all heads in order; `shapes` are a config's `head_shapes`."""
    return tuple(Head(kind, *at) for kind, shape in shapes.items() for at in np.ndindex(shape))


def edits_off(out: Collection[Head], heads: Sequence[Head]) -> tuple[Edit, ...]:
    """Return the fewest edits that remove heads `out` of all `heads`: by kind, layer or head."""
    edits: list[Edit] = []
    for kind in ATTENTION_KINDS:
        of_kind = [head for head in heads if head.kind == kind]
        _, layer, last = max(of_kind)
        off = np.zeros((layer + 1, last + 1), np.bool_)
        for head in of_kind:
            off[head.layer, head.head] = head in out
        edits += off_edits(kind, off)
    return tuple(edits)


def log_probs(model: Transformer, trace: Trace, *, excluded: Sequence[int] = ()) -> Floats:
    """Return the log-probabilities [T], in nats, of a trace's translation."""
    result: Floats = _log_probs(model, [trace], [()], excluded)[0, 0]
    return result


def without_heads(
    model: Transformer, trace: Trace, *, excluded: Sequence[int] = (),
    progress: Report = no_report,
) -> dict[AttentionKind, Floats]:  # fmt: skip
    """Return the changes of token log-probabilities without single heads.

    Args:
        excluded: ids without probability, as in the search.
        progress: called with (heads done, all heads); may raise to stop.

    Returns: [L, H, T] by kind, in nats; negative where a token becomes less likely.
    """
    sets = [[head.off] for head in heads_of(model.config.head_shapes)]
    rows = iter(with_edits(model, trace, sets, excluded=excluded, progress=progress))
    return {
        kind: np.stack([next(rows) for _ in np.ndindex(shape)]).reshape(*shape, -1)
        for kind, shape in model.config.head_shapes.items()
    }


def with_edits(
    model: Transformer, trace: Trace, edits: Sequence[Edits], *, means: Means | None = None,
    excluded: Sequence[int] = (), progress: Report = no_report,
) -> Floats:  # fmt: skip
    """Return the changes of token log-probabilities with sets of edits: [sets, T], in nats.

    Sets that only remove or scale heads share passes; any other set takes a separate pass.

    Args: see `without_heads` and `transformer.edits.model.edited`.
    """
    before, sets, done = log_probs(model, trace, excluded=excluded), [*map(parse_edits, edits)], 0
    for edit in (edit for chosen in sets for edit in chosen):
        edit.check_tokens(len(trace.src_ids), len(trace.tgt_ids))
    rows = np.zeros((len(sets), len(before)), np.float32)
    alike = [n for n, chosen in enumerate(sets) if all(e.verb in ("off", "scale") for e in chosen)]
    rest = [[n] for n in range(len(sets)) if n not in set(alike)]
    for some in (*_batches(alike, model, [trace]), *rest):
        if some in rest:
            rows[some] = log_probs(edited(model, sets[some[0]], means), trace, excluded=excluded)
        else:
            rows[some] = _log_probs(model, [trace], [sets[n] for n in some], excluded)[:, 0]
        done += len(some)
        progress(done, len(sets))
    return rows - before


def gates_of(model: Transformer, edits: Sequence[Sequence[Edit]], times: int = 1) -> HeadGates:
    """Return gates [L, sets, H] equivalent to sets of `off` and `scale` edits.

    Args: times: consecutive rows per set.

    Raises: `InputError` for an edit that the model does not support.
    """
    gates = {
        kind: torch.ones(n_layers, len(edits), n_heads)
        for kind, (n_layers, n_heads) in model.config.head_shapes.items()
    }
    for row, chosen in enumerate(edits):
        for edit in chosen:
            edit.check(model.config)
            layer, head = (slice(None) if at is None else at for at in (edit.layer, edit.index))
            gates[edit.kind][layer, row, head] *= edit.value or 0.0
    rows = {kind: table.repeat_interleave(times, 1) for kind, table in gates.items()}
    return HeadGates(**rows)


def needs(
    model: Transformer, trace: Trace, *, excluded: Sequence[int] = (),
    progress: Report = no_report,
) -> Needs:  # fmt: skip
    """Return the changes of a trace's translation without heads, source words, networks, layers.

    Args: progress: called with (parts done, all parts); may raise to stop.
    """
    config = model.config
    depths: dict[StackName, int] = {
        "encoder": config.n_encoder_layers, "decoder": config.n_decoder_layers,
    }  # fmt: skip
    n_heads, n_words = len(heads_of(config.head_shapes)), len(trace.src_ids)
    done, total = 0, n_heads + n_words + 2 * sum(depths.values())

    def report(now: int, most: int) -> None:
        progress(done + now, total)

    def without(edits: Sequence[Edit]) -> Floats:
        nonlocal done
        sets = [[edit] for edit in edits]
        changes = with_edits(model, trace, sets, excluded=excluded, progress=report)
        done += len(edits)
        return changes

    def each_layer(verb: Verb) -> dict[StackName, Floats]:
        return {
            name: without([Edit(verb, name, layer) for layer in range(n)])
            for name, n in depths.items()
        }

    heads = without_heads(model, trace, excluded=excluded, progress=report)
    done = n_heads
    return Needs(
        log_probs(model, trace, excluded=excluded),
        heads,
        without([Edit("cut", "cross", key=key) for key in range(n_words)]),
        each_layer("ffn off"),
        each_layer("skip"),
    )


class Pruned(NamedTuple):
    """A model after the removal of one more head."""

    head: Head
    log_prob: float  # sum over all translations, in nats
    harms: Mapping[Head, float]  # change without one more head, in nats, when last measured


def pruned(
    model: Transformer, pairs: Sequence[Trace | Pair], *, after: Sequence[Pruned] = (), excluded:
    Sequence[int] = (), progress: Report = no_report,
) -> Iterator[Pruned]:  # fmt: skip
    """Remove heads one by one, least harmful first.

    Every round measures all remaining heads. For more than `_FEW` translations, a round measures
    heads in the order of their last harm until one harms less than all others did before; this
    misses heads that become less harmful as others go.

    Args:
        after: results up to an earlier stop, to continue from.
        progress: called with (heads removed, all heads), often; may raise to stop.
    """
    heads, gone = heads_of(model.config.head_shapes), [removal.head for removal in after]

    def report() -> None:
        progress(len(gone), len(heads))

    if after:
        harms, now = dict(after[-1].harms), after[-1].log_prob
    else:
        harms = dict.fromkeys(heads, math.inf)
        now = total_log_prob(model, pairs, [()], excluded, report)[0]
    while harms:
        fresh: dict[Head, float] = {}
        while stale := [head for head in harms if head not in fresh]:
            if fresh and max(fresh.values()) >= max(harms[head] for head in stale):
                break
            some = sorted(stale, key=harms.__getitem__, reverse=True)
            some = some[: _CANDIDATES if gone and len(pairs) > _FEW else None]
            sums = total_log_prob(model, pairs, [(*gone, head) for head in some], excluded, report)
            fresh |= {head: log_prob - now for head, log_prob in zip(some, sums, strict=True)}
        harms |= fresh
        head = max(fresh, key=fresh.__getitem__)
        gone.append(head)
        now += harms.pop(head)
        yield Pruned(head, now, dict(harms))


def total_log_prob(
    model: Transformer, pairs: Sequence[Trace | Pair], out: Sequence[Collection[Head]], excluded:
    Sequence[int] = (), report: Callable[[], None] = lambda: None,
) -> list[float]:  # fmt: skip
    """Return the summed log-probability of translations without each set of heads, in nats.

    Args: report: called after each batch; may raise to stop.
    """
    sums = np.zeros(len(out))
    ordered = sorted(pairs, key=lambda pair: (len(pair.tgt_ids), len(pair.src_ids)))
    for start in range(0, len(ordered), _PAIRS):
        batch = ordered[start : start + _PAIRS]
        done = 0
        for some in _batches(out, model, batch):
            edits = [[head.off for head in heads] for heads in some]
            log_probs = _log_probs(model, batch, edits, excluded)
            sums[done : done + len(some)] += log_probs.sum((1, 2), dtype=np.float64)
            done += len(some)
            report()
    return sums.tolist()


def _batches(
    rows: Sequence[Row], model: Transformer, pairs: Sequence[Trace | Pair]
) -> Iterator[Sequence[Row]]:
    config, n = model.config, max(max(len(pair.src_ids), len(pair.tgt_ids)) for pair in pairs)
    numbers = len(pairs) * n * max(config.d_ff, config.n_heads * n)
    size = min(_MOST_ROWS, max(1, _MOST_NUMBERS // numbers))
    return (rows[start : start + size] for start in range(0, len(rows), size))


def _log_probs(
    model: Transformer,
    pairs: Sequence[Trace | Pair],
    sets: Sequence[Sequence[Edit]],
    excluded: Sequence[int],
) -> Floats:
    """Return log-probabilities [R, B, T] of B translations under R sets of `off` and `scale`.

    They are 0 after the end of a translation. The encoder runs once for equal encoder edits.
    """
    device, n, pad = model.generator.weight.device, len(pairs), model.config.pad_id
    read = [frozenset(edit for edit in chosen if edit.where == "encoder") for chosen in sets]
    encoders = list(dict.fromkeys(read))

    def gates(sets: Sequence[Collection[Edit]]) -> HeadGates | None:
        return gates_of(model, [list(edits) for edits in sets], n) if any(sets) else None

    with torch.inference_mode():
        src = padded((pair.src_ids for pair in pairs), pad, device).repeat(len(encoders), 1)
        encoded = model.encode(src, hooks=gates(encoders))
        rows = torch.tensor([encoders.index(edits) * n + k for edits in read for k in range(n)])
        memory, mask = encoded.memory[rows.to(device)], encoded.src_mask
        encoded = Encoded(memory, None if mask is None else mask[rows.to(device)])
        tgt_in = padded((pair.tgt_ids for pair in pairs), pad, device).repeat(len(sets), 1)
        states = model.decode(tgt_in, encoded, hooks=gates(sets)).hidden  # [R B, T, d_model]
        ids = padded((pair.predicted_ids for pair in pairs), -1, device).repeat(len(sets), 1)
        log_probs = torch.stack([
            normalised(model.logits(hidden), excluded).gather(1, tokens.clamp(min=0)[:, None])[:, 0]
            for hidden, tokens in zip(states, ids, strict=True)
        ])  # fmt: skip
        return to_array(log_probs.masked_fill(ids < 0, 0)).reshape(len(sets), n, -1)
