"""All blocks of the model at work on one sentence."""

import math
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from transformer.hooks import Name, Record
from transformer.layers import FeedForward
from transformer.model import Transformer
from transformer.search.request import excluded
from transformer.text.tokenizer import Tokenizer
from transformer.trace.building import to_array
from transformer.trace.lens import lens
from transformer.trace.records import StackName, Stream, Trace, Whole
from transformer.trace.stream import neuron_parts, record_stream, stream_logits
from transformer.types import ATTENTION_KINDS, AttentionKind, Bools, Floats, Ints

#: Numbers of neurons for every token, and of tokens that every part of the decoder raises.
N_NEURONS, N_WORDS = 8, 4
#: Multiplications above which no part is read with the output matrix: about a second.
MOST_READING = 1e10

_NAMES: tuple[Name, ...] = ("q", "k", "v", "scores", "weights", "heads")
_STACKS: tuple[StackName, ...] = ("encoder", "decoder")


@torch.inference_mode()
def record_whole(model: Transformer, pieces: Tokenizer, trace: Trace) -> Whole:
    """Run a trace's tokens through the model again, and record every block.

    Args: pieces: the target's tokenizer.
    """
    record = Record(lambda site: site.name in _NAMES)
    stream = record_stream(model, trace, hooks=record)

    def values(name: Name) -> dict[AttentionKind, Floats]:
        return {kind: to_array(record.layers(kind, name)[:, 0]) for kind in ATTENTION_KINDS}

    q, k = values("q"), values("k")
    parts = {kind: _parts(model, record, kind) for kind in ATTENTION_KINDS}
    neurons: dict[StackName, Ints] = {
        name: np.argsort(-stream.stack(name).inner, axis=-1, kind="stable")[..., :N_NEURONS]
        for name in _STACKS
    }
    words, logits, tokens = _read(model, pieces, stream, torch.cat([
        parts["decoder_self"].transpose(1, 2),
        parts["cross"].transpose(1, 2),
        torch.from_numpy(stream.decoder.outputs[:, -1:].copy()).transpose(1, 2).to(parts["cross"]),
        torch.stack([
            neuron_parts(cast("FeedForward", layer.feed_forward), inner, chosen)
            for layer, inner, chosen in zip(
                model.decoder, stream.decoder.inner, neurons["decoder"], strict=True)
        ]),
    ], dim=2))  # fmt: skip
    read = lens(model, trace, excluded=excluded(model.config))
    return Whole(
        stream, q, k, values("v"), _relative(model, q, k, values("scores")),
        head_norms={kind: to_array(part.norm(dim=-1)) for kind, part in parts.items()},
        held={kind: _held(record, kind) for kind in ATTENTION_KINDS},
        content=_content(model, trace), neurons=neurons, lens=read,
        lens_tokens=tuple(
            tuple(pieces.shown((int(index),))[0] for index in row) for row in read.top_ids
        ),
        words=words, logits=logits, tokens=tokens,
    )  # fmt: skip


def _parts(model: Transformer, record: Record, kind: AttentionKind) -> Tensor:
    """Return the parts of heads in their block's output, [L, H, n, d_model]."""
    layers = []
    for layer, heads in enumerate(record.layers(kind, "heads")[:, 0]):
        w_o = model.attention_block(kind, layer).w_o.weight  # [d_model, H d_v]
        n_heads, _, d_v = heads.shape
        layers.append(heads @ w_o.T.reshape(n_heads, d_v, -1))
    return torch.stack(layers)


def _read(
    model: Transformer, pieces: Tokenizer, stream: Stream, parts: Tensor
) -> tuple[Ints, Floats, tuple[str, ...]]:
    """Read parts [L, T, P, d_model] of the decoder with the output matrix; see `Whole.words`."""
    layers, n, count, d_model = parts.shape
    v, chosen = model.config.target_vocab_size, min(N_WORDS, model.config.target_vocab_size)
    if layers * n * count * d_model * v > MOST_READING:
        nothing = np.zeros((layers, n, 0, chosen))
        return nothing.astype(np.int64), nothing.astype(np.float32), ()
    ids = np.zeros((layers, n, count, chosen), np.int64)
    logits = np.zeros(ids.shape, np.float32)
    for layer, at in np.ndindex(layers, n):
        best = stream_logits(model, stream, layer, at, parts[layer, at]).topk(chosen)
        ids[layer, at], logits[layer, at] = best.indices.cpu().numpy(), to_array(best.values)
    unique, words = np.unique(ids, return_inverse=True)
    tokens = tuple(pieces.shown((int(index),))[0] for index in unique)
    return words.reshape(ids.shape), logits, tokens


def _relative(
    model: Transformer, q: dict[AttentionKind, Floats], k: dict[AttentionKind, Floats],
    scores: dict[AttentionKind, Floats],
) -> dict[AttentionKind, Floats]:  # fmt: skip
    kinds: tuple[AttentionKind, ...] = ("encoder_self", "decoder_self")
    if model.config.positions != "relative":
        return {}
    return {
        kind: scores[kind] - q[kind] @ k[kind].swapaxes(-1, -2) / math.sqrt(q[kind].shape[-1])
        for kind in kinds
    }  # fmt: skip


def _held(record: Record, kind: AttentionKind) -> Bools:
    weights, v, heads = (record.layers(kind, name)[:, 0] for name in ("weights", "v", "heads"))
    away = (weights @ v - heads).abs().amax(dim=(-1, -2))
    held: Bools = (away > 1e-3 * heads.abs().amax().clamp(min=1e-6)).cpu().numpy()
    return held


def _content(model: Transformer, trace: Trace) -> dict[StackName, Floats]:
    device = model.generator.weight.device

    def rows(ids: tuple[int, ...], table: nn.Embedding) -> Floats:
        return to_array(model.content(torch.tensor(ids, device=device), table))

    return {
        "encoder": rows(trace.src_ids, model.src_embedding),
        "decoder": rows(trace.tgt_ids, model.tgt_embedding),
    }
