"""First-layer logits, split into content and position.

Before the first block of a post-norm model, a token's vector is a sum x_i = e_i + p_i of its
embedding times sqrt(d_model) (section 3.4) and its positional encoding (3.5). W_Q and W_K are
linear, so q_i . k_j is a sum of four products:

    (e_i + p_i) W_Q W_K^T (e_j + p_j)^T = e_i..e_j + e_i..p_j + p_i..e_j + p_i..p_j
"""

import copy
import math

import numpy as np
import torch
from torch import Tensor

from transformer.attention import MultiHeadAttention
from transformer.config import ModelConfig
from transformer.model import Transformer
from transformer.trace.inspection import check_place, record_block
from transformer.trace.records import LogitSplit, Trace
from transformer.types import AttentionKind, Floats, literals


def why_not(config: ModelConfig) -> str | None:
    """Return a sentence on why this config has no exact split, or None if it has one."""
    if config.positions == "relative":
        return (
            "This model adds no positions to its embeddings: each head adds a number for the "
            "distance of two tokens to their logit, which the other part of this page shows."
        )
    if config.norm == "pre":
        return (
            "This model is pre-norm: a LayerNorm comes between the sum of embedding and position "
            "and the first projections. It divides by a length that content and position share, "
            "so no exact split exists."
        )
    return None


@literals
def split_logits(model: Transformer, trace: Trace, kind: AttentionKind, head: int) -> LogitSplit:
    """Split the layer-1 logits of one head over a trace's tokens.

    Args:
        kind: "encoder_self" or "decoder_self"; keys of cross-attention come from the encoder.
        head: 0-based.

    Raises: `ValueError` for a model or kind without an exact split, or a head out of range.
    """
    reason = why_not(model.config)
    if reason is not None:
        raise ValueError(reason)
    if kind == "cross":
        raise ValueError("cross-attention has no split: its keys come from the encoder's output")
    check_place("head", head, trace.attention(kind).shape[1])
    with torch.inference_mode():
        inside = record_block(model, trace, kind, 0)
        block = inside.block
        source = kind == "encoder_self"
        embedding = model.src_embedding if source else model.tgt_embedding
        positions = model.src_positions if source else model.tgt_positions
        tokens = torch.tensor(
            [trace.src_ids if source else trace.tgt_ids], device=inside.scores.device
        )
        e = model.content(tokens, embedding)  # [1, n, d_model]
        p = positions(0, tokens.size(1))[None]
        logits: Floats = inside.scores[head].cpu().numpy()
        # In float64, so the residual is the model's rounding.
        exact = copy.deepcopy(block).double()
        e, p = e.double(), p.double()
        biases = _project(exact, torch.zeros_like(e), head)  # the biases alone
        (qe, ke), (qp, kp) = (
            [both - bias for both, bias in zip(_project(exact, part, head), biases, strict=True)]
            for part in (e, p)
        )
        parts = {
            "content_content": _products(qe, ke),
            "content_position": _products(qe, kp),
            "position_content": _products(qp, ke),
            "position_position": _products(qp, kp),
        }
        bias = None
        if block.w_q.bias is not None:
            q, k = qe + qp, ke + kp
            bias = _products(biases[0], k + biases[1]) + _products(q, biases[1])
    total = np.sum([*parts.values(), *([] if bias is None else [bias])], axis=0)
    return LogitSplit(
        kind=kind,
        head=head,
        tokens=trace.axis_tokens(kind)[0],
        **{name: part.astype(np.float32) for name, part in parts.items()},
        bias=None if bias is None else bias.astype(np.float32),
        logits=logits.astype(np.float32),
        mask=inside.mask.cpu().numpy(),
        residual=float(np.abs(total - logits).max()),
    )


def _project(block: MultiHeadAttention, x: Tensor, head: int) -> tuple[Tensor, Tensor]:
    """Return queries and keys [n, d_k] of one head."""
    return block.queries(x)[0, head], block.keys_values(x).k[0, head]


def _products(q: Tensor, k: Tensor) -> Floats:
    """Return every q . k / sqrt(d_k), [n, m]."""
    logits: Floats = (q @ k.T / math.sqrt(q.size(1))).cpu().numpy()
    return logits
