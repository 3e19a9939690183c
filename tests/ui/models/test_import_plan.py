"""The size of an import, and who may import."""

import os
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.transformer.site import LARGE, NAME, answer, hub_of
from tests.waiting import wait_until
from transformer.errors import CheckpointError
from transformer.files.hub import HubFile, HubModel, look_up
from transformer.importers.registry import FORMATS
from ui.models import import_plan
from ui.models.import_plan import (
    MEMORY_PER_BYTE,
    begin,
    check_name,
    check_room,
    plan_folder,
    plan_hub,
)

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


def test_only_what_is_read_counts_and_what_is_fetched_once_more(root: Path) -> None:
    plan = plan_folder(MARIAN, "a/theirs", "mine")
    assert (plan.read, plan.disk, plan.memory) == (1_100, 1_100, MEMORY_PER_BYTE * 1_000)
    assert (plan.source, plan.called) == (root / "a" / "theirs", "a/theirs")
    files = tuple(HubFile(name, size, None, None) for name, size in SIZES.items())
    fetched = plan_hub(MARIAN, HubModel("owner/name", "0" * 40, files), "mine")
    total = sum(SIZES.values())
    assert (fetched.read, fetched.disk, fetched.memory) == (total, 2 * total, plan.memory)


@pytest.mark.parametrize(
    "folder", ["/etc", "a", "a/none", "../elsewhere", "link", "linked-weights", "pipe"]
)
def test_folders_outside_the_roots_are_not_read(root: Path, tmp_path: Path, folder: str) -> None:
    make(root / "b")
    (root / "link").symlink_to(tmp_path / "elsewhere")
    make(root / "hidden" / ".theirs")
    weights = make(root / "linked-weights") / "model.safetensors"
    weights.unlink()
    weights.symlink_to(tmp_path / "elsewhere" / "notes.txt")
    assert import_plan.folders_for(MARIAN) == ["a/theirs", "b"]
    make(root / "pipe")
    (root / "pipe" / "vocab.json").unlink()
    os.mkfifo(root / "pipe" / "vocab.json")
    with pytest.raises(CheckpointError) as caught:
        plan_folder(MARIAN, folder, "mine")
    said = str(caught.value)
    assert "a pipe, socket or device" in said if folder == "pipe" else str(tmp_path) not in said


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".x", "-x", "a/b", "a\\b", "a b", "a\n", "x" * 65, "é", "a.", "\0", "a"]
)
def test_names_that_cannot_be_taken(root: Path, name: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        check_name(name)
    assert "\n" not in str(caught.value)
    assert name != "a" or "already exists" in str(caught.value)


def test_a_free_name_is_made_of_a_folders_and_is_taken_in_any_root(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert import_plan.free_name("opus mt/<en>") == "opus-mt-en-imported"
    (root / "x-imported").mkdir()
    assert check_name(import_plan.free_name("x")) == "x-imported-2"
    assert check_name(import_plan.free_name("ä")) == "model-imported"
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", f"{tmp_path / 'new'}{os.pathsep}{root}")
    with pytest.raises(CheckpointError, match="already exists"):
        check_name("a")
    assert check_name("opus-mt_1.2") == "opus-mt_1.2"


def test_stop_ends_an_import_whose_hub_sends_nothing_more(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    before, go_on = sorted(root.rglob("*")), threading.Event()

    def stall(handler: BaseHTTPRequestHandler) -> None:
        answer(handler, b"", length=10**6)
        go_on.wait(100)

    with hub_of({LARGE: b"x" * 10**6}, monkeypatch, tmp_path / "home") as site:
        site.files[site.path_of(LARGE)] = stall
        job = begin(plan_hub(MARIAN, look_up(NAME, MARIAN.files), "mine"))
        assert wait_until(lambda: site.path_of(LARGE) in site.asked)
        job.stop()
        assert job.ended(60) and job.phase == "stopped"
        go_on.set()
    assert sorted(root.rglob("*")) == before


@pytest.mark.parametrize("resource", ["free_disk", "free_memory"])
def test_a_large_one_is_refused(root: Path, resource: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_folder(MARIAN, "a/theirs", "mine")
    check_room(plan)
    assert (import_plan.free_disk() or 0) > 0
    monkeypatch.setattr(import_plan, resource, lambda: 1_000)
    with pytest.raises(CheckpointError, match=r"takes up to .* but only 1\.0 kB are free"):
        check_room(plan)
    monkeypatch.setattr(import_plan, resource, lambda: None)
    check_room(plan)  # unknown is no reason to refuse


def test_a_folder_of_others(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert import_plan.cannot_write() is None
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(tmp_path / "new" / "root"))
    assert import_plan.cannot_write() is None  # it can be made
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", "/proc/1/root-of-models")
    monkeypatch.setattr("os.access", lambda *_: False)
    assert "cannot be written to" in str(import_plan.cannot_write())
