"""Compact records equal the full ones, and cost a garbage collector little."""

import copy
import gc
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.searched import searched
from transformer.search.records import Compact


@dataclass(frozen=True)
class Each:
    number: int
    value: float
    text: str
    row: int = -1


records = st.lists(
    st.builds(Each, st.integers(), st.floats(allow_nan=False), st.text(), st.integers())
)


@given(records)
def test_they_are_a_sequence_of_the_records(made: list[Each]) -> None:
    compact = Compact(Each, made)
    assert list(compact) == made and compact == made and len(compact) == len(made)
    assert list(reversed(compact)) == made[::-1]
    assert compact[1:] == tuple(made[1:])
    assert all(
        compact[i] == made[i] and compact[i - len(made)] == made[i] for i in range(len(made))
    )
    assert copy.deepcopy(compact) == compact
    assert bool(compact) == bool(made)
    if made:
        assert compact != made[:-1] and made[0] in compact


def test_bytes_grow_with_the_records() -> None:
    none, one, many = (
        Compact(Each, [Each(n, n / 3, "a") for n in range(10**6, 10**6 + n)]) for n in (0, 1, 50)
    )
    assert none.nbytes == 0 and 100 < one.nbytes < 300 and many.nbytes == 50 * one.nbytes
    with pytest.raises(IndexError):
        one[1]


def test_the_collector_lets_go_of_what_a_search_looked_at() -> None:
    gc.freeze()  # the older objects of this process, so that collecting is fast
    search = searched().search
    gc.collect()
    gc.collect()  # it lets go of a tuple of tuples once it has of those in it
    gc.unfreeze()
    for step in search.steps:
        (rows,) = (each for each in gc.get_referents(step.candidates) if isinstance(each, tuple))
        assert rows and not gc.is_tracked(rows)
