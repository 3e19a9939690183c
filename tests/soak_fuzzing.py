"""Inputs of every kind, broken at random: refused in one line, or read.

Two programs break them: Hypothesis, and atheris, which looks for branches that no input has taken
yet, where it is installed. A case that finds a fault is written to tests/fuzzing/cases, where
`make test` tries it for ever.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st

from tests.forks import ROOT
from tests.fuzzing.mutations import MUTATIONS, Mutation, mutated
from tests.fuzzing.targets import NAMES, Bench, Target, check
from tests.soaking import FUZZ_SECONDS, LONG, SEED, note

pytestmark = [
    pytest.mark.timeout(7200),
    pytest.mark.filterwarnings("ignore"),  # those of libraries about broken files
]

CASES = Path(__file__).parent / "fuzzing" / "cases"

#: Cases of each kind, in a long soak and in a short one.
MANY, FEW = 10_000, 150


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("bench"))


@pytest.mark.parametrize("name", NAMES)
def test_every_example_is_read(name: str, bench: Bench) -> None:
    for example in bench[name].examples:
        bench[name].read(example)


@pytest.mark.parametrize("name", NAMES)
def test_broken_input_is_refused_in_one_line(name: str, bench: Bench) -> None:
    target, begun, tried = bench[name], time.process_time(), 0
    count = MANY if LONG else FEW

    def refuses(example: bytes, changes: list[Mutation]) -> None:
        nonlocal tried
        tried += 1
        _try(target, mutated(example, changes))

    for seed in _seeds(lambda: time.process_time() - begun):
        broken = given(example=st.sampled_from(target.examples), changes=MUTATIONS)(refuses)
        settled = hypothesis.settings(
            max_examples=count, database=None, derandomize=False, deadline=None,
            suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink],
        )(broken)  # fmt: skip
        hypothesis.seed(seed)(settled)()
    note(fuzzed=name, by="hypothesis", cases=tried, seeds=[SEED, seed],
         seconds=round(time.process_time() - begun, 1))  # fmt: skip
    assert tried >= count // 2  # the same one twice is tried once


def _seeds(spent: Callable[[], float]) -> Iterator[int]:
    """Yield `SEED` and the seeds after it until the processor seconds `spent` are enough."""
    seed = SEED
    yield seed
    while spent() < FUZZ_SECONDS:
        seed += 1
        yield seed


def _try(target: Target, data: bytes) -> None:
    try:
        check(target, data)
    except Exception:
        folder = CASES / target.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / hashlib.sha256(data).hexdigest()[:12]).write_bytes(data)
        raise


@pytest.mark.parametrize("name", NAMES)
def test_the_same_where_no_input_has_been(name: str, tmp_path: Path) -> None:
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("atheris is not installed: pip install .[fuzz]")
    count = MANY if LONG else 2 * FEW
    begun, tried, branches = _children_seconds(), 0, 0
    for seed in _seeds(lambda: _children_seconds() - begun):
        cases, reached = _explore(name, tmp_path, count, seed)
        tried, branches = tried + cases, max(branches, reached)
    note(fuzzed=name, by="atheris", cases=tried, branches=branches, seeds=[SEED, seed],
         seconds=round(_children_seconds() - begun, 1))  # fmt: skip


def _children_seconds() -> float:
    """Return the processor seconds of child processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def _explore(name: str, folder: Path, count: int, seed: int) -> tuple[int, int]:
    """Let atheris try `count` cases of a kind; return how many it tried and the branches taken.

    What it learned is in the folder, where the next seed goes on.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzzing.explore", name, str(folder), str(count), str(seed)],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    said = done.stdout + done.stderr
    found = [*folder.glob("crash-*"), *folder.glob("timeout-*"), *folder.glob("oom-*")]
    for case in found:
        (CASES / name).mkdir(parents=True, exist_ok=True)
        (CASES / name / case.name[-12:]).write_bytes(case.read_bytes())
    assert done.returncode == 0 and not found, said[-4000:]
    runs = re.findall(r"#(\d+)\s+DONE\s+cov: (\d+)", said)
    assert runs, said[-2000:]
    return int(runs[-1][0]), int(runs[-1][1])
