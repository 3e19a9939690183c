"""The layer-1 split: four maps add up to the model's own logits."""

import functools

import numpy as np
import pytest
import torch

from tests.tiny_models import random_model
from transformer.config import ModelConfig
from transformer.model import Transformer
from transformer.text.tokenizer import Tokenizer
from transformer.trace.records import LogitSplit, Trace
from transformer.trace.split import split_logits, why_not
from transformer.translator import Translator
from transformer.types import AttentionKind

KINDS: tuple[AttentionKind, ...] = ("encoder_self", "decoder_self")


@functools.cache
def make(config: ModelConfig, tokenizer: Tokenizer) -> tuple[Transformer, Trace]:
    """A random model with biases of its own, and a trace with S != T."""
    model = random_model(config)
    for name, parameter in model.named_parameters():
        if "attention" in name and name.endswith("bias"):
            parameter.copy_(torch.linspace(-1, 1, len(parameter)))
    trace = Translator(model, tokenizer, device="cpu").trace(
        "The cat sat on the mat.", target="Ein Hund rennt."
    )
    assert len(trace.src_tokens) != len(trace.tgt_tokens)
    return model, trace


def check(split: LogitSplit, trace: Trace) -> None:
    """The sum is the logits to 1e-5, and their softmax is the trace's map."""
    total = np.sum([part.astype(np.float64) for part in split.parts.values()], axis=0)
    np.testing.assert_allclose(total, split.logits, rtol=1e-5, atol=1e-5 * np.abs(total).max())
    assert split.residual <= 1e-5 * max(1.0, float(np.abs(split.logits).max()))
    masked = np.where(split.mask, total, -np.inf)
    powers = np.exp(masked - masked.max(axis=1, keepdims=True))
    weights = powers / powers.sum(axis=1, keepdims=True)
    own = trace.attention(split.kind)[0, split.head]
    np.testing.assert_allclose(weights, own, rtol=0, atol=1e-5)
    assert split.tokens == trace.axis_tokens(split.kind)[0]


@pytest.mark.parametrize(
    "changes",
    [{}, {"attention_bias": True}, {"positions": "learned", "max_positions": 60},
     {"scale_embedding": False, "tie_embeddings": "none"}, {"position_layout": "concatenated"}],
    ids=lambda changes: " ".join(changes) or "paper",
)  # fmt: skip
def test_the_parts_add_up(
    changes: dict[str, object], tiny_config: ModelConfig, tiny_tokenizer: Tokenizer
) -> None:
    model, trace = make(tiny_config.replace(**changes), tiny_tokenizer)
    for kind in KINDS:
        for head in range(3):
            split = split_logits(model, trace, kind, head)
            check(split, trace)
            assert ("bias" in split.parts) == bool(changes.get("attention_bias"))


def test_a_part_depends_on_its_own_side_alone(
    tiny_config: ModelConfig, tiny_tokenizer: Tokenizer
) -> None:
    """Content parts depend on the tokens, position parts on the positions."""
    model, trace = make(tiny_config, tiny_tokenizer)
    split = split_logits(model, trace, "encoder_self", 1)
    token = next(each for each in split.tokens if split.tokens.count(each) > 1)
    first, second = [i for i, each in enumerate(split.tokens) if each == token][:2]
    np.testing.assert_allclose(
        split.content_content[first], split.content_content[second], atol=1e-5
    )
    assert not np.allclose(split.position_content[first], split.position_content[second])
    other = Translator(model, tiny_tokenizer, device="cpu").trace("A dog runs across it.", "Ein")
    n = min(len(trace.src_ids), len(other.src_ids))
    moved = split_logits(model, other, "encoder_self", 1)
    np.testing.assert_allclose(
        moved.position_position[:n, :n], split.position_position[:n, :n], atol=1e-6
    )


def test_there_is_none_where_it_would_not_be_exact(
    tiny_config: ModelConfig, tiny_tokenizer: Tokenizer
) -> None:
    assert why_not(tiny_config) is None
    pre = tiny_config.replace(norm="pre")
    assert "LayerNorm" in str(why_not(pre))
    model, trace = make(pre, tiny_tokenizer)
    with pytest.raises(ValueError, match="pre-norm"):
        split_logits(model, trace, "encoder_self", 0)
    model, trace = make(tiny_config, tiny_tokenizer)
    with pytest.raises(ValueError, match="cross-attention"):
        split_logits(model, trace, "cross", 0)
    with pytest.raises(ValueError, match="head=3"):
        split_logits(model, trace, "encoder_self", 3)
