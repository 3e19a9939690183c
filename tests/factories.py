"""Valid random records for tests without a model."""

import math

import numpy as np

from transformer.trace.records import HeadStages, Trace, Weighing
from transformer.types import AttentionKind, Floats

_WORDS = ("▁the", "▁cat", "▁sat", "▁on", "▁the", "▁mat", "▁because", "▁it", "▁was", "▁tired")
_ZIEL = ("▁die", "▁Katze", "▁saß", "▁auf", "▁der", "▁Matte", "▁weil", "▁sie", "▁müde", "▁war")


def make_trace(
    S: int = 7, T: int = 5, n_encoder_layers: int = 3, n_decoder_layers: int = 2, n_heads: int = 3,
    seed: int = 0, K: int = 4, src_tokens: tuple[str, ...] | None = None,
) -> Trace:  # fmt: skip
    """Return a trace with random attention: rows sum to 1, decoder self-attention is causal.

    Args: S: source tokens including `</s>`.  T: decoder positions including `<s>`.  K: alternatives
        per step.  src_tokens: S - 1 source pieces without `</s>`.
    """
    rng = np.random.default_rng(seed)
    if src_tokens is None:
        src_tokens = tuple(_WORDS[i % len(_WORDS)] for i in range(S - 1))
    if len(src_tokens) != S - 1:
        raise ValueError(f"{len(src_tokens)} source tokens for S={S}; expected S - 1")
    words = tuple(_ZIEL[i % len(_ZIEL)] for i in range(T - 1))
    src_ids = (*(4 + i % 60 for i in range(S - 1)), 2)
    word_ids = tuple(10 + i % 50 for i in range(T - 1))
    log_probs = np.log(rng.uniform(0.5, 0.9, T)).astype(np.float32)
    rest = (1 - np.exp(log_probs))[:, None] * 0.5 ** np.arange(1, K)
    top_log_probs = np.concatenate([log_probs[:, None], np.log(rest)], axis=1)
    predicted_ids = (*word_ids, 2)
    top_ids = np.array([[p, *range(60, 60 + K - 1)] for p in predicted_ids], dtype=np.int64)
    top_tokens = tuple((p, *(f"▁other{k}" for k in range(K - 1))) for p in (*words, "</s>"))
    total = float(log_probs.sum())
    return Trace(
        src_tokens=(*src_tokens, "</s>"), tgt_tokens=("<s>", *words),
        predicted_tokens=(*words, "</s>"), src_ids=src_ids, tgt_ids=(1, *word_ids),
        predicted_ids=predicted_ids, encoder_self=_maps(rng, n_encoder_layers, n_heads, S, S),
        decoder_self=_maps(rng, n_decoder_layers, n_heads, T, T, causal=True),
        cross=_maps(rng, n_decoder_layers, n_heads, T, S), log_probs=log_probs, top_ids=top_ids,
        top_log_probs=top_log_probs.astype(np.float32), top_tokens=top_tokens,
        entropy=rng.uniform(0.1, 3.0, T).astype(np.float32),
        source=" ".join(word.lstrip("▁") for word in src_tokens),
        text=" ".join(word.lstrip("▁") for word in words), score=total / T**0.6,
        src_special=(S - 1,), tgt_special=(0,),
        penalties=np.arange(1, T + 1, dtype=np.float32) ** np.float32(0.6),
    )  # fmt: skip


def _maps(
    rng: np.random.Generator, layers: int, heads: int, n: int, m: int, *, causal: bool = False
) -> Floats:
    logits = 2.0 * rng.standard_normal((layers, heads, n, m))
    if causal:
        logits = np.where(np.tril(np.ones((n, m), dtype=bool)), logits, -np.inf)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32)


def make_stages(
    m: int = 7, d_model: int = 12, d_k: int = 5, d_v: int = 3, kind: AttentionKind = "cross",
    seed: int = 0, tokens: tuple[str, ...] | None = None,
) -> HeadStages:  # fmt: skip
    """One query in a random head over m keys; the decoder masks the last two keys."""
    rng = np.random.default_rng(seed)

    def random(*shape: int) -> Floats:
        return rng.standard_normal(shape).astype(np.float32)

    x_query, x_keys, q, keys, values = (
        random(d_model), random(m, d_model), random(d_k), random(m, d_k), random(m, d_v),
    )  # fmt: skip
    mask = np.arange(m) < (m - 2 if kind == "decoder_self" else m)
    products = q * keys
    dots = products.sum(axis=1)
    w_o = random(d_v, d_model)

    def weigh(logits: Floats) -> Weighing:
        masked = np.where(mask, logits, -np.inf).astype(np.float32)
        powers = np.exp(masked - masked.max())
        weights = powers / powers.sum()
        weighted = weights[:, None] * values
        output = weighted.sum(axis=0)
        return Weighing(logits, masked, weights, weighted, output, output @ w_o)

    scaled = weigh(dots / np.float32(math.sqrt(d_k)))
    return HeadStages(
        kind=kind, layer=1, head=2, query=3, query_token="▁es",
        key_tokens=tokens or tuple(f"▁key{j}" for j in range(m)),
        x_query=x_query, x_keys=x_keys, q=q, keys=keys, values=values, products=products,
        dots=dots, mask=mask, scaled=scaled, unscaled=weigh(dots), gate=1.0, w_o=w_o,
        block_output=scaled.contribution + random(d_model),
        bias=np.zeros(d_model, dtype=np.float32),
    )  # fmt: skip
