"""The residual stream of a trace's tokens: feed-forward networks, early predictions, and choices.

A neuron adds its row of W_2 times its activation to the stream. The output matrix shows the tokens
whose logits such a vector raises.

`lens` reads the residual stream after every layer like the last one (the logit lens of
nostalgebraist, 2020). `later_layers_skipped` gives the edits for a translation from an earlier
encoder layer (DecoderLens, Langedijk et al. 2024). `logit_shares` computes the contribution of all
decoder parts to a choice, and `changes_without` measures the choice without a part.
"""

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from transformer.edits.language import Edit
from transformer.edits.model import Skipped
from transformer.hooks import BLOCKS, Chain, Hook, Hooks, Name, Record, Replace, Site
from transformer.layers import FeedForward, Residual
from transformer.model import Transformer
from transformer.search.request import StateName
from transformer.search.scoring import normalised
from transformer.text.tokenizer import Tokenizer
from transformer.trace import records
from transformer.trace.building import padded, to_array
from transformer.trace.inspection import check_place
from transformer.trace.parts import Part, parts_before, read, without
from transformer.trace.records import Lens, Trace
from transformer.types import ATTENTION_KINDS, Floats, Ints, literals


@dataclass(frozen=True, eq=False)
class LogitShares:
    """Shares of the decoder's parts in the difference of two tokens' logits at one step.

    With the scales of all LayerNorms fixed, the rest of the decoder is linear in the outputs of
    heads and networks, and all shares add up to the difference.
    """

    step: int  # 0-based
    ids: tuple[int, int]  # the second token's logit is subtracted
    difference: float
    parts: list[tuple[Part, float]]  # largest magnitude first; "bias" are all but the networks'


def lens(model: Transformer, trace: Trace, *, excluded: Sequence[int] = ()) -> Lens:
    """Return the distribution after every decoder layer, at every step of a trace.

    Args: excluded: ids without probability, as in the search.
    """
    last = model.config.n_decoder_layers - 1
    sites = [Site("decoder", None, "embedding", "hidden")]
    sites += [Site("decoder", n, "feed_forward", "hidden") for n in range(last + 1)]
    record = read(model, trace, Record(sites))
    rows = []
    with torch.inference_mode():
        ids = torch.tensor(trace.predicted_ids, device=model.generator.weight.device)[:, None]
        for site in sites:
            logits = model.logits(model.decoder_norm(record[site]))[0]  # [T, V]
            log_probs = normalised(logits, excluded)
            top, top_ids = log_probs.max(-1)
            own = log_probs.gather(1, ids)  # [T, 1]
            ranks = 1 + (log_probs > own).sum(-1)
            rows.append((top_ids.cpu().numpy(), to_array(top), ranks.cpu().numpy(),
                         to_array(own[:, 0])))  # fmt: skip
    return Lens(*map(np.stack, zip(*rows, strict=True)))


def later_layers_skipped(depth: int, n_layers: int) -> tuple[Edit, ...]:
    """Return the edits that skip all but the first `depth` of `n_layers` encoder layers."""
    return tuple(Edit("skip", "encoder", layer) for layer in range(depth, n_layers))


def logit_shares(model: Transformer, trace: Trace, step: int, one: int, other: int) -> LogitShares:
    """Return the shares of all parts in the difference of two logits, `one` minus `other`.

    Args: step: 0-based step of the prediction.

    Raises: `ValueError` for a step or token out of range.
    """
    check_place("step", step, len(trace.tgt_ids))
    for token in (one, other):
        check_place("token", int(token), model.config.target_vocab_size)
    record = read(model, trace, Record(lambda site: site.name in ("heads", "output", "hidden")))
    final, generator = Site("decoder", None, "final", "hidden"), model.generator
    with torch.inference_mode():
        reads = generator.weight[one].double() - generator.weight[other].double()
        parts = {
            part: float(reads @ vector)
            for part, vector in parts_before(model, trace, record, final, step).items()
        }
        if generator.bias is not None:
            bias = generator.bias[one].double() - generator.bias[other].double()
            parts[Part("decoder", "bias")] += float(bias)
        logits = model.logits(record[final][0, step]).double()
    largest = sorted(parts.items(), key=lambda part: -abs(part[1]))
    return LogitShares(step, (one, other), float(logits[one] - logits[other]), largest)


def changes_without(
    model: Transformer, trace: Trace, shares: LogitShares, parts: Sequence[Part]
) -> list[float]:
    """Return the measured change in the difference of two logits without each part.

    One pass per part also changes all that follows it, including LayerNorms. Removed heads and
    networks output 0 at every step, as with the edits `off` and `ffn off`; an embedding or position
    is removed at the step of the shares only, and "bias" removes the biases of that share.
    """
    one, other = shares.ids
    final, bias = Site("decoder", None, "final", "hidden"), model.generator.bias

    def difference(part: Part | None) -> float:
        taken = None if part is None else _without(model, trace, shares.step, part)
        hidden = read(model, trace, Record([final]), taken)[final][0, shares.step]
        with torch.inference_mode():
            logits = model.logits(hidden).double()
            if part is not None and part.name == "bias" and bias is not None:
                logits -= bias.double()
        return float(logits[one] - logits[other])

    before = difference(None)
    return [difference(part) - before for part in parts]


def _without(model: Transformer, trace: Trace, step: int, part: Part) -> Hook:
    """Return the hook that removes a part, except for the output projection's bias."""
    if part.name == "bias":
        return Replace({site: bias.neg().add for site, bias in _biases(model).items()})
    return without(model, trace, part, step)


def _biases(model: Transformer) -> dict[Site, Tensor]:
    """Return the decoder's biases outside networks, by the value that they are added to."""
    biases = {Site("decoder", None, "final", "hidden"): getattr(model.decoder_norm, "bias", None)}
    for n, layer in enumerate(model.decoder):
        for block in BLOCKS["decoder"]:
            around: Residual = getattr(layer, f"around_{block}")
            if isinstance(around, Skipped):
                continue
            if not around.pre:
                biases[Site("decoder", n, block, "hidden")] = around.norm.bias
            if block != "feed_forward":
                w_o = getattr(layer, f"{block}_attention").w_o
                biases[Site("decoder", n, block, "output")] = w_o.bias
    return {site: bias for site, bias in biases.items() if bias is not None}


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
