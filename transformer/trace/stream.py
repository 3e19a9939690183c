"""The residual stream of a trace's tokens, and its feed-forward networks.

A neuron adds its row of W_2 times its activation to the stream. The output matrix shows the tokens
whose logits such a vector raises.
"""

import dataclasses
from collections.abc import Collection, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from transformer.hooks import BLOCKS, Chain, Hook, Hooks, Name, Record, Site
from transformer.layers import FeedForward
from transformer.model import Transformer
from transformer.search.request import StateName
from transformer.text.tokenizer import Tokenizer
from transformer.trace import records
from transformer.trace.building import padded, to_array
from transformer.trace.inspection import check_place
from transformer.trace.parts import read
from transformer.types import ATTENTION_KINDS, Floats, Ints, literals


def record_stream(
    model: Transformer, trace: records.Trace, *, hooks: Hook | None = None
) -> records.Stream:
    """Run a trace's tokens through the model with hooks, and record the stream after all blocks."""
    wanted = Record(lambda site: site.name in ("output", "hidden", "inner"))
    record = read(model, trace, wanted, hooks)
    config = model.config
    return records.Stream(
        encoder=_stack(record, "encoder", config.n_encoder_layers, trace.src_tokens),
        decoder=_stack(record, "decoder", config.n_decoder_layers, trace.tgt_tokens),
        pre_norm=config.norm == "pre",
    )


def with_states(
    model: Transformer,
    traces: Sequence[records.Trace],
    names: Collection[StateName],
    hooks: Hooks | None = None,
) -> list[records.Trace]:
    """Return traces with states from one more pass, in one batch.

    Args: hooks: hooks of the traces, for these rows.
    """
    if not names or not traces:
        return list(traces)
    recorded = {"v" if name == "value_norms" else name for name in names}
    record = Record(lambda site: site.name in recorded)
    every, device = Chain(hooks, record), model.generator.weight.device
    pad = model.config.pad_id
    with torch.inference_mode():
        src, tgt_in = (padded(ids, pad, device) for ids in zip(
            *((trace.src_ids, trace.tgt_ids) for trace in traces), strict=True
        ))  # fmt: skip
        model.decode(tgt_in, model.encode(src, hooks=every), hooks=every)
    return [
        dataclasses.replace(trace, states=_states(record, row, trace, names))
        for row, trace in enumerate(traces)
    ]


def _states(
    record: Record, row: int, trace: records.Trace, names: Collection[StateName]
) -> records.States:
    lengths: dict[records.StackName, int] = {
        "encoder": len(trace.src_ids), "decoder": len(trace.tgt_ids),
    }  # fmt: skip
    states = records.States()
    for stack, n in lengths.items() if "hidden" in names else ():
        sites = [site for site in record.values if site.name == "hidden" and site.stack == stack
                 and site.block in ("embedding", "feed_forward")]  # fmt: skip
        states.hidden[stack] = np.stack([to_array(record[site][row, :n]) for site in sites])
    for kind in ATTENTION_KINDS:
        n = lengths["encoder" if kind == "encoder_self" else "decoder"]
        m = lengths["decoder" if kind == "decoder_self" else "encoder"]
        if "heads" in names:
            states.heads[kind] = to_array(record.layers(kind, "heads")[:, row, :, :n])
        if "value_norms" in names:
            norms = record.layers(kind, "v")[:, row, :, :m].norm(dim=-1)
            states.value_norms[kind] = to_array(norms)
    return states


