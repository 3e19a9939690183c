"""Inputs of every kind, broken at random: refused in one line, or read.

A case that finds a fault is written to tests/fuzzing/cases, where `make test` tries it for ever.
"""

import hashlib
import itertools
import time

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st

from tests.fuzzing.targets import MUTATIONS, NAMES, Bench, Mutation, check, mutated
from tests.soaking import FUZZ_SECONDS, LONG, SEED, note
from tests.test_fuzzing import CASES

pytestmark = [
    pytest.mark.timeout(7200),
    pytest.mark.filterwarnings("ignore"),  # those of libraries about broken files
]

#: Cases of each kind, in a long soak and in a short one.
MANY, FEW = 10_000, 150


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("bench"))


@pytest.mark.parametrize("name", NAMES)
def test_broken_input_is_refused_in_one_line(name: str, bench: Bench) -> None:
    target, begun, tried = bench[name], time.process_time(), 0
    count = MANY if LONG else FEW
    for example in target.examples:
        target.read(example)

    def refuses(example: bytes, changes: list[Mutation]) -> None:
        nonlocal tried
        tried += 1
        data = mutated(example, changes)
        try:
            check(target, data)
        except Exception:
            case = CASES / target.name / hashlib.sha256(data).hexdigest()[:12]
            case.parent.mkdir(parents=True, exist_ok=True)
            case.write_bytes(data)
            raise

    for seed in itertools.count(SEED):
        broken = given(example=st.sampled_from(target.examples), changes=MUTATIONS)(refuses)
        settled = hypothesis.settings(
            max_examples=count, database=None, derandomize=False, deadline=None,
            suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink],
        )(broken)  # fmt: skip
        hypothesis.seed(seed)(settled)()
        if (seconds := time.process_time() - begun) >= FUZZ_SECONDS:
            break
    note(fuzzed=name, cases=tried, seeds=[SEED, seed], seconds=round(seconds, 1))
    assert tried >= count // 2  # the same one twice is tried once
