"""Inside a head: every stage follows from the one before, and the last from the trace's map."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.shipped import SHAPES
from tests.transformer.trace.test_split import KINDS as SPLIT_KINDS
from tests.transformer.trace.test_split import check as check_split
from tests.transformer.trace.test_split import make
from transformer.config import ModelConfig
from transformer.hooks import HeadGates
from transformer.measures.entropy import divided
from transformer.model import Transformer
from transformer.text.tokenizer import Tokenizer
from transformer.trace.inspection import inspect_head
from transformer.trace.records import HeadStages, Trace
from transformer.trace.split import split_logits, why_not
from transformer.translator import Translator
from transformer.types import ATTENTION_KINDS, AttentionKind

CHECKPOINTS = Path(__file__).resolve().parents[3] / "checkpoints"

#: All with three heads or one, unequal depths, and d_k != d_v.
CHANGES = {
    "as in the paper": {},
    "pre-norm": {"norm": "pre"},
    "biases": {"attention_bias": True},
    "learned positions": {"positions": "learned", "max_positions": 60},
    "relative positions": {"positions": "relative"},
    "one wide head": {"n_heads": 1, "d_k": 17, "d_v": 5},
    "pre-norm, biases, separate tables": {
        "norm": "pre", "attention_bias": True, "tie_embeddings": "none", "scale_embedding": False,
    },
}  # fmt: skip


def check_layer(
    model: Transformer, trace: Trace, kind: AttentionKind, layer: int, at: int,
    gates: HeadGates | None = None,
) -> list[HeadStages]:  # fmt: skip
    """Check one query in all heads of a layer, which add up to the block's output."""
    heads = [
        inspect_head(model, trace, kind, layer, head, at, gates=gates)
        for head in range(trace.attention(kind).shape[1])
    ]
    for stages in heads:
        check(stages, trace)
        assert stages.has_bias == model.config.attention_bias
        assert stages.query_token == trace.axis_tokens(kind)[0][at]
    together = sum(stages.scaled.contribution for stages in heads) + heads[0].bias
    np.testing.assert_allclose(together, heads[0].block_output, rtol=1e-5, atol=1e-5)
    assert heads[0].bias.any() == model.config.attention_bias
    return heads


def check(stages: HeadStages, trace: Trace) -> None:
    """Every stage from the one before it, by NumPy, in float64."""
    maps = trace.attention(stages.kind)
    n_keys = maps.shape[3]
    d_model, d_k, d_v = len(stages.x_query), len(stages.q), stages.values.shape[1]
    assert stages.x_keys.shape == (n_keys, d_model)
    assert stages.keys.shape == stages.products.shape == (n_keys, d_k)
    assert stages.w_o.shape == (d_v, d_model)
    close = {"rtol": 1e-5, "atol": 1e-5}
    np.testing.assert_allclose(stages.products, stages.q * stages.keys, rtol=1e-6)
    size = np.abs(stages.products).sum(axis=1).max()  # what rounding errors scale with
    np.testing.assert_allclose(
        stages.products.sum(axis=1, dtype=np.float64), stages.dots, rtol=1e-6, atol=1e-6 * size
    )
    relative = 0.0 if stages.relative is None else stages.relative
    np.testing.assert_allclose(
        stages.scaled.logits, stages.dots / math.sqrt(d_k) + relative, rtol=1e-5, atol=1e-6
    )
    np.testing.assert_array_equal(stages.unscaled.logits, stages.dots + relative)
    np.testing.assert_allclose(
        stages.scaled.weights, maps[stages.layer, stages.head, stages.query], rtol=0, atol=1e-5
    )
    # Dot products over the model's own divisor give the recorded map.
    again = divided(stages.dots + math.sqrt(d_k) * relative, stages.mask, math.sqrt(d_k))
    np.testing.assert_allclose(again, stages.scaled.weights, rtol=0, atol=1e-6)
    np.testing.assert_allclose(
        stages.gate * stages.scaled.output @ stages.w_o, stages.scaled.contribution, **close
    )
    causal = stages.kind == "decoder_self"
    np.testing.assert_array_equal(
        stages.mask, np.arange(n_keys) <= (stages.query if causal else n_keys)
    )
    for each in (stages.scaled, stages.unscaled):
        np.testing.assert_array_equal(np.isneginf(each.masked), ~stages.mask)
        np.testing.assert_array_equal(each.masked[stages.mask], each.logits[stages.mask])
        np.testing.assert_allclose(each.weights.sum(), 1, atol=1e-6)
        assert not each.weights[~stages.mask].any()
        expected = divided(each.logits, stages.mask, 1)  # a softmax
        np.testing.assert_allclose(each.weights, expected, rtol=0, atol=1e-5 + 1e-7 * size)
        np.testing.assert_allclose(
            each.weighted, each.weights[:, None] * stages.values, rtol=1e-6, atol=1e-7
        )
        np.testing.assert_allclose(each.weighted.sum(axis=0), each.output, **close)
        assert each.contribution.shape == (d_model,)


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_every_stage_follows_and_the_heads_add_up_to_the_blocks_output(
    changes: dict[str, object], tiny_config: ModelConfig, tiny_tokenizer: Tokenizer
) -> None:
    model, trace = make(tiny_config.replace(**changes), tiny_tokenizer)
    for kind in ATTENTION_KINDS:
        for layer in range(trace.attention(kind).shape[0]):
            for query in (0, 2):
                check_layer(model, trace, kind, layer, query)