@literals
def read_feed_forward(
    model: Transformer, pieces: Tokenizer, stream: records.Stream, stack: records.StackName,
    layer: int, position: int, *, n_neurons: int = 10, n_tokens: int = 8,
) -> records.FeedForwardReading:  # fmt: skip
    """Read the output of one feed-forward network for one token, and its most active neurons.

    Args:
        pieces: the target's tokenizer.
        stream: recorded with this model.
        layer, position: 0-based.
        n_neurons, n_tokens: numbers of neurons and tokens to return.

    Raises: `ValueError` for a layer or position out of range.
    """
    recorded = stream.stack(stack)
    check_place("layer", layer, len(recorded.hidden))
    check_place("position", position, len(recorded.tokens))
    inner, added = recorded.inner[layer, position], recorded.outputs[layer, -1, position]
    neurons = np.argsort(-inner, kind="stable")[:n_neurons]
    network: FeedForward = getattr(model, stack)[layer].feed_forward
    with torch.inference_mode():
        rows = neuron_parts(network, inner, neurons)
        reading = records.FeedForwardReading(
            recorded.tokens[position], added, inner, neurons, sizes=to_array(rows.norm(dim=-1))
        )
        if stack == "encoder":
            return reading
        vectors = torch.cat([torch.from_numpy(added.copy()).to(rows)[None], rows])
        logits = stream_logits(model, stream, layer, position, vectors)  # [1 + k, V]
        return dataclasses.replace(
            reading,
            promoted=_promoted(logits[0], pieces, n_tokens),
            neuron_promoted=tuple(_promoted(row, pieces, n_tokens) for row in logits[1:]),
            exact=layer == model.config.n_decoder_layers - 1,
        )


def neuron_parts(network: FeedForward, inner: Floats, neurons: Ints) -> Tensor:
    """Return what neurons [..., k] with activations [..., d_ff] add, [..., k, d_model]."""
    weight = network.w_2.weight  # [d_model, d_ff]
    activations = np.take_along_axis(inner, neurons, axis=-1)
    rows = weight.T[torch.from_numpy(neurons.copy()).to(weight.device)]
    return rows * torch.from_numpy(activations).to(rows)[..., None]


def stream_logits(
    model: Transformer, stream: records.Stream, layer: int, position: int, vectors: Tensor
) -> Tensor:
    """Return the logits [k, V] that vectors in the stream add, skipping later layers.

    The LayerNorm uses this token's variance, so parts of the stream are parts of the logits: in the
    last layer they add up to the model's.
    """
    recorded = stream.decoder
    norm: nn.LayerNorm
    if stream.pre_norm:
        norm, total = model.decoder_norm, recorded.hidden[-1, -1, position]  # type: ignore[assignment]
    else:
        norm = model.decoder[layer].around_feed_forward.norm  # type: ignore[assignment]
        total = recorded.before[layer, -1, position] + recorded.outputs[layer, -1, position]
    scale = float(np.sqrt(total.var(dtype=np.float64) + norm.eps))
    centred = vectors - vectors.mean(dim=-1, keepdim=True)
    return (centred / scale * norm.weight) @ model.generator.weight.T


def _promoted(logits: Tensor, pieces: Tokenizer, count: int) -> records.Promoted:
    values, ids = logits.topk(min(count, logits.numel()))
    return records.Promoted(
        ids=ids.cpu().numpy(),
        tokens=tuple(pieces.shown((int(index),))[0] for index in ids),
        logits=to_array(values),
    )


def _stack(
    record: Record, stack: records.StackName, depth: int, tokens: Sequence[str]
) -> records.StackStream:
    def layers(name: Name) -> Floats:
        return np.stack([
            np.stack([
                to_array(record[Site(stack, layer, block, name)][0])
                for block in BLOCKS[stack]
            ])
            for layer in range(depth)
        ])  # fmt: skip

    inner = [record[Site(stack, layer, "feed_forward", "inner")][0] for layer in range(depth)]
    return records.StackStream(
        tokens=tuple(tokens),
        blocks=BLOCKS[stack],
        entering=to_array(record[Site(stack, None, "embedding", "hidden")][0]),
        outputs=layers("output"),
        hidden=layers("hidden"),
        leaving=to_array(record[Site(stack, None, "final", "hidden")][0]),
        inner=to_array(torch.stack(inner)),
    )
