"""Races between ways of multiplying: what was measured is what is taken, and it costs little."""

from __future__ import annotations

import itertools
import os
import random
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from transformer.errors import InputError
from transformer.fast import choice, products, ways
from transformer.fast.choice import LAPS, LIMIT, TRIED_ROWS, Choices, choices, winner
from transformer.fast.kept import Kept
from transformer.fast.products import Names, Product
from transformer.fast.setting import VARIABLE
from transformer.fast.ways import FEW_ROWS

#: Seconds that a way takes on a simulated machine, given its name, the matrix and the rows.
Seconds = Callable[[str, tuple[int, ...], int], float]

#: Shapes of W of one model, with unequal numbers of matrices.
SHAPES = [(12, 20), (12, 20), (20, 12), (40, 12), (12, 20)]


class Machine:
    """A processor whose ways take as long as it is told; the results are those of the real ones."""

    def __init__(self, seconds: Seconds) -> None:
        self.seconds, self.now = seconds, 0.0
        self.ran: list[tuple[str, tuple[int, ...], int]] = []
        self.looked = 0

    def clock(self) -> float:
        self.looked += 1
        return self.now


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Callable[[Seconds], Machine]:
    """Simulates a processor; every matrix is worth a race."""
    monkeypatch.setattr(choice, "RACED_FROM", 1)
    monkeypatch.setattr(products, "PACKED_FROM", 1)

    def simulate(seconds: Seconds) -> Machine:
        machine = Machine(seconds)
        for name, real in list(ways.WAYS.items()):

            class Timed(real):  # type: ignore[misc, valid-type]
                way, shape = name, ()

                def __init__(self, weight: Tensor, *rest: object) -> None:
                    super().__init__(weight, *rest)
                    self.shape = tuple(weight.shape)

                def __call__(self, x: Tensor, added: Tensor | None = None) -> Tensor:
                    machine.ran.append((self.way, self.shape, len(x)))
                    machine.now += machine.seconds(*machine.ran[-1])
                    result: Tensor = super().__call__(x, added)
                    return result

            monkeypatch.setitem(ways.WAYS, name, Timed)
        return machine

    return simulate


def made(shapes: Sequence[tuple[int, int]] = SHAPES) -> list[Product]:
    draw = torch.Generator().manual_seed(0)
    return [
        Product(torch.randn(shape, generator=draw), torch.randn(shape[0], generator=draw))
        for shape in shapes
    ]


POSSIBLE = Product(torch.zeros(2, 2)).possible


def racing(rows: int) -> tuple[str, ...]:
    """Return the ways that race with this many rows."""
    return tuple(name for name in POSSIBLE if rows <= ways.WAYS[name].most_rows)


#: All races of a shape.
RACES = sum(len(racing(rows)) for rows in TRIED_ROWS)


@pytest.mark.parametrize("seed", range(4))
def test_every_shape_and_number_of_rows_takes_what_was_fastest(
    simulated: Callable[[Seconds], Machine], seed: int
) -> None:
    """Whatever the processor: each seed draws another order of the ways for each case."""
    draw = random.Random(seed)
    cases = itertools.product(sorted(set(SHAPES)), TRIED_ROWS)
    order = {case: draw.sample(racing(case[1]), len(racing(case[1]))) for case in cases}
    machine = simulated(
        lambda name, shape, rows: 1e-4 * 1.3 ** order.get((shape, rows), list(POSSIBLE)).index(name)
    )
    model = made()
    Choices(machine.clock).prepare(model)
    for product in model:
        best = [order[(product.n_out, product.n_in), rows][0] for rows in TRIED_ROWS]
        assert product.names == Names(*best)
        for name, rows in zip(best, (1, FEW_ROWS, FEW_ROWS + 1), strict=True):
            product(torch.zeros(rows, product.n_in))
            assert machine.ran[-1] == (name, (product.n_out, product.n_in), rows)


def test_products_of_many_rows_keep_no_way_for_fewer(
    simulated: Callable[[Seconds], Machine],
) -> None:
    """The choice is remembered as it was measured; only what this model keeps differs."""
    best = {1: "transposed", FEW_ROWS: "columns", 16: "rows"}
    machine = simulated(lambda name, shape, rows: 1e-4 if name == best[rows] else 3e-4)
    remembering, encoder, decoder = Choices(machine.clock), made(), made()
    remembering.prepare(encoder, many=True)
    remembering.prepare(decoder)
    assert {each.names for each in encoder} == {Names("rows", "rows", "rows")}
    assert {each.names for each in decoder} == {Names("transposed", "columns", "rows")}


