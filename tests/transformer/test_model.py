import itertools
import math
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.tiny_models import CONFIGS, SRC, TGT
from transformer.attention import MultiHeadAttention, attend
from transformer.config import ModelConfig
from transformer.hooks import Chain, Context, HeadGates, Hooks, Record, Site, matching
from transformer.model import Transformer
from transformer.steps import KVCache


def everything(model: Transformer, src: Tensor, tgt: Tensor) -> dict[str, Tensor]:
    encoded = model.encode(src, need_weights=True)
    decoded = model.decode(tgt, encoded, need_weights=True)
    return {
        "memory": encoded.memory, "encoder": encoded.attention, "hidden": decoded.hidden,
        "self": decoded.self_attention, "cross": decoded.cross_attention,
        "logits": model.logits(decoded.hidden),
    }  # fmt: skip


def test_a_future_token_changes_nothing(model: Transformer) -> None:
    before = everything(model, SRC, TGT)
    after = everything(model, SRC, TGT.index_fill(1, torch.tensor(3), 22))
    assert torch.equal(before["logits"][:, :3], after["logits"][:, :3])
    assert not torch.allclose(before["logits"][:, 3:], after["logits"][:, 3:])


def test_padding_changes_nothing(model: Transformer) -> None:
    """The second row is computed alone without padding, and in the batch."""
    batch, alone = everything(model, SRC, TGT), everything(model, SRC[1:, :4], TGT[1:, :3])
    torch.testing.assert_close(batch["memory"][1:, :4], alone["memory"], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(batch["logits"][1:, :3], alone["logits"], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(batch["encoder"][:, 1:, :, :4, :4], alone["encoder"])
    torch.testing.assert_close(batch["self"][:, 1:, :, :3, :3], alone["self"])
    torch.testing.assert_close(batch["cross"][:, 1:, :, :3, :4], alone["cross"])


@given(cuts=st.sets(st.integers(1, 4)))
@settings(max_examples=16)
def test_a_cache_changes_nothing(model: Transformer, cuts: set[int]) -> None:
    encoded = model.encode(SRC)
    whole = model.decode(TGT, encoded, need_weights=True)
    cache, edges = KVCache(), [0, *sorted(cuts), 5]
    for start, end in itertools.pairwise(edges):
        assert cache.length == start
        part = model.decode(TGT[:, start:end], encoded, cache=cache, need_weights=True)
        torch.testing.assert_close(part.hidden, whole.hidden[:, start:end], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(part.self_attention, whole.self_attention[..., start:end, :end])
        torch.testing.assert_close(part.cross_attention, whole.cross_attention[..., start:end, :])


def test_every_weight_learns(model: Transformer) -> None:
    model = Transformer(model.config)
    model(SRC, TGT).square().mean().backward()
    assert not [name for name, weight in model.named_parameters() if weight.grad is None]


def test_dropout_only_while_training() -> None:
    model = Transformer(CONFIGS["post-norm"].replace(dropout=0.5, attention_dropout=0.5))
    assert not torch.equal(model(SRC, TGT), model(SRC, TGT))
    model.eval()
    assert torch.equal(model(SRC, TGT), model(SRC, TGT))


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)], ids=str
)
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_equals_pytorch(norm: str, activation: str, dtype: torch.dtype, tolerance: float) -> None:
    config = ModelConfig(
        vocab_size=30, d_model=24, n_heads=3, d_ff=40, n_encoder_layers=2, n_decoder_layers=3,
        norm=norm, activation=activation, attention_bias=True,
    )  # fmt: skip
    torch.manual_seed(6)
    model = Transformer(config).to(dtype).eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if "bias" in name or "norm" in name:
            parameter.add_(torch.randn_like(parameter) * 0.3)
    theirs = _as_torch(model)

    expected = theirs(
        model.embed_source(SRC), model.embed_target(TGT),
        tgt_mask=torch.ones(5, 5, dtype=torch.bool).triu(1), src_key_padding_mask=SRC == 0,
        memory_key_padding_mask=SRC == 0,
    )  # fmt: skip
    fused, real = model.decode(TGT, model.encode(SRC)).hidden, TGT != 0
    for hidden in (fused, everything(model, SRC, TGT)["hidden"]):
        torch.testing.assert_close(hidden[real], expected[real], atol=tolerance, rtol=0)


#: Names of a layer's parts in PyTorch's module.
THEIRS = {
    "self_attention": "self_attn", "cross_attention": "multihead_attn", ".w_q.": ".in_proj_",
    ".w_o.": ".out_proj.", "feed_forward.w_": "linear", "around_self.norm": "norm1",
    "around_cross.norm": "norm2",
}  # fmt: skip


def _as_torch(model: Transformer) -> nn.Transformer:
    config, ours = model.config, model.state_dict()
    theirs = nn.Transformer(
        config.d_model, config.n_heads, config.n_encoder_layers, config.n_decoder_layers,
        config.d_ff, dropout=0.0, activation=config.activation, batch_first=True,
        norm_first=config.norm == "pre", dtype=model.generator.weight.dtype,
    )  # fmt: skip
    theirs.encoder.enable_nested_tensor = False
    if config.norm == "post":
        theirs.encoder.norm = theirs.decoder.norm = None
    state = {}
    for name, value in ours.items():
        stack = name[:7]
        if stack not in ("encoder", "decoder") or ".w_k." in name or ".w_v." in name:
            continue
        if ".w_q." in name:
            value = torch.cat([ours[name.replace("w_q", part)] for part in ("w_q", "w_k", "w_v")])
        last = "norm3" if stack == "decoder" else "norm2"
        for old, new in (THEIRS | {"around_feed_forward.norm": last, "_norm.": ".norm."}).items():
            name = name.replace(old, new)
        state[re.sub(r"^(\w+)\.(\d)", r"\1.layers.\2", name)] = value
    theirs.load_state_dict(state)
    return theirs.eval().requires_grad_(False)


