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


def test_the_cells_that_differ_most_in_share_of_the_largest_are_ringed_on_both_maps() -> None:
    changes = np.array([[-2, 0.6, 0.1], [-3, 0.6, 0]], np.float32)  # shares 67 20 3 100 20 0%
    other = dataclasses.replace(ONE, weights=changes, noun="effect in nats")
    one, two, sentences = ringed(ONE, other)  # shares 100 29 14 7 86 50%
    assert one.ringed == two.ringed == ((1, 0), (1, 1), (1, 2))
    assert sentences[0] == (
        "**“b” reads “x”**: 100% of the largest effect (−3.00 nats), but 7% of the largest "
        "weight (0.05)."
    )
    little = dataclasses.replace(ONE, weights=ONE.weights * 3 + np.float32(0.1))
    assert ringed(ONE, little)[0].ringed == ()