def test_ways_take_turns_over_the_models_matrices(
    simulated: Callable[[Seconds], Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large matrix runs in parts; ways that are hopeless run no more."""
    monkeypatch.setattr(choice, "PART", 12 * 10)
    slow = POSSIBLE[0]
    machine = simulated(lambda name, shape, rows: 1e-3 if name == slow else 1e-4)
    Choices(machine.clock).prepare(made())
    assert {shape for _, shape, _ in machine.ran} == {(6, 20), (10, 12)}
    counts = {name: sum(ran[0] == name for ran in machine.ran) for name in POSSIBLE}
    assert counts == {
        name: len(set(SHAPES))
        * sum(name in racing(rows) for rows in TRIED_ROWS)
        * (3 if name == slow else LAPS + 1)
        for name in POSSIBLE
    }
    assert {rows for name, _, rows in machine.ran if name == "transposed"} == {1}
    laps = [name for name, *_ in machine.ran[:: len(set(SHAPES))]]
    assert laps[: 2 * len(POSSIBLE)] == [*reversed(POSSIBLE), *POSSIBLE]


def test_a_machine_too_slow_to_measure_keeps_the_usual_ways(
    simulated: Callable[[Seconds], Machine], tmp_path: Path
) -> None:
    """Nothing is kept then: a later process may find the machine less busy."""
    machine = simulated(lambda name, shape, rows: LIMIT / 5)
    model, kept = made(), Kept(tmp_path / "kept", {})
    Choices(machine.clock, kept=kept).prepare(model)
    assert all(product.names == product.usual() for product in model)
    assert len(machine.ran) <= (5 + len(set(SHAPES))) * len(TRIED_ROWS)
    assert not kept.folder.exists()
    machine.seconds = lambda name, shape, rows: 1e-4 if name == POSSIBLE[0] else 3e-4
    Choices(machine.clock, kept=kept).prepare(later := made())
    assert {each.names for each in later} == {Names(*[POSSIBLE[0]] * 3)}
    assert len(list(kept.folder.iterdir())) == len(set(SHAPES))


def test_a_second_model_of_the_same_shapes_costs_nothing(
    simulated: Callable[[Seconds], Machine],
) -> None:
    machine = simulated(lambda name, shape, rows: 1e-4)
    remembering = Choices(machine.clock)
    remembering.prepare(made())
    ran, looked = len(machine.ran), machine.looked
    remembering.prepare(made(SHAPES[:2]))
    assert (len(machine.ran), machine.looked) == (ran, looked)
    remembering.prepare(made([*SHAPES, (8, 12)]))
    assert len(machine.ran) > ran


def test_threads_race_once(simulated: Callable[[Seconds], Machine]) -> None:
    machine = simulated(lambda name, shape, rows: 1e-4)
    shared, begin = Choices(machine.clock), threading.Barrier(3)
    models = [made() for _ in range(3)]

    def prepare(model: list[Product]) -> None:
        begin.wait()
        shared.prepare(model)

    threads = [threading.Thread(target=prepare, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(machine.ran) <= len(set(SHAPES)) * RACES * (LAPS + 1)
    assert {tuple(each.names or ()) for model in models for each in model[:1]} == {
        tuple(models[0][0].names or ())
    }


def test_small_matrices_are_not_raced() -> None:
    machine = Machine(lambda name, shape, rows: 0.0)
    model = made()
    Choices(machine.clock).prepare(model)
    assert not machine.looked
    assert all(product.names == Names("rows", "rows", "rows") for product in model)


@given(
    quiet=st.lists(st.floats(1e-5, 1e-3), min_size=3, max_size=3),
    noise=st.lists(st.lists(st.floats(1, 1e4), max_size=3), min_size=3, max_size=3),
)
def test_noise_decides_nothing(quiet: list[float], noise: list[list[float]]) -> None:
    """Two undisturbed laps of each way are enough to find the fastest one, if it is so clearly."""
    times = {
        name: [*(factor * best for factor in disturbed), best, best]
        for name, best, disturbed in zip("abc", quiet, noise, strict=True)
    }
    best = dict(zip("abc", quiet, strict=True))
    fastest = min(best, key=lambda name: best[name])
    clearly = best[fastest] <= choice.CLEAR * best["a"]
    assert winner(times, "a") == (fastest if clearly else "a")


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ({"a": [1.0, 1.0], "b": [0.95, 0.95]}, "a"),  # too close
        ({"a": [1.0, 1.0], "b": [0.5, 1.0]}, "a"),  # once only
        ({"a": [1.0, 2.0], "b": [0.5, 0.5]}, None),  # the usual way was disturbed
        ({"a": [1.0, 1.0], "b": [0.5]}, None),  # time ran out
        ({"a": [1.0], "b": [0.5, 0.5]}, None),
        ({"a": [], "b": []}, None),
    ],
)
def test_without_a_clear_winner_the_usual_way_stays(
    times: dict[str, list[float]], found: str | None
) -> None:
    assert winner(times, "a") == found


def test_the_machine_remembers(simulated: Callable[[Seconds], Machine], tmp_path: Path) -> None:
    """Other processes take the same ways, whatever they would measure now."""
    machine = simulated(lambda name, shape, rows: 1e-4 if name == POSSIBLE[1] else 3e-4)
    first = made()
    Choices(machine.clock, kept=Kept(tmp_path / "new", {"cpu": 1})).prepare(first)
    machine.seconds = lambda name, shape, rows: 1e-4 if name == POSSIBLE[0] else 3e-4
    ran, looked = len(machine.ran), machine.looked
    later = made()
    Choices(machine.clock, kept=Kept(tmp_path / "new", {"cpu": 1})).prepare(later)
    assert (len(machine.ran), machine.looked) == (ran, looked)
    assert [each.names for each in later] == [each.names for each in first]
    x = torch.randn(3, 20, generator=torch.Generator().manual_seed(1))
    assert torch.equal(first[0](x), later[0](x))
    other = made()
    Choices(machine.clock, kept=Kept(tmp_path / "new", {"cpu": 2})).prepare(other)
    assert other[0].names == Names(*[POSSIBLE[0]] * 3) != first[0].names


def test_of_two_processes_that_race_at_once_the_first_to_finish_counts(
    simulated: Callable[[Seconds], Machine], tmp_path: Path
) -> None:
    machine = simulated(lambda name, shape, rows: 1e-4 if name == POSSIBLE[0] else 3e-4)
    kept = Kept(tmp_path, {})
    theirs, ours = made(), made()

    class Slower(Kept):
        """Another process finishes between this one's race and its writing."""

        def write(self, circumstances: dict[str, object], names: Sequence[str]) -> Sequence[str]:  # type: ignore[override]
            kept.write(circumstances, [POSSIBLE[1]] * 3)
            return super().write(circumstances, names)

    Choices(machine.clock, kept=Slower(tmp_path, {})).prepare(ours)
    Choices(machine.clock, kept=kept).prepare(theirs)
    assert ours[0].names == theirs[0].names == Names(*[POSSIBLE[1]] * 3)


def test_ways_that_do_not_exist_are_not_taken_from_a_file(
    simulated: Callable[[Seconds], Machine], tmp_path: Path
) -> None:
    class Odd(Kept):
        def read(self, circumstances: object) -> list[str]:
            return ["rows", "teleport", "rows"]

    machine = simulated(lambda name, shape, rows: 1e-4 if name == POSSIBLE[0] else 3e-4)
    model = made()
    Choices(machine.clock, kept=Odd(tmp_path, {})).prepare(model)
    assert model[0].names == Names(*[POSSIBLE[0]] * 3)


def test_the_environment_fixes_the_usual_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "RACED_FROM", 1)
    monkeypatch.setenv(VARIABLE, "usual")
    fixed, model = choices.__wrapped__(), made()
    fixed._clock = lambda: pytest.fail("raced")
    fixed.prepare(model)
    assert all(product.names == product.usual() for product in model)
    monkeypatch.setenv(VARIABLE, "fastest")
    with pytest.raises(InputError, match="HEADLIGHT_PRODUCTS=fastest: must be measured or usual"):
        choices.__wrapped__()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_forked_during_a_race_is_not_stuck() -> None:
    """A thread races, which does not exist in the child."""
    held, ended = threading.Event(), threading.Event()

    def hold() -> None:
        with choices()._lock:
            held.set()
            ended.wait()

    racing = threading.Thread(target=hold)
    racing.start()
    held.wait()
    child = os.fork()
    if not child:
        try:
            choice.prepare(made())
            os._exit(7)
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    ended.set()
    racing.join()
    assert os.waitstatus_to_exitcode(status) == 7
