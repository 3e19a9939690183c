"""Traces from logits and maps, for every kind of model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from transformer.execution import Begin, EachLayer, Execution, Executions
from transformer.hooks import Chain, Hook, Hooks, Site
from transformer.model import Encoded
from transformer.search.beam import Found
from transformer.search.reader import Source, Target
from transformer.search.records import SearchRecord, path_attention
from transformer.search.request import Progress, SearchRequest, layer_progress
from transformer.search.scoring import best, entropy_nats, normalised
from transformer.trace.records import Trace
from transformer.types import AttentionKind, Floats, Ints, map_sizes


def to_array(tensor: Tensor, *, copy: bool = False) -> Floats:
    """Return a contiguous float32 array, which may share the tensor's memory unless `copy`."""
    array: Floats = tensor.detach().float().cpu().numpy()
    return np.array(array, order="C", copy=True if copy else None)


class Pieces(Protocol):
    """A tokenizer's spelling of tokens."""

    def shown(self, ids: Sequence[int], after: int | None = None) -> tuple[str, ...]:
        """Return the pieces of consecutive tokens; `after` is the id before the first."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """The decoder's predictions for its T inputs."""

    ids: tuple[int, ...]  # [T], next tokens
    log_probs: Floats  # [T], their log-probabilities in nats
    top_ids: Ints  # [T, K], most probable tokens, best first
    top_log_probs: Floats  # [T, K]
    entropy: Floats  # [T], of the distribution, in nats

    def log_prob(self, start: int = 0) -> float:
        """Return the sum of the log-probabilities from row `start`."""
        return float(self.log_probs[start:].sum(dtype=np.float64))


#: Predictions of a model without a decoder.
NO_PREDICTIONS = Predictions(
    (), np.zeros(0, np.float32), np.zeros((0, 0), np.int64), np.zeros((0, 0), np.float32),
    np.zeros(0, np.float32),
)  # fmt: skip


def predictions(log_probs: Tensor, ids: Sequence[int], top_k: int) -> Predictions:
    """Record the predictions of one pass: log-probabilities [T, V] and next tokens [T]."""
    top_log_probs, top_ids = best(log_probs, top_k)
    followers = torch.tensor(ids, device=log_probs.device)
    return Predictions(
        tuple(ids),
        to_array(log_probs.gather(1, followers[:, None])[:, 0]),
        top_ids.cpu().numpy(),
        to_array(top_log_probs),
        to_array(entropy_nats(log_probs)),
    )


def build_trace(
    pieces: Pieces, maps: Mapping[AttentionKind, Floats], tgt_ids: tuple[int, ...] = (), predicted:
    Predictions = NO_PREDICTIONS, written: Sequence[str] = (), **rest: Any,
) -> Trace:  # fmt: skip
    """Return the record of one sentence; its arrays become read-only.

    Args:
        pieces: spells target tokens.
        maps: [L, H, queries, keys] by kind; a missing kind has no layers.
        tgt_ids: [T], the decoder's input.
        written: pieces of the first inputs, if they come from a text.
        rest: further attributes of the trace; source attributes are empty by default.
    """
    source: dict[str, Any] = {"source": "", "text": "", "src_tokens": (), "src_ids": ()} | rest
    n, m = len(tgt_ids), len(source["src_ids"])
    n_heads = next((weights.shape[1] for weights in maps.values()), 0)
    every: dict[str, Any] = {
        kind: maps.get(kind, np.zeros((0, n_heads, *size), np.float32))
        for kind, size in map_sizes(m, n).items()
    }
    tokens = pieces.shown((*tgt_ids, *predicted.ids[-1:]))
    tokens = (*written, *tokens[len(written) :])
    trace = Trace(
        tgt_tokens=tokens[:n],
        predicted_tokens=tokens[1:],
        tgt_ids=tgt_ids,
        predicted_ids=predicted.ids,
        log_probs=predicted.log_probs,
        top_ids=predicted.top_ids,
        top_log_probs=predicted.top_log_probs,
        top_tokens=tuple(
            tuple(pieces.shown((token,), before)[0] for token in row)
            for row, before in zip(predicted.top_ids.tolist(), tgt_ids, strict=True)
        ),
        entropy=predicted.entropy,
        **every | {"score": 0.0} | source,
    )
    for array in vars(trace).values():
        if isinstance(array, np.ndarray):
            array.setflags(write=False)
    return trace


