"""Which way of multiplying is fastest here, for every shape of W and number of rows.

A model's matrices are raced once, when they are prepared. Each lap takes one way and goes from
shape to shape, to another of the model's own matrices each time, so that these come from memory or
from the processor's caches as they do in decoding. The ways take turns, and their best times count.
A way must win clearly and repeatedly; otherwise the usual one stays.

Ways differ in the last bits of their sums. So a choice is made once: this process remembers it,
and so does this machine (`transformer.fast.kept`), unless noise left it open.
"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from transformer.fast.kept import Kept
from transformer.fast.products import Names, Product
from transformer.fast.setting import is_measured
from transformer.fast.ways import FEW_ROWS, WAYS

#: Smallest matrix, in weights, that is raced. Smaller ones stay in the processor's caches.
RACED_FROM = 50_000
#: Of a larger matrix, parts with this many weights (16 MiB) are raced: in smaller ones what a call
#: costs beside the reading would count for too much.
PART = 2**22
#: Matrices of a shape that take turns, and parts of larger ones.
MATRICES, PARTS = 4, 2

#: Rows with which each of `Names` is raced.
TRIED_ROWS = (1, FEW_ROWS, 16)
#: Laps that each way runs; one before them is not counted.
LAPS = 6
#: After two laps, ways that took this many times as long as the best run no more.
HOPELESS = 1.6
#: Seconds for a model's races with one number of rows. What is open by then stays as usual.
LIMIT = 0.4
#: A way wins if twice it took no more than this part of the usual way's time.
CLEAR = 0.9
#: The usual way's best time counts if another of its laps came this near.
STEADY = 1.25


class Shape(NamedTuple):
    """What a choice depends on: the matrix, and how PyTorch computes."""

    n_out: int
    n_in: int
    dtype: str
    possible: tuple[str, ...]
    usual: Names
    threads: int


#: The seconds of each way's laps, for every shape.
Times = dict[Shape, dict[str, list[float]]]


class Choices:
    """The ways chosen in this process. Threads may share it."""

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        *,
        measured: bool = True,
        kept: Kept | None = None,
    ) -> None:
        """Args:
        clock: seconds.
        measured: False takes the usual ways.
        kept: what this machine remembers; None is nothing.
        """
        self._clock, self._measured, self._kept = clock, measured, kept
        self._known: dict[Shape, Names] = {}
        self._lock = threading.Lock()

    def prepare(self, products: Sequence[Product], *, many: bool = False) -> None:
        """Settle how each of a model's products is computed.

        Args: many: they nearly always get many rows, so keep no layouts for fewer.
        """
        groups = self._groups(products) if self._measured else {}
        with self._lock:  # races side by side would slow each other
            unknown = {shape: each for shape, each in groups.items() if not self._recall(shape)}
            if unknown:
                found = race(groups, self._clock)
                for shape in unknown:
                    self._known[shape] = self._keep(shape, found[shape])
            names = {id(each): self._known[shape] for shape in groups for each in groups[shape]}
        for each in products:
            taken = names.get(id(each)) or each.usual()
            each.settle(Names(*[taken.many] * 3) if many else taken)

    def release(self) -> None:
        """Make the lock anew, in a process forked while another thread held it."""
        self._lock = threading.Lock()

    def _groups(self, products: Iterable[Product]) -> dict[Shape, list[Product]]:
        groups = defaultdict(list)
        for each in products:
            if len(each.possible) > 1 and each.n_out * each.n_in >= RACED_FROM:
                groups[_shape(each)].append(each)
        return dict(groups)

    def _recall(self, shape: Shape) -> bool:
        if shape not in self._known and self._kept is not None:
            names = self._kept.read(shape._asdict())
            if names is not None and set(names) <= set(shape.possible):
                self._known[shape] = Names(*names)
        return shape in self._known

    def _keep(self, shape: Shape, winners: Sequence[str | None]) -> Names:
        """Let the machine remember; another process may have been first, whose choice counts.

        What noise left open is not kept: a later process may decide it.
        """
        names = Names(*(one or usual for one, usual in zip(winners, shape.usual, strict=True)))
        if self._kept is None or None in winners:
            return names
        first = self._kept.write(shape._asdict(), names)
        return Names(*first) if set(first) <= set(shape.possible) else names


def race(
    groups: Mapping[Shape, Sequence[Product]], clock: Callable[[], float]
) -> dict[Shape, list[str | None]]:
    """Measure every way for every shape; return the winners, in the order of `Names`."""
    with torch.inference_mode():
        entered = {shape: _entered(shape, products) for shape, products in groups.items()}
        by_rows = [_laps(entered, rows, clock) for rows in TRIED_ROWS]
    return {
        shape: [
            winner(times[shape], usual)
            for times, usual in zip(by_rows, shape.usual, strict=True)
        ]
        for shape in groups
    }  # fmt: skip


def winner(times: Mapping[str, Sequence[float]], usual: str) -> str | None:
    """Return the way that is clearly the fastest, else the usual one; None if noise hides it.

    Args: times: seconds of each way's laps, in any order; fewer than two where time ran out.
    """
    if any(len(laps) < 2 for laps in times.values()):
        return None
    best = {name: sorted(laps)[:2] for name, laps in times.items()}
    if best[usual][1] > STEADY * best[usual][0]:
        return None
    fastest = min(best, key=lambda name: best[name][1])
    return fastest if best[fastest][1] <= CLEAR * best[usual][0] else usual


def _shape(product: Product) -> Shape:
    return Shape(
        product.n_out, product.n_in, product.dtype, product.possible, product.usual(),
        torch.get_num_threads(),
    )  # fmt: skip


def _entered(shape: Shape, products: Sequence[Product]) -> list[Product]:
    """Return the matrices of a shape that run, ready in every way: copies take time to make."""
    rows = max(1, PART // shape.n_in)
    entered = list(products[:MATRICES])
    if shape.n_out > rows:
        entered = [part for each in entered for part in each.slices(rows)][:PARTS]
    for each in entered:
        for name in shape.possible:
            each.way(name)
    return entered


def _laps(
    entered: Mapping[Shape, Sequence[Product]],
    rows: int,
    clock: Callable[[], float],
) -> Times:
    """Let the ways run with this many rows."""
    deadline = clock() + LIMIT
    times: Times = {
        shape: {name: [] for name in shape.possible if rows <= WAYS[name].most_rows}
        for shape in entered
    }
    inputs = {shape: _input(shape, rows) for shape in entered}
    ways = list(dict.fromkeys(name for each in times.values() for name in each))
    turn = 0
    for lap in range(LAPS + 1):
        for name in ways if lap % 2 else reversed(ways):
            for shape, products in entered.items():
                if name not in times[shape] or _hopeless(times[shape], name):
                    continue
                way = products[turn % len(products)].way(name)
                began = clock()
                way(inputs[shape])
                spent = clock() - began
                if lap:
                    times[shape][name].append(spent)
            turn += 1
            if clock() > deadline:
                return times
    return times


def _input(shape: Shape, rows: int) -> Tensor:
    draw = torch.Generator().manual_seed(rows)
    dtype: torch.dtype = getattr(torch, shape.dtype)
    return torch.randn(rows, shape.n_in, generator=draw).to(dtype)


def _hopeless(times: Mapping[str, Sequence[float]], name: str) -> bool:
    if len(times[name]) < 2:
        return False
    return min(times[name]) > HOPELESS * min(min(laps) for laps in times.values() if laps)


def prepare(products: Sequence[Product], *, many: bool = False) -> None:
    """Settle how each of a model's products is computed, by the choices of this process.

    Args: many: see `Choices.prepare`.

    Raises: `InputError` if the environment wants a choice that does not exist.
    """
    choices().prepare(products, many=many)


@cache
def choices() -> Choices:
    """Return the choices of this process. Raises `InputError` like `prepare`."""
    return Choices(measured=is_measured(), kept=Kept.of_this_machine())


def _after_fork() -> None:
    if choices.cache_info().currsize:
        choices().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
