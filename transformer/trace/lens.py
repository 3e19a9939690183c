"""Predictions of the decoder's early layers, and the parts of a choice between two tokens.

`lens` reads the residual stream after every layer like the last one (the logit lens of
nostalgebraist, 2020). `later_layers_skipped` gives the edits for a translation from an earlier
encoder layer (DecoderLens, Langedijk et al. 2024). `logit_shares` computes the contribution of all
decoder parts to a choice, and `changes_without` measures the choice without a part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from transformer.edits.language import Edit
from transformer.edits.model import Skipped, WithoutResidual
from transformer.hooks import BLOCKS, Chain, HeadGates, Hook, Record, Replace, Site
from transformer.layers import Residual
from transformer.model import Transformer
from transformer.search.scoring import normalised
from transformer.trace.building import to_array
from transformer.trace.inspection import check_place
from transformer.trace.records import Lens, LogitShares, Trace
from transformer.types import AttentionKind, Floats


class Part(NamedTuple):
    """A decoder part that adds to the logits at one step; layer and head are 0-based."""

    kind: Literal["decoder_self", "cross", "feed_forward", "embedding", "position", "bias"]
    layer: int | None = None  # layer of the head or network
    head: int | None = None


def lens(
    model: Transformer, trace: Trace, *, excluded: Sequence[int] = (), hooks: Hook | None = None
) -> Lens:
    """Return the distribution after every decoder layer, at every step of a trace.

    Args:
        excluded: ids without probability, as in the search.
        hooks: hooks of the trace.
    """
    config = model.config
    last = config.n_decoder_layers - 1
    sites = [Site("decoder", None, "embedding", "hidden")]
    sites += [Site("decoder", n, "feed_forward", "hidden") for n in range(last + 1)]
    record = _decoded(model, trace, Record(sites), hooks)
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


def logit_shares(
    model: Transformer, trace: Trace, step: int, one: int, other: int, *,
    hooks: Hook | None = None,
) -> LogitShares:  # fmt: skip
    """Return the shares of all parts in the difference of two logits, `one` minus `other`.

    Args:
        step: 0-based step of the prediction.
        hooks: hooks of the trace.

    Raises: `ValueError` for a step or token out of range.
    """
    config = model.config
    check_place("step", step, len(trace.tgt_ids))
    for token in (one, other):
        check_place("token", int(token), config.target_vocab_size)
    record = Record(lambda site: site.name in ("heads", "output", "hidden"))
    _decoded(model, trace, record, hooks)

    def value(site: Site) -> Tensor:
        return record[site][0][..., step, :].double()

    n_layers, shape = config.n_decoder_layers, config.head_shapes["cross"]
    heads: dict[AttentionKind, Floats] = {
        kind: np.zeros(shape, np.float32) for kind in ("decoder_self", "cross")
    }
    networks = np.zeros(n_layers, np.float32)
    with torch.inference_mode():
        read = model.generator.weight[one].double() - model.generator.weight[other].double()
        bias = 0.0
        if model.generator.bias is not None:
            bias = float(model.generator.bias[one].double() - model.generator.bias[other].double())
        entering = Site("decoder", None, "embedding", "hidden")
        places = [(n, block) for n in range(n_layers) for block in BLOCKS["decoder"]]
        behind = [Site("decoder", n, block, "hidden") for n, block in places]
        norm = model.decoder_norm
        if isinstance(norm, nn.LayerNorm):
            read, share = _through(norm, value(behind[-1]), read)
            bias += share
        stack = list(zip(places, [entering, *behind], strict=False))
        for (layer, block), before in reversed(stack):
            around: Residual = getattr(model.decoder[layer], f"around_{block}")
            if isinstance(around, Skipped):
                continue
            added = value(Site("decoder", layer, block, "output"))
            alone = isinstance(around, WithoutResidual)
            if not around.pre:
                read, share = _through(around.norm, added + (0 if alone else value(before)), read)
                bias += share
            if block == "feed_forward":
                networks[layer] = float(read @ added)
            else:
                kind: AttentionKind = "cross" if block == "cross" else "decoder_self"
                w_o = model.attention_block(kind, layer).w_o
                out = value(Site("decoder", layer, block, "heads")).flatten()  # [H d_v]
                parts = (read @ w_o.weight.double()) * out
                heads[kind][layer] = to_array(parts.view(shape[1], -1).sum(-1))
                bias += 0.0 if w_o.bias is None else float(read @ w_o.bias.double())
            if alone:
                read = torch.zeros_like(read)
        token_in = torch.tensor([[trace.tgt_ids[step]]], device=read.device)
        content = model.content(token_in, model.tgt_embedding)[0, 0].double()
        embedding = float(read @ content)
        position = float(read @ (value(entering) - content))
        logits = model.logits(record[Site("decoder", None, "final", "hidden")][0, step]).double()
    return LogitShares(
        step, (one, other), float(logits[one] - logits[other]), heads, networks, embedding,
        position, bias,
    )  # fmt: skip


def parts_of(shares: LogitShares) -> list[tuple[Part, float]]:
    """Return all parts with their shares, largest magnitude first."""
    parts = [
        (Part(kind, layer, head), float(share))
        for kind, table in shares.heads.items()
        if kind != "encoder_self"
        for (layer, head), share in np.ndenumerate(table)
    ]
    parts += [(Part("feed_forward", n), float(x)) for n, x in enumerate(shares.feed_forward)]
    parts += [
        (Part("embedding"), shares.embedding), (Part("position"), shares.position),
        (Part("bias"), shares.bias),
    ]  # fmt: skip
    return sorted(parts, key=lambda part: -abs(part[1]))


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
        without = None if part is None else _without(model, trace, shares.step, part)
        hidden = _decoded(model, trace, Record([final]), without)[final][0, shares.step]
        with torch.inference_mode():
            logits = model.logits(hidden).double()
            if part is not None and part.kind == "bias" and bias is not None:
                logits -= bias.double()
        return float(logits[one] - logits[other])

    before = difference(None)
    return [difference(part) - before for part in parts]


def _without(model: Transformer, trace: Trace, step: int, part: Part) -> Hook:
    """Return the hook that removes a part, except for the output projection's bias."""
    kind, layer, head = part
    if kind in ("decoder_self", "cross") and layer is not None and head is not None:
        return HeadGates.of(model.config, {(kind, layer, head): 0.0})
    if kind == "feed_forward":
        return Replace({Site("decoder", layer, kind, "output"): torch.zeros_like})
    if kind == "bias":
        return Replace({site: bias.neg().add for site, bias in _biases(model).items()})

    def rest(entering: Tensor) -> Tensor:
        token = torch.tensor([trace.tgt_ids[step]], device=entering.device)
        content, entering = model.content(token, model.tgt_embedding)[0], entering.clone()
        here = entering[:, step] - content if kind == "embedding" else content
        entering[:, step] = here
        return entering

    return Replace({Site("decoder", None, "embedding", "hidden"): rest})


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


def _through(norm: nn.LayerNorm, x: Tensor, read: Tensor) -> tuple[Tensor, float]:
    """Return v and the share of the bias with v . x + share = read . norm(x), for a fixed scale."""
    scale = (x.var(correction=0) + norm.eps).sqrt()
    moved = read * norm.weight.double() / scale
    return moved - moved.mean(), float(read @ norm.bias.double())


def _decoded(model: Transformer, trace: Trace, record: Record, hooks: Hook | None) -> Record:
    device, every = model.generator.weight.device, Chain(hooks, record)
    with torch.inference_mode():
        encoded = model.encode(torch.tensor([trace.src_ids], device=device), hooks=hooks)
        model.decode(torch.tensor([trace.tgt_ids], device=device), encoded, hooks=every)
    return record
