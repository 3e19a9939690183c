import dataclasses

import numpy as np

from transformer.measures.heads import ranks
from ui.attention.against import ringed
from ui.components.lens import Map

ONE = Map(
    np.array([[0.7, 0.2, 0.1], [0.05, 0.6, 0.35]], np.float32),
    ("a", "b"), ("x", "y", "z"), "", "", "",
)  # fmt: skip


def test_ties_share_a_rank() -> None:
    assert ranks(np.array([3, 1, 3, 2])).tolist() == [3.5, 1, 3.5, 2]


def test_the_cells_whose_ranks_differ_most_are_ringed_on_both_maps() -> None:
    changes = np.array([[-2, 0.5, 0.1], [-3, 0.6, 0.2]], np.float32)  # ranks 2 4 6 1 3 5
    other = dataclasses.replace(ONE, weights=changes, noun="effect in nats")
    one, two, sentences = ringed(ONE, other)  # ranks 1 4 5 6 2 3
    assert one.ringed == two.ringed == ((1, 0), (1, 2), (0, 0))
    assert sentences[0] == (
        "“b” reads “x”: attention weight 0.05 (rank 6), effect in nats −3.00 (rank 1)."
    )
    assert ringed(ONE, ONE)[0].ringed == ()


def test_cells_that_are_masked_have_no_rank() -> None:
    square = Map(ONE.weights[:, :2], ("a", "b"), ("x", "y"), "", "", "", causal=True)
    other = dataclasses.replace(square, weights=square.weights[::-1] * 1.0)
    one, _, sentences = ringed(square, other)
    assert (0, 1) not in one.ringed and "(rank 3)" in sentences[0]
