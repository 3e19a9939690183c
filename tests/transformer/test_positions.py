"""Positional encodings: the formula, the shift property, and positions beyond the table."""

import math

import pytest
import torch

from transformer.checkpoint.weights import about_stored
from transformer.config import DISTANCE_BUCKETS, ModelConfig, PositionLayout
from transformer.positions import (
    FURTHEST,
    LearnedPositions,
    RelativePositions,
    StoredPositions,
    angular_frequencies,
    distance_buckets,
    make_positions,
    sinusoidal,
)

LAYOUTS: tuple[PositionLayout, ...] = ("interleaved", "concatenated")
SMALL = ModelConfig(vocab_size=9, d_model=6, n_heads=1, d_ff=4)


def test_is_the_papers_formula_for_even_widths_in_both_layouts() -> None:
    for d_model in (0, 1, 7):
        with pytest.raises(ValueError, match="even"):
            sinusoidal(3, d_model)
    table = sinusoidal(9, 10)
    for pos in range(9):
        for i in range(5):
            angle = pos / 10_000 ** (2 * i / 10)
            assert table[pos, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[pos, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)
    interleaved, joined = (sinusoidal(7, 12, layout=layout) for layout in LAYOUTS)
    assert torch.equal(torch.cat([interleaved[:, 0::2], interleaved[:, 1::2]], dim=1), joined)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_stored_positions_say_what_they_are(dtype: torch.dtype) -> None:
    config = SMALL.replace(positions="stored", max_positions=20)
    positions = make_positions(config)
    assert isinstance(positions, StoredPositions)
    assert not list(positions.parameters())
    assert list(positions.state_dict()) == ["table"]
    exact = positions.table.clone()
    torch.testing.assert_close(exact, sinusoidal(20, 6), atol=0, rtol=0)
    with pytest.raises(ValueError, match="position 21 lies beyond the 20 stored positions"):
        positions(14, 7)
    rounded = exact.to(dtype).float()
    assert f"16 bits each, as {str(dtype).removeprefix('torch.')}" in about_stored(
        {"encoder": rounded, "decoder": rounded}, config
    )
    both = about_stored({"encoder": exact, "decoder": rounded}, config)
    assert "20 × 6 numbers" in both and "encoder's holds exactly the sinusoids" in both
    assert "no sinusoids (largest" in about_stored({"encoder": rounded.flip(0)}, config)
    assert "less than float32's precision" in about_stored({"encoder": exact + 1e-4}, config)


def test_learned_positions_end_with_their_table() -> None:
    positions = make_positions(SMALL.replace(d_model=7, positions="learned", max_positions=6))
    assert isinstance(positions, LearnedPositions)
    assert torch.equal(positions(2, 4), positions.table[2:])
    with pytest.raises(ValueError, match="position 7 lies beyond the 6 learned positions"):
        positions(2, 5)


def test_frequencies_fall_from_one_and_may_reach_the_end_point() -> None:
    frequencies = angular_frequencies(16)
    assert frequencies[0] == 1 and bool((frequencies.diff() < 0).all())
    frequencies = angular_frequencies(18, "endpoint")
    assert frequencies[0] == 1
    assert frequencies[-1].item() == pytest.approx(1e-4)
    steps = frequencies[1:] / frequencies[:-1]
    torch.testing.assert_close(steps, steps[:1].expand_as(steps))
    with pytest.raises(ValueError, match="needs two"):
        angular_frequencies(2, "endpoint")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_positions_that_start_elsewhere(layout: PositionLayout) -> None:
    config = SMALL.replace(
        d_model=10, max_positions=6, position_layout=layout, position_offset=2,
        position_frequencies="endpoint",
    )  # fmt: skip
    positions = make_positions(config)
    assert not positions.state_dict()  # sinusoids are no weights
    for first, length in ((0, 6), (4, 30), (0, 6)):  # the second lies beyond the table
        expected = sinusoidal(length, 10, start=first + 2, layout=layout, frequencies="endpoint")
        torch.testing.assert_close(positions(first, length), expected)
    angle = 7 / 10_000 ** (3 / 4)  # position 5 is number 7, and frequency 3 of 0..4
    at = {"interleaved": (6, 7), "concatenated": (3, 8)}[layout]
    row = positions(5, 1)[0]
    assert row[at[0]].item() == pytest.approx(math.sin(angle), abs=1e-6)
    assert row[at[1]].item() == pytest.approx(math.cos(angle), abs=1e-6)


@pytest.mark.parametrize("causal", [True, False])
def test_near_distances_are_told_apart_and_far_ones_share(causal: bool) -> None:
    """By hand: half of the classes hold one distance each, the last all from 128 on."""
    apart = torch.arange(-300, 301)
    classes = dict(
        zip(apart.tolist(), distance_buckets(apart, causal=causal).tolist(), strict=True)
    )
    assert set(classes.values()) == set(range(DISTANCE_BUCKETS)) - ({16} - {16 * causal})
    exact = 16 if causal else 8
    assert [classes[-n] for n in range(exact)] == list(range(exact))
    assert len({classes[-n] for n in range(FURTHEST, 301)}) == 1
    back = [classes[-n] for n in range(301)]
    assert back == sorted(back)
    if causal:
        assert {classes[n] for n in range(301)} == {0}
    else:
        # 16 + log(n / 8) / log(128 / 8) * 8 of the classes for keys ahead
        assert [classes[n] - classes[-n] for n in range(1, 301)] == [16] * 300
        assert classes[-64] == 8 + int(math.log(64 / 8) / math.log(16) * 8)


def test_relative_positions_depend_on_distance_alone() -> None:
    """The numbers of a shorter text are a part of a longer one's, and of a cached step's."""
    module = RelativePositions(3, causal=True)
    torch.nn.init.normal_(module.table)
    whole = module(9, 9)
    assert torch.equal(whole[:, :, :5, :5], module(5, 5))
    assert torch.equal(whole[:, :, 7:], module(2, 9))
    assert torch.equal(whole[0, :, 4, 1], whole[0, :, 7, 4])
