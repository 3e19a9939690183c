"""Building a `Trace` from a search, along its best hypothesis, or from a given target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from transformer.execution import Begin, Execution
from transformer.hooks import Hooks, Site
from transformer.model import Encoded
from transformer.search.beam import Found, SearchSettings
from transformer.search.reader import Source
from transformer.search.records import SearchRecord, SearchStep
from transformer.search.scoring import entropy_nats
from transformer.text.tokenizer import Tokenizer
from transformer.trace.records import Trace
from transformer.types import Bools, Floats, Ints


def trace_search(
    source: Source,
    encoded: Encoded,
    found: Found,
    settings: SearchSettings,
    max_length: int,
    tokenizer: Tokenizer,
    n_forced: int = 0,
    *,
    index: int = 0,
) -> Trace:
    """Stitch the recorded maps of a search together, along its best hypothesis.

    Args:
        encoded: with attention.  found: of a recording search.
        n_forced: number of tokens of the prefix.
        index: of the sentence in `encoded`.
    """
    best, steps = found.hypotheses[0], found.steps
    n_steps = len(best.ids)
    n_layers, n_heads = steps[0].cross.shape[1:3]
    decoder_self = np.zeros((n_layers, n_heads, n_steps, n_steps), dtype=np.float32)
    for t, row in enumerate(best.rows):
        decoder_self[:, :, t, : t + 1] = steps[t].decoder_self[row]
    along = [(steps[t], row) for t, row in enumerate(best.rows)]
    return _trace(
        source,
        encoded,
        tokenizer,
        index=index,
        predicted=best.ids,
        decoder_self=decoder_self,
        cross=np.stack([step.cross[row] for step, row in along], axis=2),
        log_probs=np.array(best.log_probs, dtype=np.float32),
        top_ids=np.stack([step.top_ids[row] for step, row in along]),
        top_log_probs=np.stack([step.top_log_probs[row] for step, row in along]),
        entropy=np.array([step.entropy[row] for step, row in along], dtype=np.float32),
        score=best.score,
        complete=best.complete,
        search=SearchRecord(
            settings.beam_size,
            settings.alpha,
            max_length,
            steps,
            found.hypotheses,
            n_forced,
            settings.sampling,
            settings.rule,
        ),
        n_forced=n_forced,
        **_cut_off(along),
    )


def _cut_off(along: Sequence[tuple[SearchStep, int]]) -> dict[str, Any]:
    """Return the tokens sampling could choose along the best hypothesis: [T, K] and [T]."""
    every = [
        (step.allowed[row], step.n_allowed[row])
        for step, row in along
        if step.allowed is not None and step.n_allowed is not None
    ]
    if not every:
        return {}
    allowed, n_allowed = zip(*every, strict=True)
    return {"allowed": np.stack(allowed), "n_allowed": np.array(n_allowed, dtype=np.int64)}


class ForcingGap(Hooks):
    """Compares a trace's decoder maps with the weights of one pass over its translation.

    A search records step by step, with a cache and many rows. Teacher forcing (section 3.1) gives
    the same up to rounding. Only one layer's maps are in memory at a time.

    Attributes:
        largest: the largest difference so far.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace, self.largest = trace, 0.0

    def wants(self, site: Site) -> bool:
        """Whether these are weights of the decoder."""
        return site.stack == "decoder" and site.name == "weights"

    def __call__(self, site: Site, value: Tensor) -> Tensor:
        """Compare one row's weights [1, H, T, S]."""
        assert site.kind is not None and site.layer is not None
        recorded = self.trace.attention(site.kind)[site.layer]
        self.largest = max(self.largest, float(np.abs(_array(value[0]) - recorded).max()))
        return value


def trace_target(
    execution: Execution,
    source: Source,
    encoded: Encoded,
    target: Sequence[int],
    settings: SearchSettings,
    tokenizer: Tokenizer,
    begin: Begin | None = None,
) -> Trace:
    """Teacher forcing: the decoder reads `target` in one pass, shifted right (section 3.1).

    Args:
        encoded: one sentence, with attention.  target: [T] ids, ending in `</s>`.
        begin: called before each layer.
    """
    device = encoded.memory.device
    wanted = torch.tensor(target, device=device)  # [T]
    bos = torch.tensor([settings.bos_id], device=device)
    decoded, logits = execution.read(torch.cat([bos, wanted[:-1]])[None], encoded, begin)
    assert decoded.self_attention is not None and decoded.cross_attention is not None
    every = settings.log_probs(logits[0])  # [T, V]
    top_log_probs, top_ids = every.topk(min(settings.top_k, every.size(1)), dim=1)
    log_probs = every.gather(1, wanted[:, None])[:, 0]
    return _trace(
        source,
        encoded,
        tokenizer,
        predicted=tuple(target),
        decoder_self=_array(decoded.self_attention[:, 0]),
        cross=_array(decoded.cross_attention[:, 0]),
        log_probs=_array(log_probs),
        top_ids=top_ids.cpu().numpy(),
        top_log_probs=_array(top_log_probs),
        entropy=_array(entropy_nats(every)),
        score=float(log_probs.double().sum()) / settings.penalty(len(target)),
        complete=True,
        forced=True,
        n_forced=len(target),
    )


def _trace(
    source: Source,
    encoded: Encoded,
    tokenizer: Tokenizer,
    *,
    predicted: tuple[int, ...],
    decoder_self: Floats,
    cross: Floats,
    log_probs: Floats,
    top_ids: Ints,
    top_log_probs: Floats,
    entropy: Floats,
    score: float,
    complete: bool,
    index: int = 0,
    forced: bool = False,
    search: SearchRecord | None = None,
    n_forced: int = 0,
    allowed: Bools | None = None,
    n_allowed: Ints | None = None,
) -> Trace:
    assert encoded.attention is not None
    n_source = len(source.ids)
    encoder_self = _array(encoded.attention[:, index, :, :n_source, :n_source])
    for array in (encoder_self, decoder_self, cross, log_probs, top_ids, top_log_probs, entropy):
        array.setflags(write=False)
    tgt_ids = (tokenizer.bos_id, *predicted[:-1])
    alternatives = zip(top_ids.tolist(), tgt_ids, strict=True)
    return Trace(
        src_tokens=source.pieces,
        tgt_tokens=tokenizer.shown(tgt_ids),
        predicted_tokens=tokenizer.shown(predicted),
        src_ids=source.ids,
        tgt_ids=tgt_ids,
        predicted_ids=predicted,
        encoder_self=encoder_self,
        decoder_self=decoder_self,
        cross=cross,
        log_probs=log_probs,
        top_ids=top_ids,
        top_log_probs=top_log_probs,
        top_tokens=tuple(
            tuple(tokenizer.shown((token,), before)[0] for token in row)
            for row, before in alternatives
        ),
        entropy=entropy,
        source=source.text,
        text=tokenizer.decode(predicted),
        score=score,
        src_unknown=source.unknown,
        src_special=(len(source.ids) - 1,),
        tgt_special=(0,),
        complete=complete,
        forced=forced,
        search=search,
        n_forced=n_forced,
        allowed=allowed,
        n_allowed=n_allowed,
    )


def _array(tensor: Tensor) -> Floats:
    """Return a contiguous float32 NumPy array."""
    array: Floats = np.ascontiguousarray(tensor.float().cpu().numpy())
    return array
