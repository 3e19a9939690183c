"""Measures of edges: what they add to a block, their shares of source and prefix, and their effect.

An attention block writes y_i = s_i + sum_j f_ij + b_O, where s_i is the residual stream and
f_ij = sum_h a_ij^h (x_j W_V^h + b_V^h) W_O^h is what query i takes from key j. A single head has
its own term of the sum. In a post-norm model a LayerNorm follows. The measures of an edge:

    norm          |f_ij|_2 (Kobayashi et al. 2020)
    zeroing       cosine distance of the token's vector after the block with and without f_ij, as
                  if value vector j were zero (Mohebbi et al. 2023)
    contribution  max(0, |y_i|_1 - |y_i - t_ij|_1), where t_ij is f_ij through the LayerNorm with
                  its scale fixed (Ferrando et al. 2022); in self-attention, t_ii includes s_i

None of a block is a sum or mean over its heads.

ALTI+ (Ferrando et al. 2022, "Towards opening the black box of neural machine translation") combines
contributions layer by layer: what a block takes from each key is a row of shares; the product of
all rows from the input to the last layer gives the shares of source tokens and of earlier target
tokens. Feed-forward networks act on single positions and are taken to keep the shares.

Cutting an edge before the softmax hides a key from one query, and the weights on the other keys
grow. Positions before the query cannot change, nor layers below the cut, so an edge costs one
decoder position in the layers above. Many edges are read as one row, each seeing the keys and
values of earlier positions and its own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor, nn

from transformer.attention import MultiHeadAttention
from transformer.edits.model import Skipped, WithoutResidual
from transformer.hooks import BLOCKS, Context, Hooks, Record, Site, Stack
from transformer.layers import Residual
from transformer.model import Transformer
from transformer.steps import KVCache
from transformer.trace.building import to_array
from transformer.trace.inspection import check_place
from transformer.trace.parts import read
from transformer.trace.records import Trace
from transformer.types import ATTENTION_KINDS, AttentionKind, Bools, Floats, Report, literals

#: Edges that are read at once, and pieces of the vocabulary that are scored at once: a block of
#: logits stays in the processor's caches.
_EDGES, _PIECES = 320, 2048


class _Cut(Hooks):
    """Lets each query see earlier positions and itself, and hides one key from it.

    A query without keys reads nothing.
    """

    def __init__(
        self, kind: AttentionKind, layer: int | None, head: int | None, steps: Tensor, keys: Tensor,
        n_earlier: int,
    ) -> None:  # fmt: skip
        """Args: steps, keys: [N].  n_earlier: positions before the queries' own."""
        self.kind, self.layer, self.head = kind, layer, head
        own = torch.arange(len(steps), device=steps.device) + n_earlier
        places = torch.arange(n_earlier + len(steps), device=steps.device)
        self.ahead = (places >= steps[:, None]) & (places != own[:, None])  # [N, n + N]
        self.keys = torch.where(keys == steps, own, keys) if kind == "decoder_self" else keys

    def wants(self, site: Site) -> bool:
        return site.kind in ("decoder_self", "cross") and site.name in ("scores", "weights")

    def __call__(self, site: Site, value: Tensor) -> Tensor:  # [1, H, N, m]
        if site.name == "weights":
            return value.nan_to_num(0.0)
        if site.kind == "decoder_self":
            value = value.masked_fill(self.ahead, -math.inf)
        if site.kind == self.kind and self.layer in (None, site.layer):
            value = value.clone()
            heads = slice(None) if self.head is None else slice(self.head, self.head + 1)
            value[0, heads, torch.arange(len(self.keys)), self.keys] = -math.inf
        return value


