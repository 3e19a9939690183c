from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzzing.targets import MUTATIONS, Bench, Mutation, Target, check, mutated
from transformer.types import CheckpointError

CASES = Path(__file__).parent / "fuzzing" / "cases"

pytestmark = pytest.mark.filterwarnings("ignore")  # those of libraries about broken files


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("bench"))


@pytest.mark.parametrize("case", sorted(CASES.glob("*/*")), ids=lambda case: case.name)
def test_found_cases_are_refused_or_read(case: Path, bench: Bench) -> None:
    check(bench[case.parent.name], case.read_bytes())


@pytest.mark.parametrize("name", [
    "config.json", "metrics.json", "tokenizer.model", "model.safetensors", "model.pt",
    "marian",
])  # fmt: skip
@given(data=st.data(), changes=MUTATIONS)
@settings(max_examples=20)
def test_broken_files_are_refused_in_one_line_or_whole(
    name: str, bench: Bench, data: st.DataObject, changes: list[Mutation]
) -> None:
    check(bench[name], mutated(data.draw(st.sampled_from(bench[name].examples)), changes))


def test_a_fault_is_told_from_a_refusal() -> None:
    def fails(data: bytes) -> None:
        raise {b"a": CheckpointError("x.json: no"), b"b": KeyError("x")}[data]

    target = Target("it", (b"a",), fails)
    check(target, b"a")
    with pytest.raises(KeyError):
        check(target, b"b")
