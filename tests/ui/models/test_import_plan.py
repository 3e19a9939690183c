"""The size of an import, and who may import."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from transformer.errors import CheckpointError
from transformer.files.hub import HubFile, HubModel
from transformer.importers.registry import FORMATS
from ui.models import import_plan
from ui.models.import_plan import MEMORY_PER_BYTE, check_name, check_room, plan_folder

MARIAN = FORMATS["marian"]
SIZES = {"config.json": 10, "vocab.json": 20, "source.spm": 30, "target.spm": 40,
         "model.safetensors": 1_000, "notes.txt": 5_000}  # fmt: skip


def make(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name, size in SIZES.items():
        (folder / name).write_bytes(b"x" * size)
    return folder


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "root"
    make(root / "a" / "theirs")
    make(tmp_path / "elsewhere")
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(root))
    return root


def test_only_what_is_read_counts(root: Path) -> None:
    plan = plan_folder(MARIAN, "a/theirs", "mine")
    assert (plan.read, plan.disk, plan.memory) == (1_100, 1_100, MEMORY_PER_BYTE * 1_000)
    assert plan.source == root / "a" / "theirs"
    assert plan.called == "a/theirs"


def test_what_is_fetched_takes_its_size_once_more(root: Path) -> None:
    files = tuple(HubFile(name, size, None, None) for name, size in SIZES.items())
    plan = import_plan.plan_hub(MARIAN, HubModel("owner/name", "0" * 40, files), "mine")
    assert plan.read == sum(SIZES.values())
    assert plan.disk == 2 * plan.read
    assert plan.memory == MEMORY_PER_BYTE * 1_000


def test_folders_of_a_format_are_found_in_the_roots_alone(root: Path, tmp_path: Path) -> None:
    make(root / "b")
    (root / "link").symlink_to(tmp_path / "elsewhere")
    (root / "hidden").mkdir()
    make(root / "hidden" / ".theirs")
    make(root / "linked-weights")
    (root / "linked-weights" / "model.safetensors").unlink()
    (root / "linked-weights" / "model.safetensors").symlink_to(tmp_path / "elsewhere" / "notes.txt")
    assert import_plan.folders_for(MARIAN) == ["a/theirs", "b"]


@pytest.mark.parametrize(
    "folder", ["/etc", "a", "a/none", "../elsewhere", "link", "linked-weights"]
)
def test_other_folders_are_refused(root: Path, tmp_path: Path, folder: str) -> None:
    (root / "link").symlink_to(tmp_path / "elsewhere")
    make(root / "linked-weights")
    (root / "linked-weights" / "x").symlink_to(tmp_path / "elsewhere" / "notes.txt")
    with pytest.raises(CheckpointError) as caught:
        plan_folder(MARIAN, folder, "mine")
    assert str(tmp_path) not in str(caught.value)


def test_a_pipe_among_the_files_is_refused(root: Path) -> None:
    (root / "a" / "theirs" / "vocab.json").unlink()
    os.mkfifo(root / "a" / "theirs" / "vocab.json")
    with pytest.raises(CheckpointError, match="a pipe, socket or device"):
        plan_folder(MARIAN, "a/theirs", "mine")


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".x", "-x", "a/b", "a\\b", "a b", "a\n", "x" * 65, "é", "a.", "\0", "a"]
)
def test_names_that_cannot_be_taken(root: Path, name: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        check_name(name)
    assert "\n" not in str(caught.value)
    assert name != "a" or "already exists" in str(caught.value)


def test_a_name_in_any_root_is_taken(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", f"{tmp_path / 'new'}{os.pathsep}{root}")
    with pytest.raises(CheckpointError, match="already exists"):
        check_name("a")
    assert check_name("opus-mt_1.2") == "opus-mt_1.2"


def test_a_free_name_is_made_of_a_folders(root: Path) -> None:
    assert import_plan.free_name("opus mt/<en>") == "opus-mt-en-imported"
    (root / "x-imported").mkdir()
    assert check_name(import_plan.free_name("x")) == "x-imported-2"
    assert check_name(import_plan.free_name("ä")) == "model-imported"


@pytest.mark.parametrize("resource", ["free_disk", "free_memory"])
def test_what_does_not_fit_is_refused(
    root: Path, resource: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_folder(MARIAN, "a/theirs", "mine")
    check_room(plan)
    monkeypatch.setattr(import_plan, resource, lambda: 1_000)
    with pytest.raises(CheckpointError, match=r"takes up to .* but only 1\.0 kB are free"):
        check_room(plan)
    monkeypatch.setattr(import_plan, resource, lambda: None)
    check_room(plan)  # unknown is no reason to refuse


def test_this_disk_has_room() -> None:
    assert (import_plan.free_disk() or 0) > 0


def test_a_folder_that_cannot_be_written_to(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert import_plan.cannot_write() is None
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(tmp_path / "new" / "root"))
    assert import_plan.cannot_write() is None  # it can be made
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", "/proc/1/root-of-models")
    monkeypatch.setattr("os.access", lambda *_: False)
    assert "cannot be written to" in str(import_plan.cannot_write())