@literals
def effects(
    model: Any, trace: Trace, kind: AttentionKind, layer: int | None = None,
    head: int | None = None, *, excluded: Sequence[int] = (), progress: Report | None = None,
) -> Floats:  # fmt: skip
    """Return the effect of every edge of the decoder on the token that its row predicts.

    Args:
        model: a `Transformer`, or a causal model with one stack of its blocks.
        kind: "decoder_self" or "cross".
        layer, head: 0-based; None cuts the edge in all of them at once.
        excluded: ids without probability, as in the search.
        progress: called with (edges done, all edges); may raise to stop.

    Returns: [T, m] in nats, negative where the token becomes less likely; 0 for masked keys.

    Raises: `ValueError` for "encoder_self", whose edges belong to no step, or a missing head.
    """
    if kind == "encoder_self":
        raise ValueError("encoder edges belong to no step; expected decoder_self or cross")
    n_layers, n_heads, n_steps, n_keys = trace.attention(kind).shape
    for name, value, limit in (("layer", layer, n_layers), ("head", head, n_heads)):
        if value is not None:
            check_place(name, value, limit)
    device, result = model.generator.weight.device, np.zeros((n_steps, n_keys), np.float32)
    every = np.argwhere(np.tri(n_steps) if kind == "decoder_self" else np.ones_like(result))
    first, cache, positions = layer or 0, KVCache(), torch.arange(n_steps, device=device)
    below = Site("decoder", first - 1, "feed_forward", "hidden")
    below = below if first else Site("decoder", None, "embedding", "hidden")
    record = Record([below])
    with torch.inference_mode():
        tgt_in = torch.tensor([trace.tgt_ids], device=device)
        sources: tuple[Tensor, ...] = ()
        if isinstance(model, Transformer):
            encoded = model.encode(torch.tensor([trace.src_ids], device=device))
            read = model.decode(tgt_in, encoded, cache=cache, hooks=record).hidden
            layers, norm, sources = model.decoder, model.decoder_norm, (encoded.memory,)
        else:
            real, alone = torch.ones_like(tgt_in).bool(), Context("decoder", record, cache=cache)
            read = model.extend(tgt_in, real, alone)
            layers, norm = model.layers, model.norm
        (entering,) = record.values[below]
        relative = model.distances("decoder_self", n_steps, n_steps)
        own = torch.tensor(trace.predicted_ids, device=device)
        before = _log_probs(model, read[0], own, excluded)
        for start in range(0, len(every), _EDGES):
            some = every[start : start + _EDGES].T
            steps, keys = torch.tensor(some, device=device)
            places, x = torch.cat([positions, steps]), entering[:, steps]  # [1, N, d_model]
            at = Context(
                "decoder", _Cut(kind, layer, head, steps, keys, n_steps), cache.start(n_steps, 1),
                None if relative is None else relative[:, :, steps][..., places],
                start=n_steps, queries=steps, keys=places,
            )  # fmt: skip
            for index, block in enumerate(layers):
                x = block(x, *sources, None, at.layer(index)) if index >= first else x
            after = _log_probs(model, norm(x)[0], own[steps], excluded)
            result[tuple(some)] = to_array(after - before[steps])
            if progress is not None:
                progress(min(start + _EDGES, len(every)), len(every))
    return result


def _log_probs(model: Any, hidden: Tensor, tokens: Tensor, excluded: Sequence[int]) -> Tensor:
    """Return the log-probability of one token after each hidden state [R, d_model]: [R]."""
    weight, bias = model.generator.weight, model.generator.bias
    own = (hidden * weight[tokens]).sum(1) + (0 if bias is None else bias[tokens])
    never = torch.zeros(len(weight), dtype=torch.bool, device=weight.device)
    never[list(excluded)] = True
    sums = []
    for first in range(0, len(weight), _PIECES):
        part = slice(first, first + _PIECES)
        logits = nn.functional.linear(hidden, weight[part], None if bias is None else bias[part])
        sums.append(logits.masked_fill_(never[part], -math.inf).logsumexp(1))
    result: Tensor = own - torch.stack(sums).logsumexp(0)
    return result


Measure = Literal["norm", "zeroing", "contribution"]
MEASURES: tuple[Measure, ...] = get_args(Measure)

_MOST_NUMBERS = 4_000_000  # of edges at once, times d_model: 32 MB


@dataclass(frozen=True, eq=False)
class Edges:
    """One measure of all edges of a trace. Values are not negative; masked edges have 0."""

    measure: Measure
    heads: dict[AttentionKind, Floats]  # [L, H, n, m], of single heads
    blocks: dict[AttentionKind, Floats]  # [L, n, m], of all heads of a block together
    #: [L, n], contribution of the residual stream in cross-attention; 0 for other kinds, measures
    streams: dict[AttentionKind, Floats]
    #: largest difference of a number in a block's output from the sum of its parts
    gap: float = 0.0


def row_shares(values: Floats, streams: Floats | None = None) -> Floats:
    """Divide rows [..., n, m] by their sums; rows of zeros stay zero.

    Args: streams: [..., n], counted in the sums.
    """
    total = values.sum(-1, dtype=np.float64) + (0 if streams is None else streams)
    total = total[..., None]
    shares: Floats = np.divide(values, total, out=np.zeros_like(values), where=total > 0)
    return shares