def test_cross_attention_reads_the_encoders_output(
    tiny_config: ModelConfig, tiny_tokenizer: Tokenizer
) -> None:
    model, trace = make(tiny_config, tiny_tokenizer)
    memory = model.encode(torch.tensor([trace.src_ids])).memory[0]
    for layer in range(3):
        stages = inspect_head(model, trace, "cross", layer, 0, 1)
        np.testing.assert_allclose(stages.x_keys, memory.numpy(), rtol=1e-5, atol=1e-6)


def test_a_gate_scales_a_heads_contribution_and_what_comes_after(
    tiny_config: ModelConfig, tiny_tokenizer: Tokenizer
) -> None:
    model, plain = make(tiny_config, tiny_tokenizer)
    gates = HeadGates(
        encoder_self=torch.tensor([[1.0, 0.0, 0.5], [1.0, 1.0, 1.0]]),
        decoder_self=torch.tensor([[0.3, 1.0, 1.0]] * 3),
        cross=torch.tensor([[1.0, 0.25, 1.0]] * 3),
    )
    translator = Translator(model, tiny_tokenizer, device="cpu")
    trace = translator.trace(plain.source, target=plain.predicted_ids, hooks=gates)
    for kind, layer in (("encoder_self", 0), ("decoder_self", 2), ("cross", 2)):
        heads = check_layer(model, trace, kind, layer, 2, gates)
        factors = getattr(gates, kind)[layer].tolist()
        assert [stages.gate for stages in heads] == pytest.approx(factors)
    off = inspect_head(model, trace, "encoder_self", 0, 1, 2, gates=gates)
    assert off.scaled.output.any() and not off.scaled.contribution.any()


@pytest.mark.parametrize("name", SHAPES)
def test_the_first_layers_of_a_shipped_checkpoint(name: str) -> None:
    translator = Translator.load(CHECKPOINTS / name, device="cpu")
    sentence = "transformer" if "reverse" in name else "A dog runs."
    trace = translator.trace(sentence, target=sentence[:6])
    for kind in ATTENTION_KINDS:
        check_layer(translator.model, trace, kind, 0, 1)
    for kind in () if why_not(translator.config) else SPLIT_KINDS:
        for head in range(translator.config.n_heads):
            check_split(split_logits(translator.model, trace, kind, head), trace)


def test_what_does_not_exist_is_named(tiny_config: ModelConfig, tiny_tokenizer: Tokenizer) -> None:
    model, trace = make(tiny_config, tiny_tokenizer)
    for place, name in (((2, 0, 0), "layer=2"), ((0, 3, 0), "head=3"), ((0, 0, 99), "query=99"),
                        ((-1, 0, 0), "layer=-1"), ((0, 0, -1), "query=-1")):  # fmt: skip
        with pytest.raises(ValueError, match=f"{name} does not exist"):
            inspect_head(model, trace, "encoder_self", *place)
