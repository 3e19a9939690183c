"""The parts of a token's vector: its embedding, its position and what heads and networks added.

LayerNorms on the way keep the scale that they have in this sentence, which makes them linear. So a
vector in the residual stream is the sum of its parts.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from transformer.edits.model import Skipped, WithoutResidual
from transformer.hooks import BLOCKS, Chain, HeadGates, Hook, Record, Replace, Site, Stack
from transformer.layers import Residual
from transformer.model import Transformer
from transformer.trace.records import Trace
from transformer.types import AttentionKind


class Part(NamedTuple):
    """A part of a token's vector; layer and head are 0-based."""

    stack: Stack
    name: Literal["embedding", "position", "head", "feed_forward", "bias"]
    kind: AttentionKind | None = None  # of a head
    layer: int | None = None  # of a head or network
    head: int | None = None


def read(model: Transformer, trace: Trace, record: Record, hooks: Hook | None = None) -> Record:
    """Read a trace's tokens in one pass, after the hooks, and return the record."""
    device, every = model.generator.weight.device, Chain(hooks, record)
    src, tgt_in = (torch.tensor([ids], device=device) for ids in (trace.src_ids, trace.tgt_ids))
    with torch.inference_mode():
        model.decode(tgt_in, model.encode(src, hooks=every), hooks=every)
    return record


def without(model: Transformer, trace: Trace, part: Part, step: int | None = None) -> Hook:
    """Return the hook that removes a part.

    Args: step: removes an embedding or position only there, from 0; by default everywhere.
    """
    if part.kind is not None and part.layer is not None and part.head is not None:
        return HeadGates.of(model.config, {(part.kind, part.layer, part.head): 0.0})
    if part.name == "feed_forward":
        return Replace({Site(part.stack, part.layer, "feed_forward", "output"): torch.zeros_like})
    if part.name == "bias":
        raise ValueError("biases occur in many places; choose another part")
    content = _content(model, trace, part.stack)
    here = slice(None) if step is None else slice(step, step + 1)

    def rest(entering: Tensor) -> Tensor:
        own, entering = entering[:, here] - content[:, here], entering.clone()
        entering[:, here] = content[:, here] if part.name == "position" else own
        return entering

    return Replace({Site(part.stack, None, "embedding", "hidden"): rest})


def _content(model: Transformer, trace: Trace, stack: Stack) -> Tensor:
    """Return the embeddings of a stack's tokens without positions, [1, n, d_model]."""
    ids = trace.src_ids if stack == "encoder" else trace.tgt_ids
    embedding = model.src_embedding if stack == "encoder" else model.tgt_embedding
    with torch.inference_mode():
        return model.content(torch.tensor([ids], device=embedding.weight.device), embedding)


def parts_before(
    model: Transformer, trace: Trace, record: Record, end: Site, at: int
) -> dict[Part, Tensor]:
    """Return the parts [d_model] of one token's vector as a block reads it.

    Args: end: a site of the block; "final" for the stack's output.
    """
    stack = end.stack

    def value(site: Site) -> Tensor:  # [..., d]
        return record[site][0][..., at, :].double()

    stream = value(Site(stack, None, "embedding", "hidden"))
    content = _content(model, trace, stack)[0, at].double()
    bias = Part(stack, "bias")
    parts = {Part(stack, "embedding"): content, Part(stack, "position"): stream - content}
    parts[bias] = torch.zeros_like(content)
    for index, layer in enumerate(getattr(model, stack)):
        for block in BLOCKS[stack]:
            around: Residual = getattr(layer, f"around_{block}")
            if (index, block) == (end.layer, end.block):
                return _through(around.norm, stream, parts, bias) if around.pre else parts
            site = Site(stack, index, block, "hidden")
            if isinstance(around, WithoutResidual):
                stream = torch.zeros_like(stream)
                parts = {part: torch.zeros_like(vector) for part, vector in parts.items()}
            output, skipped = value(site._replace(name="output")), isinstance(around, Skipped)
            stream = stream + output
            if site.kind is None:
                parts[Part(stack, "feed_forward", None, index)] = output
            else:
                w_o = model.attention_block(site.kind, index).w_o
                heads = value(site._replace(name="heads")) * (not skipped)  # [H, d_v]
                rows = w_o.weight.double().view(len(content), *heads.shape)
                for head, vector in enumerate(torch.einsum("dhv,hv->hd", rows, heads)):
                    parts[Part(stack, "head", site.kind, index, head)] = vector
                if w_o.bias is not None and not skipped:
                    parts[bias] = parts[bias] + w_o.bias.double()
            if not (around.pre or skipped):
                parts, stream = _through(around.norm, stream, parts, bias), value(site)
    norm = model.encoder_norm if stack == "encoder" else model.decoder_norm
    return _through(norm, stream, parts, bias) if isinstance(norm, nn.LayerNorm) else parts


def _through(
    norm: nn.LayerNorm, total: Tensor, parts: dict[Part, Tensor], bias: Part
) -> dict[Part, Tensor]:
    """Take parts of a vector through a LayerNorm with its scale fixed."""
    scale = norm.weight.double() / (total.var(correction=0) + norm.eps).sqrt()
    new = {part: (vector - vector.mean()) * scale for part, vector in parts.items()}
    new[bias] = new[bias] + norm.bias.double()
    return new
