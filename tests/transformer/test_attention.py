"""Attention: one definition, two executions, masks that hold exactly."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from transformer.attention import MultiHeadAttention, attend, causal_mask
from transformer.config import ModelConfig

B, H, T, S, D_K, D_V = 2, 3, 4, 5, 6, 7


def qkv(n_queries: int = T, n_keys: int = S, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(B, H, n_queries, D_K, generator=generator),
        torch.randn(B, H, n_keys, D_K, generator=generator),
        torch.randn(B, H, n_keys, D_V, generator=generator),
    )


def random_mask(n_queries: int, n_keys: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(B, 1, n_queries, n_keys, generator=generator) > 0.5
    mask[..., 0] = True
    return mask


def test_is_the_papers_equation() -> None:
    q, k, v = qkv()
    output, weights = attend(q, k, v, need_weights=True)
    assert weights is not None
    for b in range(B):
        for h in range(H):
            expected = torch.softmax(q[b, h] @ k[b, h].T / math.sqrt(D_K), dim=-1)
            torch.testing.assert_close(weights[b, h], expected)
            torch.testing.assert_close(output[b, h], expected @ v[b, h])


@given(
    n_queries=st.integers(1, 6), n_keys=st.integers(1, 6), seed=st.integers(0, 2**31),
    scale=st.sampled_from([0.0, 1.0, 100.0]),
)  # fmt: skip
def test_rows_sum_to_one_and_masked_weights_are_zero(
    n_queries: int, n_keys: int, seed: int, scale: float
) -> None:
    q, k, v = qkv(n_queries, n_keys, seed)
    mask = random_mask(n_queries, n_keys, seed)
    _, weights = attend(q * scale, k, v, mask, need_weights=True)
    assert weights is not None
    assert weights.shape == (B, H, n_queries, n_keys)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, n_queries))
    assert bool((weights[~mask.expand_as(weights)] == 0).all())
    assert bool((weights >= 0).all())


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_explicit_and_fused_paths_are_equal(masked: bool, causal: bool) -> None:
    """Outputs and gradients, with and without a mask, also where both masks apply."""
    n_queries = S if causal else T
    mask = random_mask(n_queries, S, 3) if masked else None
    results = []
    for need_weights in (False, True):
        inputs = [tensor.requires_grad_() for tensor in qkv(n_queries, S)]
        output, weights = attend(*inputs, mask, causal=causal, need_weights=need_weights)
        assert (weights is not None) == need_weights
        (output * torch.linspace(-1, 1, output.numel()).view_as(output)).sum().backward()
        results.append([output, *(tensor.grad for tensor in inputs)])
    for fused, explicit in zip(*results, strict=True):
        torch.testing.assert_close(fused, explicit, atol=1e-6, rtol=1e-5)


def test_weights_are_returned_before_dropout() -> None:
    q, k, v = qkv()
    torch.manual_seed(0)
    output, weights = attend(q, k, v, need_weights=True, dropout=0.5)
    plain, expected = attend(q, k, v, need_weights=True)
    assert weights is not None
    assert expected is not None
    assert torch.equal(weights, expected)
    assert not torch.allclose(output, plain)


def test_a_causal_mask_shows_the_past_and_the_present() -> None:
    expected = [[True, True, True, False, False], [True] * 4 + [False], [True] * 5]
    assert causal_mask(3, 5).tolist() == expected


@pytest.mark.parametrize(("n_heads", "d_k", "d_v"), [(1, 8, 8), (3, 5, 9), (8, 1, 2)])
def test_multi_head_is_the_papers_concatenation(n_heads: int, d_k: int, d_v: int) -> None:
    """Concat(head_1 .. head_h) W_O, each head from its own rows of the projections."""
    config = ModelConfig(vocab_size=9, d_model=10, n_heads=n_heads, d_k=d_k, d_v=d_v)
    torch.manual_seed(1)
    block = MultiHeadAttention(config)
    x, memory = torch.randn(B, T, 10), torch.randn(B, S, 10)
    output, weights = block(x, block.keys_values(memory), need_weights=True)
    assert weights is not None
    assert weights.shape == (B, n_heads, T, S)

    heads = []
    for h in range(n_heads):
        keys, values = slice(h * d_k, (h + 1) * d_k), slice(h * d_v, (h + 1) * d_v)
        scores = (x @ block.w_q.weight[keys].T) @ (memory @ block.w_k.weight[keys].T).mT
        alone = torch.softmax(scores / math.sqrt(d_k), dim=-1)
        torch.testing.assert_close(weights[:, h], alone, atol=1e-5, rtol=1e-4)
        heads.append(alone @ (memory @ block.w_v.weight[values].T))
    expected = torch.cat(heads, dim=-1) @ block.w_o.weight.T
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("bias", [False, True])
def test_gates_of_one_change_nothing_and_of_zero_remove_the_head(bias: bool) -> None:
    config = ModelConfig(vocab_size=9, d_model=10, n_heads=3, d_k=4, d_v=6, attention_bias=bias)
    torch.manual_seed(2)
    block = MultiHeadAttention(config)
    x = torch.randn(B, T, 10)
    kv = block.keys_values(torch.randn(B, S, 10))
    whole = block(x, kv).output
    assert torch.equal(block(x, kv, gates=torch.ones(3)).output, whole)

    gated = block(x, kv, gates=torch.tensor([1.0, 0.0, 1.0])).output
    with torch.no_grad():
        block.w_o.weight[:, 6:12] = 0  # the columns that head 1 writes through
    torch.testing.assert_close(gated, block(x, kv).output)
    assert not torch.allclose(gated, whole)


def test_gates_leave_the_weights_alone() -> None:
    config = ModelConfig(vocab_size=9, d_model=12, n_heads=3)
    block = MultiHeadAttention(config)
    x = torch.randn(B, T, 12)
    kv = block.keys_values(x)
    plain = block(x, kv, need_weights=True).weights
    gated = block(x, kv, need_weights=True, gates=torch.zeros(3)).weights
    assert plain is not None
    assert gated is not None
    assert torch.equal(plain, gated)


def test_nothing_is_kept_on_the_module() -> None:
    block = MultiHeadAttention(ModelConfig(vocab_size=9, d_model=12, n_heads=3))
    before = set(vars(block))
    x = torch.randn(B, T, 12)
    block(x, block.keys_values(x), need_weights=True)
    assert set(vars(block)) == before


def test_bfloat16_on_the_cpu_attends_in_float32() -> None:
    block = MultiHeadAttention(ModelConfig(vocab_size=9, d_model=12, n_heads=3))
    x = torch.randn(B, T, 12)
    with torch.autocast("cpu", torch.bfloat16):
        output, weights = block(x, block.keys_values(x), need_weights=True)
    assert weights is not None
    assert weights.dtype == torch.float32
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, 3, T))
