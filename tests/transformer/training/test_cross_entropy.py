import dataclasses
import itertools

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from transformer.training import objective
from transformer.training.objective import (
    learning_rate,
    projected_cross_entropy,
    smoothed_cross_entropy,
)
from transformer.training.recipe import TrainingRecipe


def test_smoothing_is_the_papers_and_no_token_costs_nothing() -> None:
    logits, target = torch.randn(5, 7), torch.tensor([3, 1, 6, 2, 5])
    wanted = 0.9 * F.one_hot(target, 7) + 0.1 / 7
    expected = -(wanted * logits.log_softmax(-1)).sum()
    torch.testing.assert_close(smoothed_cross_entropy(logits, target, 0.1, 0)[0], expected)
    # Logits of half precision are summed in float32.
    assert smoothed_cross_entropy(logits.bfloat16(), target, 0.1, 0)[0].dtype == torch.float32
    # A step of a masked model may ask for no token at all.
    hidden, generator = torch.randn(2, 3, 4, requires_grad=True), nn.Linear(4, 9, bias=False)
    loss, nll = projected_cross_entropy(hidden, generator, torch.zeros(2, 3).long(), 0.1, 0)
    assert loss == nll == 0
    for gradient in gradients(loss, hidden, generator.weight):
        assert not gradient.any()


def gradients(loss: Tensor, *inputs: Tensor | None) -> list[Tensor]:
    return list(torch.autograd.grad(loss, [each for each in inputs if each is not None]))


@given(
    smoothing=st.floats(0, 0.9),
    seed=st.integers(0, 2**31),
    scale=st.sampled_from([0.1, 1.0, 30.0]),
    n_pieces=st.integers(2, 40),
    n_logits=st.integers(1, 200),
    has_bias=st.booleans(),
)
def test_the_loss_is_torchs_from_logits_and_by_blocks_of_rows(
    smoothing: float, seed: int, scale: float, n_pieces: int, n_logits: int, has_bias: bool
) -> None:
    draw = torch.Generator().manual_seed(seed)
    generator = nn.Linear(6, n_pieces, bias=has_bias, dtype=torch.float64)
    nn.init.normal_(generator.weight, generator=draw)
    hidden = torch.randn(4, 5, 6, generator=draw, dtype=torch.float64) * scale
    hidden.requires_grad_()
    target = torch.randint(0, n_pieces, (4, 5), generator=draw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objective, "LOGITS", n_logits)
        loss, nll = projected_cross_entropy(hidden, generator, target, smoothing, pad_id=0)
    whole, its_nll = smoothed_cross_entropy(generator(hidden), target, smoothing, pad_id=0)
    logits = generator(hidden).flatten(0, 1)
    settings = {"ignore_index": 0, "reduction": "sum"}
    each = F.cross_entropy(logits, target.flatten(), label_smoothing=smoothing, **settings)
    plain = F.cross_entropy(logits, target.flatten(), **settings).detach()
    torch.testing.assert_close((loss, nll), (each, plain))
    close = {"check_dtype": False, "rtol": 1e-4, "atol": 1e-3}
    torch.testing.assert_close((whole, its_nll), (each, plain), **close)
    assert not nll.requires_grad and not its_nll.requires_grad
    with torch.no_grad():  # without gradients, logits are made whole
        again = projected_cross_entropy(hidden, generator, target, smoothing, pad_id=0)
    torch.testing.assert_close(again, (whole.detach(), its_nll))
    logits = generator(hidden)
    picked = (objective._target_logits(logits, target, fuses=fuses) for fuses in (False, True))
    torch.testing.assert_close(*picked)
    inputs = hidden, generator.weight, generator.bias
    expected = gradients(each * 0.3, *inputs)
    torch.testing.assert_close(gradients(loss * 0.3, *inputs), expected)
    torch.testing.assert_close(gradients(whole * 0.3, *inputs), expected, **close)


def test_the_operation_is_sound() -> None:
    """PyTorch's checks: shapes without data, gradients, no hidden aliasing."""
    hidden, weight = torch.randn(5, 4, requires_grad=True), torch.randn(9, 4, requires_grad=True)
    target = torch.tensor([3, 0, 8, 1, 2])
    for bias in (None, torch.randn(9, requires_grad=True)):
        torch.library.opcheck(objective._by_blocks, (hidden, weight, bias, target, 0.1, 0, False))


def test_autocast_multiplies_in_bfloat16() -> None:
    torch.manual_seed(0)
    hidden, generator = torch.randn(30, 16, requires_grad=True), nn.Linear(16, 50, bias=False)
    target = torch.randint(1, 50, (30,))
    exact, _ = projected_cross_entropy(hidden, generator, target, 0.1, 0)
    wanted = gradients(exact, hidden, generator.weight)
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = projected_cross_entropy(hidden, generator, target, 0.1, 0)
    found = gradients(loss, hidden, generator.weight)
    assert loss.dtype == torch.float32
    assert loss != exact
    torch.testing.assert_close(loss, exact, rtol=1e-2, atol=0)
    for narrow, wide in zip(found, wanted, strict=True):
        assert narrow.dtype == torch.float32
        assert (narrow - wide).norm() < 0.02 * wide.norm()


@given(
    update=st.integers(1, 5_000), warmup=st.integers(0, 3_000), peak=st.floats(1e-5, 1e-1),
    cooldown=st.floats(0, 1),
)  # fmt: skip
def test_learning_rates_have_a_peak(update: int, warmup: int, peak: float, cooldown: float) -> None:
    recipe = TrainingRecipe(warmup=warmup, peak_lr=peak, cooldown=cooldown)
    assert 0 < learning_rate(update, recipe, 64, 5_000) <= peak * (1 + 1e-9)


def test_the_rate_is_the_papers_formula_and_a_cooldown_ends_near_zero() -> None:
    for update in (1, 2, 100, 3_999, 4_000, 4_001, 100_000):
        expected = 512**-0.5 * min(update**-0.5, update * 4_000**-1.5)
        assert learning_rate(update, TrainingRecipe(), 512, 10**6) == pytest.approx(expected)
    recipe = TrainingRecipe(warmup=10, peak_lr=1.0, cooldown=0.25)
    without = dataclasses.replace(recipe, cooldown=0.0)
    rates = [learning_rate(update, recipe, 64, 100) for update in range(1, 101)]
    plain = [learning_rate(update, without, 64, 100) for update in range(1, 101)]
    assert rates[:76] == plain[:76]
    assert rates[-1] == pytest.approx(plain[-1] / 25)
    assert all(later < earlier for earlier, later in itertools.pairwise(rates[10:]))