@literals
def edges(
    model: Any, trace: Trace, measure: Measure, *,
    kinds: Sequence[AttentionKind] = ATTENTION_KINDS, progress: Report | None = None,
) -> Edges:  # fmt: skip
    """Measure all edges of a trace, by one pass of the model.

    Args:
        model: a `Transformer`, or a model with one stack of its blocks, with its own kinds.
        kinds: kinds of attention to measure.
        progress: called with (blocks done, all blocks); may raise to stop.
    """
    result, gap, done = Edges(measure, {}, {}, {}), 0.0, 0
    with torch.inference_mode():
        every = _blocks(model, trace)
        blocks = {kind: every[kind] for kind in kinds}
        for kind, layers in blocks.items():
            rows = []
            for block in layers:
                rows.append([to_array(values) for values in block.measured(measure)])
                gap, done = max(gap, block.gap), done + 1
                if progress is not None:
                    progress(done, sum(map(len, blocks.values())))
            result.heads[kind], result.blocks[kind], result.streams[kind] = (
                np.stack(arrays) for arrays in zip(*rows, strict=True)
            )
    return Edges(measure, result.heads, result.blocks, result.streams, gap)


class _Block(NamedTuple):
    """The values in one attention block; n queries, m keys."""

    weights: Tensor  # [H, n, m]
    values: Tensor  # [H, m, d_model], value vectors through W_O
    stream: Tensor  # [n, d_model], the residual stream before it
    bias: Tensor  # [d_model], b_O
    output: Tensor  # [n, d_model], the residual stream after it
    sums: Tensor  # [n, d_model], the same before the LayerNorm of a post-norm model
    norm: nn.LayerNorm | None  # None without one
    own: bool  # self-attention: query i and key i have the same stream

    def measured(self, measure: Measure) -> tuple[Tensor, Tensor, Tensor]:
        """Return the measure of heads [H, n, m], of the block [n, m], and of the stream [n]."""
        n_heads, n, m = self.weights.shape
        heads, block, stream = torch.zeros(n_heads, n, m), torch.zeros(n, m), torch.zeros(n)
        size = max(1, _MOST_NUMBERS // (m * self.stream.size(1)))
        for start in range(0, n, size):
            rows = slice(start, start + size)
            weights = self.weights[:, rows, :, None]  # [H, n', m, 1]
            for head, values in enumerate(self.values):
                heads[head, rows] = self._of(measure, rows, weights[head] * values).float()
            taken = torch.einsum("hij,hjd->ijd", self.weights[:, rows], self.values)
            if measure == "contribution" and self.own:
                index = torch.arange(len(taken))
                taken[index, index + start] += self.stream[rows]
            elif measure == "contribution":
                stream[rows] = self._of(measure, rows, self.stream[rows, None])[:, 0]
            block[rows] = self._of(measure, rows, taken)
        return heads, block, stream

    def _of(self, measure: Measure, rows: slice, taken: Tensor) -> Tensor:
        """Measure vectors [n', m, d_model] that queries take: [n', m]."""
        if measure == "norm":
            lengths: Tensor = torch.linalg.vector_norm(taken, dim=-1)
            return lengths
        if measure == "contribution":
            output, scaled = self.output[rows, None], self._scaled(taken, rows)
            return (output.abs() - (output - scaled).abs()).sum(-1).clamp(min=0)
        sums = self.sums[rows, None]
        whole, without = (self._direction(vectors) for vectors in (sums, sums - taken))
        return (whole - without).square().sum(-1) / 2  # 1 - cosine, exact for small differences

    def _direction(self, sums: Tensor) -> Tensor:
        """Take sums [..., d_model] through the LayerNorm and divide them by their lengths."""
        norm, shape = self.norm, sums.shape[-1:]
        if norm is not None:
            gain, shift = norm.weight, norm.bias
            sums = nn.functional.layer_norm(sums, shape, gain, shift, norm.eps)
        return nn.functional.normalize(sums, dim=-1)

    def _scaled(self, parts: Tensor, rows: slice) -> Tensor:
        """Take parts [n', m, d_model] of the sums through the LayerNorm with its scale fixed."""
        if self.norm is None:
            return parts
        scale = (self.sums[rows].var(-1, correction=0) + self.norm.eps).sqrt()[:, None, None]
        return (parts - parts.mean(-1, keepdim=True)) / scale * self.norm.weight

    @property
    def gap(self) -> float:
        """Largest difference of a number in the output from the sum of parts and biases."""
        parts = torch.einsum("hij,hjd->id", self.weights, self.values) + self.stream + self.bias
        total = self._scaled(parts[:, None], slice(None))[:, 0]
        total = total if self.norm is None else total + self.norm.bias
        return float((total - self.output).abs().max())


def _blocks(model: Any, trace: Trace) -> dict[AttentionKind, list[_Block]]:
    """Run a trace's tokens through the model; return its attention blocks by kind and layer."""
    record = Record(lambda site: site.name in ("v", "weights", "output", "hidden"))
    stacks: dict[Stack, Any]
    if isinstance(model, Transformer):
        read(model, trace, record)
        stacks = {"encoder": model.encoder, "decoder": model.decoder}
    else:
        stacks = {"decoder" if model.config.causal else "encoder": model.layers}
        ids = trace.tgt_ids if model.config.causal else trace.src_ids
        model.read(torch.tensor([ids], device=model.generator.weight.device), hooks=record)
    blocks: dict[AttentionKind, list[_Block]] = {kind: [] for kind in ATTENTION_KINDS}
    for stack, layers in stacks.items():
        before = record[Site(stack, None, "embedding", "hidden")]
        for index, layer in enumerate(layers):
            for name in BLOCKS[stack]:
                if not hasattr(layer, f"around_{name}"):
                    continue  # a causal stack has no cross-attention
                site = Site(stack, index, name, "hidden")
                if site.kind is not None:
                    around = getattr(layer, f"around_{name}")
                    attention = model.attention_block(site.kind, index)
                    blocks[site.kind].append(_block(record, site, around, attention, before))
                before = record[site]
    return blocks


def _block(
    record: Record, site: Site, around: Residual, attention: MultiHeadAttention, before: Tensor
) -> _Block:
    weights, v, added, output = (
        record[site._replace(name=name)][0] for name in ("weights", "v", "output", "hidden")
    )
    w_o = attention.w_o.weight.view(-1, attention.n_heads, attention.d_v)
    bias: Tensor | None = attention.w_o.bias
    bias = torch.zeros_like(added[0]) if bias is None else bias
    values = torch.einsum("hjv,dhv->hjd", v, w_o)
    stream = before[0]
    if isinstance(around, Skipped):
        values, bias = torch.zeros_like(values), torch.zeros_like(bias)
    elif isinstance(around, WithoutResidual):
        stream = torch.zeros_like(stream)
    norm = None if around.pre or isinstance(around, Skipped) else around.norm
    own = site.kind != "cross"
    return _Block(weights, values, stream, bias, output, stream + added, norm, own)


#: A token is loose if its source share is below this part of the median of all tokens but the last.
LOOSE = 2 / 3


@dataclass(frozen=True, eq=False)
class Mix:
    """Shares of every input in every prediction; a row of `source` and `prefix` sums to 1."""

    source: Floats  # [T, S]
    prefix: Floats  # [T, T], of the decoder's inputs; 0 after the diagonal

    @property
    def source_share(self) -> Floats:
        """Share of the whole source in each prediction, [T]."""
        shares: Floats = self.source.sum(-1)
        return shares


def mix(contributions: Edges) -> Mix:
    """Combine contributions over all layers.

    Args: contributions: of `edges(model, trace, "contribution")`.
    """
    rows, streams = contributions.blocks, contributions.streams
    read = np.eye(rows["encoder_self"].shape[-1])
    for layer in row_shares(rows["encoder_self"]):
        read = layer @ read  # [S, S]
    n = rows["decoder_self"].shape[-1]
    source, prefix = np.zeros((n, len(read))), np.eye(n)
    for own, cross, stream in zip(
        row_shares(rows["decoder_self"]), rows["cross"], streams["cross"], strict=True
    ):
        looked = row_shares(cross, stream)  # [T, S]
        kept = 1 - looked.sum(-1, keepdims=True, dtype=np.float64)
        source, prefix = looked @ read + kept * (own @ source), kept * (own @ prefix)
    return Mix(source.astype(np.float32), prefix.astype(np.float32))


def loose(source_share: Floats) -> Bools:
    """Return True for the tokens whose share of the source is far below the others', [T].

    The last token is none of the others and never loose: the share drops at every end.

    Args: source_share: [T], of one translation.
    """
    marks: Bools = np.zeros(len(source_share), bool)
    marks[:-1] = source_share[:-1] < LOOSE * np.median(source_share[:-1]) if marks[1:].size else ()
    return marks
