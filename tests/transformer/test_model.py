"""The whole model: masks, caches, and the same numbers as torch.nn.Transformer."""

import itertools
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.tiny_models import CONFIGS, SRC, TGT
from transformer.config import ModelConfig
from transformer.kv_cache import KVCache
from transformer.model import Transformer


def everything(model: Transformer, src: Tensor, tgt: Tensor) -> dict[str, Tensor]:
    encoded = model.encode(src, need_weights=True)
    decoded = model.decode(tgt, encoded, need_weights=True)
    return {
        "memory": encoded.memory,
        "encoder": encoded.attention,
        "hidden": decoded.hidden,
        "self": decoded.self_attention,
        "cross": decoded.cross_attention,
        "logits": model.logits(decoded.hidden),
    }


def test_a_future_token_changes_nothing(model: Transformer) -> None:
    before = everything(model, SRC, TGT)
    changed = TGT.clone()
    changed[:, 3] = 22
    after = everything(model, SRC, changed)
    assert torch.equal(before["logits"][:, :3], after["logits"][:, :3])
    assert not torch.allclose(before["logits"][:, 3:], after["logits"][:, 3:])


def test_padding_changes_nothing(model: Transformer) -> None:
    """The second row gives the same alone, without its padding, as in the batch."""
    batch, alone = everything(model, SRC, TGT), everything(model, SRC[1:, :4], TGT[1:, :3])
    torch.testing.assert_close(batch["memory"][1:, :4], alone["memory"], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(batch["logits"][1:, :3], alone["logits"], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(batch["encoder"][:, 1:, :, :4, :4], alone["encoder"])
    torch.testing.assert_close(batch["self"][:, 1:, :, :3, :3], alone["self"])
    torch.testing.assert_close(batch["cross"][:, 1:, :, :3, :4], alone["cross"])


@given(cuts=st.sets(st.integers(1, 4)))
@settings(max_examples=16)
def test_a_cache_changes_nothing(model: Transformer, cuts: set[int]) -> None:
    """Reading the target in pieces of any size gives the hidden states and maps of one pass."""
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
    silent = [name for name, weight in model.named_parameters() if weight.grad is None]
    assert not silent


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
def test_equals_torch_nn_transformer(
    norm: str, activation: str, dtype: torch.dtype, tolerance: float
) -> None:
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
        model.embed_source(SRC),
        model.embed_target(TGT),
        tgt_mask=torch.ones(5, 5, dtype=torch.bool).triu(1),
        src_key_padding_mask=SRC == 0,
        memory_key_padding_mask=SRC == 0,
    )
    found = model.decode(TGT, model.encode(SRC)).hidden
    explicit = everything(model, SRC, TGT)["hidden"]
    real = TGT != 0
    torch.testing.assert_close(found[real], expected[real], atol=tolerance, rtol=0)
    torch.testing.assert_close(explicit[real], expected[real], atol=tolerance, rtol=0)


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
            value = torch.cat([ours[name.replace("w_q", each)] for each in ("w_q", "w_k", "w_v")])
        last = "norm3" if stack == "decoder" else "norm2"
        for old, new in (THEIRS | {"around_feed_forward.norm": last, "_norm.": ".norm."}).items():
            name = name.replace(old, new)
        state[re.sub(r"^(\w+)\.(\d)", r"\1.layers.\2", name)] = value
    theirs.load_state_dict(state)
    return theirs.eval().requires_grad_(False)
