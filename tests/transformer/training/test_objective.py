"""The training objective and the learning rate schedule."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from tests.tiny_models import random_model
from transformer.config import ModelConfig
from transformer.model import Transformer
from transformer.training.objective import Objective, learning_rate, smoothed_cross_entropy
from transformer.training.recipe import TrainingRecipe

CONFIG = ModelConfig(
    vocab_size=20, d_model=12, n_heads=3, d_ff=16, n_encoder_layers=1, n_decoder_layers=2
)
SRC = torch.tensor([[5, 9, 7, 2], [14, 2, 0, 0]])
TGT_IN = torch.tensor([[1, 6, 11], [1, 17, 0]])
TGT_OUT = torch.tensor([[6, 11, 2], [17, 2, 0]])


@given(
    smoothing=st.floats(0, 0.9), seed=st.integers(0, 2**31), scale=st.sampled_from([0.1, 1.0, 30.0])
)  # fmt: skip
def test_smoothed_cross_entropy_is_torchs(smoothing: float, seed: int, scale: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(4, 6, 11, generator=generator) * scale
    logits.requires_grad_()
    target = torch.randint(0, 11, (4, 6), generator=generator)
    loss, nll = smoothed_cross_entropy(logits, target, smoothing, pad_id=0)
    loss.backward()
    found, logits.grad = logits.grad, None
    settings = {"ignore_index": 0, "reduction": "sum"}
    expected = F.cross_entropy(
        logits.flatten(0, 1), target.flatten(), label_smoothing=smoothing, **settings
    )
    expected.backward()
    torch.testing.assert_close(loss, expected, atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(found, logits.grad, atol=1e-5, rtol=1e-4)
    plain = F.cross_entropy(logits.flatten(0, 1), target.flatten(), **settings)
    torch.testing.assert_close(nll, plain.detach(), atol=1e-3, rtol=1e-4)


def test_smoothing_is_the_papers() -> None:
    """Cross-entropy against (1 - epsilon) on the target plus epsilon spread over all V."""
    logits, target = torch.randn(5, 7), torch.tensor([3, 1, 6, 2, 5])
    wanted = 0.9 * F.one_hot(target, 7) + 0.1 / 7
    expected = -(wanted * logits.log_softmax(-1)).sum()
    torch.testing.assert_close(smoothed_cross_entropy(logits, target, 0.1, 0)[0], expected)


def test_half_precision_logits_are_summed_in_float32() -> None:
    logits = torch.randn(3, 9).bfloat16()
    target = torch.tensor([1, 2, 3])
    loss, _ = smoothed_cross_entropy(logits, target, 0.1, 0)
    assert loss.dtype == torch.float32


def test_r_drop_without_dropout_is_the_plain_loss() -> None:
    """Two passes that agree have no divergence."""
    model = random_model(CONFIG)
    plain = Objective(model, TrainingRecipe())(SRC, TGT_IN, TGT_OUT)
    doubled = Objective(model, TrainingRecipe(r_drop=5.0))(SRC, TGT_IN, TGT_OUT)
    torch.testing.assert_close(doubled, plain, atol=1e-5, rtol=1e-5)


def test_r_drop_adds_the_symmetric_divergence() -> None:
    torch.manual_seed(0)
    model = Transformer(CONFIG.replace(dropout=0.4))
    torch.manual_seed(1)
    loss, nll = Objective(model, TrainingRecipe(r_drop=3.0))(SRC, TGT_IN, TGT_OUT)
    torch.manual_seed(1)
    logits = model(torch.cat([SRC, SRC]), torch.cat([TGT_IN, TGT_IN]))
    target = torch.cat([TGT_OUT, TGT_OUT])
    smooth, plain = smoothed_cross_entropy(logits, target, 0.1, 0)
    p, q = logits.softmax(-1).chunk(2)
    divergence = (p * (p / q).log() + q * (q / p).log()).sum(-1)[TGT_OUT != 0].sum()
    assert divergence > 0.01
    torch.testing.assert_close(loss, smooth / 2 + 3.0 * divergence / 2)
    torch.testing.assert_close(nll, plain / 2)


@pytest.mark.parametrize("update", [1, 2, 100, 3_999, 4_000, 4_001, 100_000])
def test_learning_rate_is_the_papers_formula(update: int) -> None:
    expected = 512**-0.5 * min(update**-0.5, update * 4_000**-1.5)
    assert learning_rate(update, TrainingRecipe(), 512, 10**6) == pytest.approx(expected)


@given(
    update=st.integers(1, 5_000), warmup=st.integers(0, 3_000), peak=st.floats(1e-5, 1e-1),
    cooldown=st.floats(0, 1),
)  # fmt: skip
def test_learning_rate_stays_within_its_peak(
    update: int, warmup: int, peak: float, cooldown: float
) -> None:
    recipe = TrainingRecipe(warmup=warmup, peak_lr=peak, cooldown=cooldown)
    assert 0 < learning_rate(update, recipe, 64, 5_000) <= peak * (1 + 1e-9)


def test_cooldown_ends_near_zero_and_leaves_the_start_alone() -> None:
    recipe = TrainingRecipe(warmup=10, peak_lr=1.0, cooldown=0.25)
    without = dataclasses.replace(recipe, cooldown=0.0)
    rates = [learning_rate(update, recipe, 64, 100) for update in range(1, 101)]
    plain = [learning_rate(update, without, 64, 100) for update in range(1, 101)]
    assert rates[:76] == plain[:76]
    assert rates[-1] == pytest.approx(plain[-1] / 25)
    assert all(later < earlier for earlier, later in itertools.pairwise(rates[10:]))
