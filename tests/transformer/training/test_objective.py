"""The training objective and the learning rate schedule."""

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.training.objective import learning_rate
from transformer.training.recipe import TrainingRecipe


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