B, H, T, S, D_K, D_V = 2, 3, 4, 5, 6, 7


def qkv(n_queries: int = T, n_keys: int = S, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    sizes = ((n_queries, D_K), (n_keys, D_K), (n_keys, D_V))
    return tuple(torch.randn(B, H, *size, generator=generator) for size in sizes)


def random_mask(n_queries: int, n_keys: int, seed: int) -> Tensor:
    mask = torch.rand(B, 1, n_queries, n_keys, generator=torch.Generator().manual_seed(seed)) > 0.5
    mask[..., 0] = True
    return mask


WEIGHTS = Site("decoder", 0, "cross", "weights")


def at_cross(*hooks: Hooks) -> Context:
    return Context("decoder", Chain(*hooks)).layer(0).block("cross")


def attend_explicitly(*qkv: Tensor, **options: object) -> tuple[Tensor, Tensor]:
    record = Record([WEIGHTS])
    return attend(*qkv, at=at_cross(record), **options), record[WEIGHTS]


@given(
    n_queries=st.integers(1, 6), n_keys=st.integers(1, 6), seed=st.integers(0, 2**31),
    scale=st.sampled_from([0.0, 1.0, 100.0]),
)  # fmt: skip
def test_rows_sum_to_one_where_seen(n_queries: int, n_keys: int, seed: int, scale: float) -> None:
    q, k, v = qkv(n_queries, n_keys, seed)
    mask = random_mask(n_queries, n_keys, seed)
    _, weights = attend_explicitly(q * scale, k, v, mask)
    assert weights.shape == (B, H, n_queries, n_keys)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, n_queries))
    assert bool((weights[~mask.expand_as(weights)] == 0).all() and (weights >= 0).all())


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n_queries", [1, T, S])
def test_explicit_and_fused_paths_are_equal(masked: bool, causal: bool, n_queries: int) -> None:
    mask = random_mask(n_queries, S, 3) if masked else None
    results = []
    for run in (attend, lambda *inputs, **options: attend_explicitly(*inputs, **options)[0]):
        inputs = [tensor.requires_grad_() for tensor in qkv(n_queries, S)]
        output = run(*inputs, mask, causal=causal)
        (output * torch.linspace(-1, 1, output.numel()).view_as(output)).sum().backward()
        results.append([output, *(tensor.grad for tensor in inputs)])
    for fused, explicit in zip(*results, strict=True):
        torch.testing.assert_close(fused, explicit, atol=1e-6, rtol=1e-5)


def test_weights_are_returned_before_dropout() -> None:
    q, k, v = qkv()
    torch.manual_seed(0)
    output, weights = attend_explicitly(q, k, v, dropout=0.5)
    plain, expected = attend_explicitly(q, k, v)
    assert torch.equal(weights, expected) and not torch.allclose(output, plain)


@pytest.mark.parametrize(("n_heads", "d_k", "d_v"), [(1, 8, 8), (3, 5, 9), (8, 1, 2)])
def test_multi_head_is_the_papers_concatenation(n_heads: int, d_k: int, d_v: int) -> None:
    """Concat(head_1 .. head_h) W_O, with one block of projection rows per head."""
    config = ModelConfig(vocab_size=9, d_model=10, n_heads=n_heads, d_k=d_k, d_v=d_v)
    torch.manual_seed(1)
    block = MultiHeadAttention(config)
    x, memory = torch.randn(B, T, 10), torch.randn(B, S, 10)
    record = Record([WEIGHTS])
    output, weights = block(x, memory, at=at_cross(record)), record[WEIGHTS]
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


def test_gates_learn() -> None:
    """A gate's gradient equals the gradient of scaling the head's columns in W_O."""
    torch.manual_seed(3)
    block = MultiHeadAttention(ModelConfig(vocab_size=9, d_model=12, n_heads=3))
    x, factors = torch.randn(B, T, 12), torch.ones(1, 3, requires_grad=True)
    block(x, x, at=at_cross(HeadGates(cross=factors))).square().sum().backward()
    weight = block.w_o.weight
    torch.testing.assert_close(factors.grad[0], (weight * weight.grad).view(12, 3, 4).sum((0, 2)))


@pytest.mark.parametrize("explicit", [False, True])
def test_bfloat16_attends_in_float32_and_nothing_is_kept(explicit: bool) -> None:
    block = MultiHeadAttention(ModelConfig(vocab_size=9, d_model=12, n_heads=3))
    before = set(vars(block))
    x, record = torch.randn(B, T, 12), Record(matching(name="weights" if explicit else "heads"))
    with torch.autocast("cpu", torch.bfloat16):
        output = block(x, x, at=at_cross(record))
    assert output.dtype == torch.bfloat16 and set(vars(block)) == before
    ((value,),) = record.values.values()
    assert value.dtype == torch.float32
    if explicit:
        torch.testing.assert_close(value.sum(-1), torch.ones(B, 3, T))
