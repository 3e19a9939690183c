"""Neighbours by cosine, principal axes, and the content of a vocabulary."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from transformer.measures import vocabulary

values = st.floats(-4, 4, width=32)
tables = arrays(np.float32, array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=7),
                elements=values)  # fmt: skip


@given(table=tables)
def test_cosine_is_symmetric_and_neighbours_fall(table: np.ndarray) -> None:
    grid = np.array([vocabulary.cosines(table, row) for row in table])
    np.testing.assert_allclose(grid, grid.T, atol=1e-6)
    for index in range(len(table)):
        found = vocabulary.neighbours(table, index, count=len(table))
        assert index not in found.ids
        assert (np.diff(found.cosines) <= 0).all()
        np.testing.assert_allclose(found.cosines, grid[index][found.ids], atol=1e-6)
        # No other is nearer; rows of zeros are no neighbours.
        some = np.delete(grid[index], index)
        assert len(found.ids) == np.isfinite(some).sum()


def test_neighbours_leave_out_what_they_are_told() -> None:
    table = np.array([[1, 0], [2, 0.1], [0, 1], [-1, 0], [0, 0]], dtype=np.float32)
    assert vocabulary.neighbours(table, 0, 3).ids.tolist() == [1, 2, 3]
    assert vocabulary.neighbours(table, 0, 1).ids.tolist() == [1]
    assert vocabulary.neighbours(table, 0, 3, leave_out=(1,)).ids.tolist() == [2, 3]
    assert vocabulary.neighbours(table, 4, 3).ids.tolist() == []
    with pytest.raises(ValueError, match="no row 5 among 5"):
        vocabulary.neighbours(table, 5, 1)
    with pytest.raises(ValueError, match="0 points"):
        vocabulary.principal_axes(np.zeros((0, 5), dtype=np.float32))


@given(points=tables, more=st.integers(0, 2**32 - 1))
def test_principal_axes_are_what_they_say(points: np.ndarray, more: int) -> None:
    k = min(2, points.shape[1])
    axes = vocabulary.principal_axes(points, k)
    np.testing.assert_allclose(axes.directions @ axes.directions.T, np.eye(k), atol=1e-5)
    assert axes.shares.sum() <= 1 + 1e-6
    assert (axes.shares >= 0).all() and (np.diff(axes.shares) <= 1e-6).all()
    places = vocabulary.project(points, axes)
    centred = points.astype(np.float64) - points.astype(np.float64).mean(axis=0)
    np.testing.assert_allclose(places, centred @ axes.directions.T, atol=1e-4)
    if len(points) == 1:
        assert not axes.shares.any() and not places.any()
    spread = float((centred**2).sum())
    if spread > 1e-3:
        np.testing.assert_allclose((places**2).sum(axis=0) / spread, axes.shares, atol=1e-4)
        # No other direction holds more variance than the first.
        other = np.random.default_rng(more).standard_normal(points.shape[1])
        other /= np.linalg.norm(other)
        assert ((centred @ other) ** 2).sum() / spread <= axes.shares[0] + 1e-4


PIECES = (
    "<pad>", "<s>", "</s>", "<unk>", "<0x00>", "▁", "▁the", "▁The", "the", "or", "▁other", "7",
)  # fmt: skip


def test_what_a_vocabulary_holds() -> None:
    kinds = vocabulary.piece_kinds(PIECES, special=range(4), byte_ids={4})
    assert kinds[3:8] == ("special", "byte", "starts a word", "starts a word", "starts a word")
    assert vocabulary.share_of_starts(kinds) == 4 / 7
    assert vocabulary.share_of_starts(kinds[:5]) == 0
    assert vocabulary.length_counts(PIECES, kinds) == {
        "starts a word": {0: 1, 3: 2, 5: 1},
        "inside a word": {3: 1, 2: 1, 1: 1},
    }
    wanted: dict[str, tuple[int, ...]] = {
        "the": (6, 7, 8, 10), " the": (6, 7), "7": (7, 11), "HER": (10,), "o": (9, 10),
        "nothing": (), "<0x": (4,), "": tuple(range(12)),
    }  # fmt: skip
    assert {text: vocabulary.find(PIECES, text) for text in wanted} == wanted
    assert [vocabulary.piece_length(piece) for piece in ("▁", "▁ab", "ab", "a▁")] == [0, 2, 2, 2]
