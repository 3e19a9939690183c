"""Reading the decoder halfway, and taking a choice between two tokens apart.

`lens` reads the residual stream after every layer as if it were the last (after nostalgebraist's
logit lens, 2020). The translation that the decoder writes from an earlier encoder layer
(DecoderLens, Langedijk et al. 2024) is that of an edited model whose later layers are skipped:
`later_layers_skipped`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from transformer.edits.language import Edit
from transformer.edits.model import Skipped, WithoutResidual
from transformer.hooks import BLOCKS, Chain, Hook, Record, Site
from transformer.layers import Residual
from transformer.model import Transformer
from transformer.search.scoring import normalised
from transformer.trace.building import to_array
from transformer.trace.inspection import check_place
from transformer.trace.records import Lens, LogitShares, Trace
from transformer.types import AttentionKind, Floats


def lens(
    model: Transformer, trace: Trace, *, excluded: Sequence[int] = (), hooks: Hook | None = None
) -> Lens:
    """Return the distribution after every decoder layer, at every step of a trace.

    Args:
        excluded: ids that never get probability, as in the search.
        hooks: those that the trace was made with.
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
    """Return the edits that leave the encoder its first `depth` layers, of `n_layers`."""
    return tuple(Edit("skip", "encoder", layer) for layer in range(depth, n_layers))


def logit_shares(
    model: Transformer, trace: Trace, step: int, one: int, other: int, *,
    hooks: Hook | None = None,
) -> LogitShares:  # fmt: skip
    """Return each part's share in the difference of two tokens' logits, `one` minus `other`.

    Args:
        step: 0-based, the position whose prediction is looked at.
        hooks: those that the trace was made with.

    Raises: `ValueError` for a step or token that does not exist.
    """
    config = model.config
    check_place("step", step, len(trace.tgt_ids))
    for token in (one, other):
        check_place("token", int(token), config.target_vocab_size)
    record = Record(lambda site: site.name in ("heads", "output", "hidden"))
    _decoded(model, trace, record, hooks)

    def value(site: Site) -> Tensor:
        return record[site][0][..., step, :].double()

    n_layers, n_heads = config.n_decoder_layers, config.decoder_heads
    heads: dict[AttentionKind, Floats] = {
        kind: np.zeros((n_layers, n_heads), np.float32) for kind in ("decoder_self", "cross")
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
                heads[kind][layer] = to_array(parts.view(n_heads, -1).sum(-1))
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


def _through(norm: nn.LayerNorm, x: Tensor, read: Tensor) -> tuple[Tensor, float]:
    """Move a direction through a LayerNorm whose scale stays that of x.

    Returns: v with v . x + share = read . norm(x), and that share, of the norm's bias.
    """
    scale = (x.var(correction=0) + norm.eps).sqrt()
    moved = read * norm.weight.double() / scale
    return moved - moved.mean(), float(read @ norm.bias.double())


def _decoded(model: Transformer, trace: Trace, record: Record, hooks: Hook | None) -> Record:
    device, every = model.generator.weight.device, Chain(hooks, record)
    with torch.inference_mode():
        encoded = model.encode(torch.tensor([trace.src_ids], device=device), hooks=hooks)
        model.decode(torch.tensor([trace.tgt_ids], device=device), encoded, hooks=every)
    return record