def trace_search(
    source: Source, encoded: Encoded, result: Found, request: SearchRequest, *, index: int = 0
) -> Trace:
    """Return the trace along the best hypothesis of a search.

    Args:
        encoded: with attention if the search recorded it.  result: of a recording search.
        index: of the sentence in `encoded`.
    """
    first, steps, settings = result.hypotheses[0], result.steps, request.settings
    n_forced = len(request.forced.ids)
    maps: dict[AttentionKind, Floats] = {}
    if request.maps:
        maps["cross"], maps["decoder_self"] = path_attention(steps, first.rows)
    names = ["top_ids", "top_log_probs", "entropy"]
    names += ["allowed", "n_allowed"] if settings.sampling else []
    along = {
        name: np.stack([getattr(steps[t], name)[row] for t, row in enumerate(first.rows)])
        for name in names
    }
    tops = (along.pop(name) for name in names[:3])
    record = SearchRecord(
        settings.beam_size, settings.alpha, request.limit(source), steps, result.hypotheses,
        n_forced, settings.sampling, settings.rule,
    )  # fmt: skip
    predicted = Predictions(first.ids, np.array(first.log_probs, dtype=np.float32), *tops)
    return _trace(
        source, encoded, request, predicted, request.forced.pieces, maps, index, score=first.score,
        complete=first.complete, forced_end=first.forced_end, search=record, n_forced=n_forced,
        **along,
    )  # fmt: skip


def trace_targets(
    execution: Execution, sources: Sequence[Source], encoded: Encoded, targets:
    Sequence[Target], request: SearchRequest, begin: Begin | None = None,
) -> Iterator[Trace]:  # fmt: skip
    """Yield traces with teacher forcing: one pass over targets, shifted right (section 3.1).

    Args:
        encoded: the sources, with attention if the request has maps.
        targets: B translations of T tokens, ending in `</s>`.
        begin: called before each layer.
    """
    settings = request.settings
    rows = ([settings.bos_id, *target.ids[:-1]] for target in targets)
    tgt_in = padded(rows, request.reader.config.pad_id, encoded.memory.device)
    decoded, logits = execution.read(tgt_in, encoded, begin, need_weights=request.maps)
    for index, (source, target) in enumerate(zip(sources, targets, strict=True)):
        n, m, maps = len(target.ids), len(source.ids), dict[AttentionKind, Floats]()
        if decoded.self_attention is not None and decoded.cross_attention is not None:
            maps["decoder_self"] = to_array(decoded.self_attention[:, index, :, :n, :n])
            maps["cross"] = to_array(decoded.cross_attention[:, index, :, :n, :m])
        log_probs = normalised(logits[index, :n], settings.excluded)
        predicted = predictions(log_probs, target.ids, settings.top_k)
        score = predicted.log_prob() / settings.penalty(n)
        yield _trace(
            source, encoded, request, predicted, target.pieces, maps, index, score=score,
            forced=True, n_forced=n,
        )  # fmt: skip


def padded(rows: Iterable[Sequence[int]], pad_id: int, device: torch.device) -> Tensor:
    """Return rows of ids as [B, n], padded at the end."""
    return pad_sequence([torch.tensor(row) for row in rows], True, pad_id).to(device)


def _trace(
    source: Source, encoded: Encoded, request: SearchRequest, predicted: Predictions, written:
    tuple[str, ...], maps: dict[AttentionKind, Floats], index: int, **rest: Any,
) -> Trace:  # fmt: skip
    n_source, tokenizer = len(source.ids), request.reader.tokenizer.target
    if encoded.attention is not None:
        maps["encoder_self"] = to_array(encoded.attention[:, index, :, :n_source, :n_source])
    return build_trace(
        tokenizer,
        maps,
        (tokenizer.bos_id, *predicted.ids[:-1]),
        predicted,
        (*tokenizer.shown((tokenizer.bos_id,)), *written),
        source=source.text,
        src_tokens=source.pieces,
        src_ids=source.ids,
        src_unknown=source.unknown,
        src_special=(n_source - 1,),
        tgt_special=(0,),
        text=tokenizer.decode(predicted.ids),
        penalties=penalties(request.settings.penalty, len(predicted.ids)),
        **rest,
    )


def penalties(penalty: Callable[[int], float], n_tokens: int) -> Floats:
    """Return the length penalties of 1 to `n_tokens` tokens."""
    return np.array([penalty(n) for n in range(1, n_tokens + 1)], np.float32)


class _Gap(Hooks):
    """Largest difference between a trace's decoder maps and those of a pass."""

    def __init__(self, trace: Trace) -> None:
        self.trace, self.largest = trace, 0.0

    def wants(self, site: Site) -> bool:
        return site.stack == "decoder" and site.name == "weights"

    def __call__(self, site: Site, value: Tensor) -> Tensor:  # [1, H, T, S]
        assert site.kind is not None and site.layer is not None
        recorded = self.trace.attention(site.kind)[site.layer]
        self.largest = max(self.largest, float(np.abs(to_array(value[0]) - recorded).max()))
        return value


def forcing_gap(
    executions: Executions, trace: Trace, hooks: Hook | None, progress: Progress | None
) -> float:
    """Compare a trace with teacher forcing (section 3.1); see `Translator.forcing_gap`."""
    gap, model = _Gap(trace), executions.model
    begin = layer_progress(progress, model.config.n_decoder_layers)
    ids, device = (trace.src_ids, trace.tgt_ids), model.generator.weight.device
    with torch.inference_mode():
        src, tgt_in = (torch.tensor([row], device=device) for row in ids)  # [1, S], [1, T]
        encoded = executions.choose(hooks).encode(src)
        model.decode(tgt_in, encoded, hooks=Chain(EachLayer(begin), hooks, gap))
    return gap.largest
