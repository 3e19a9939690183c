"""Models in memory: loaded once, bounded in bytes, and refused where memory is too short."""

import shutil
from pathlib import Path

import pytest

from transformer.catalogue import inspect_entry
from transformer.errors import CheckpointError
from transformer.worker.tracing import COPIES
from ui.core.view import View
from ui.work import models
from ui.work.lru import ENTRY_BYTES, Lru


@pytest.fixture
def folders(tmp_path: Path, tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Three checkpoints, and room for the models of two."""
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(tmp_path))
    found = [shutil.copytree(tiny_checkpoint, tmp_path / name) for name in ("a", "b", "c")]
    config = inspect_entry(found[0]).config
    assert config is not None
    each = 4 * COPIES * config.n_numbers + ENTRY_BYTES
    monkeypatch.setattr(models, "MODELS", Lru(2 * each, models.model_bytes))
    return found


def test_the_least_recently_used_model_goes_first(folders: list[Path]) -> None:
    a, b, c = (inspect_entry(folder) for folder in folders)
    views = [View(each, "cpu", "", beam_size=1) for each in (a, b, c)]
    first, second = models.load(a, "cpu"), models.load(b, "cpu")
    assert models.load(a, "cpu") is first
    assert [models.in_memory(view) for view in views] == [True, True, False]
    models.load(c, "cpu")
    assert models.load(a, "cpu") is first
    assert models.load(b, "cpu") is not second


def test_models_make_room_if_needed(folders: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, _ = (inspect_entry(folder) for folder in folders)
    first = models.load(a, "cpu")
    free = iter([0, 10**9])  # before and after the others went
    monkeypatch.setattr(models, "free_memory", lambda: next(free))
    models.load(b, "cpu")
    monkeypatch.setattr(models, "free_memory", lambda: None)  # unknown is no reason to refuse
    assert models.load(a, "cpu") is not first


def test_a_model_that_memory_has_no_room_for_is_refused_with_both_figures(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = inspect_entry(folders[0])
    assert entry.config is not None
    monkeypatch.setattr(models, "free_memory", lambda: 256 * 2**20 + 20)
    with pytest.raises(CheckpointError, match=r"a: needs \d.* of memory, of which 20 bytes are"):
        models.load(entry, "cpu")
    monkeypatch.setattr(models, "free_memory", lambda: 10**9)
    models.load(entry, "cpu")
