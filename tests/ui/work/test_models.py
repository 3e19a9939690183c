import shutil
from pathlib import Path

import pytest

from tests.factories import make_trace
from tests.random_stacks import random_stack
from tests.waiting import wait_until
from transformer.config import ModelConfig
from transformer.models.arrays.trace_file import save_arrays
from transformer.models.catalogue import inspect_entry
from transformer.models.one_stack.model import save_stack
from transformer.text.tokenizer import Tokenizer
from transformer.types import CheckpointError
from transformer.worker.job import Job, StoppedError
from transformer.worker.tracing import COPIES
from ui.work import desk, results
from ui.work.lru import ENTRY_BYTES, Lru
from ui.work.visit import Budget, OverBudgetError


@pytest.fixture
def folders(tmp_path: Path, tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(tmp_path))
    found = [shutil.copytree(tiny_checkpoint, tmp_path / name) for name in ("a", "b", "c")]
    config = inspect_entry(found[0]).config
    assert config is not None
    each = 4 * COPIES * config.n_numbers + ENTRY_BYTES
    keys = 2_000  # paths and marks
    monkeypatch.setattr(results, "MODELS", Lru(2 * each + keys, results.model_bytes, alone=True))
    return found


def test_the_least_recently_used_model_goes_first(folders: list[Path]) -> None:
    a, b, c = (inspect_entry(folder) for folder in folders)
    first, second = results.load(a, "cpu"), results.load(b, "cpu")
    assert results.load(a, "cpu") is first
    results.load(c, "cpu")
    assert results.load(a, "cpu") is first
    assert results.load(b, "cpu") is not second


def test_loading_waits_its_turn_on_the_budget_of_a_visit(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, visit, job = inspect_entry(folders[0]), Budget(60), Job[object]()
    monkeypatch.setattr(desk, "budget_of_visit", lambda: visit)

    def load_another() -> None:
        job.start(lambda _: results.load(entry, "cpu"))
        assert wait_until(lambda: job.progress == (0, 0))
        job.stop()
        assert isinstance(job.future.exception(60), StoppedError)

    results.MODELS.once("one", load_another)
    results.MODELS.forget()
    visit.charge(100)
    with pytest.raises(OverBudgetError):
        desk.load_for_visit(entry, "cpu")
    assert not len(results.MODELS)
    visit = Budget(60)
    loaded = desk.load_for_visit(entry, "cpu")
    assert visit._use.take(60) > 0
    visit.charge(100)
    assert desk.load_for_visit(entry, "cpu") is loaded  # in memory, it takes no time


def test_no_more_models_make_room_than_needed(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, c = (inspect_entry(folder) for folder in folders)
    assert a.config is not None
    needed = results._LEFT_FREE + 4 * COPIES * a.config.n_numbers
    first, second = results.load(a, "cpu"), results.load(b, "cpu")
    free = iter([needed - 20, needed])  # before and after one went
    monkeypatch.setattr(results, "free_memory", lambda: next(free))
    results.load(c, "cpu")
    monkeypatch.setattr(results, "free_memory", lambda: None)  # unknown is no reason to refuse
    assert results.load(b, "cpu") is second
    assert results.load(a, "cpu") is not first


def test_what_memory_has_no_room_for_is_refused_before_others_go(
    folders: list[Path], tmp_path: Path, tiny_config: ModelConfig, tiny_tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    first, second = (results.load(inspect_entry(folder), "cpu") for folder in folders[:2])
    stack = save_stack(tmp_path / "d", *random_stack("continue", tiny_config, tiny_tokenizer))
    arrays = save_arrays(make_trace(), tmp_path / "e.npz")
    most = results._LEFT_FREE + 20
    monkeypatch.setattr(results, "free_memory", lambda: most - results.MODELS.nbytes // COPIES)
    for each in (folders[2], stack, arrays):
        refused = inspect_entry(each)
        with pytest.raises(CheckpointError, match=r"needs \d.* of memory; 20 bytes available"):
            results.load(refused, "cpu")
    assert results.load(inspect_entry(folders[0]), "cpu") is first
    assert results.load(inspect_entry(folders[1]), "cpu") is second
    monkeypatch.setattr(results, "free_memory", lambda: 10**10)
    assert results.load(refused, "cpu").name == "e.npz"
