"""Leftovers of killed processes are told from files being written, and removed."""

import os
import subprocess
from pathlib import Path

import pytest

from transformer.files import leftovers
from transformer.files.folders import replaced_folder
from transformer.files.leftovers import FETCHED, STAGE, clear_away, own_prefix, remove_stages


@pytest.fixture(scope="module")
def dead() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def left_by(pid: int, prefix: str) -> str:
    return own_prefix(prefix).replace(f"-{os.getpid()}.", f"-{pid}.")


def test_only_stages_of_dead_processes_go(
    tmp_path: Path, dead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = f"{STAGE}elsewhere-{dead}.ab"
    names = [f"{left_by(pid, STAGE)}ab" for pid in (dead, os.getppid(), os.getpid())]
    for name in (*names, theirs):
        (tmp_path / name / "model").mkdir(parents=True)
    os.utime(tmp_path / theirs, (0, 0))  # which another machine may be writing all the same
    monkeypatch.setattr(leftovers.time, "time", lambda: 3600.0)
    assert remove_stages(tmp_path, STAGE) == [names[0]]
    assert remove_stages(tmp_path, STAGE, own=True) == [names[2]]
    monkeypatch.setattr(leftovers.time, "time", lambda: 8 * 24 * 3600.0)
    assert remove_stages(tmp_path, STAGE) == [theirs]
    assert [each.name for each in tmp_path.iterdir()] == [names[1]]


def test_a_server_puts_its_folders_in_order_and_says_what_it_found(
    tmp_path: Path, dead: int
) -> None:
    root = tmp_path / "checkpoints"
    for name in (
        f"{left_by(dead, '.moved.')}ab.old", f"{left_by(dead, '.begun.')}cd.new", "begun",
        f"{left_by(os.getppid(), '.busy.')}ef.new", f"{left_by(dead, STAGE)}gh",
        f"{left_by(dead, STAGE)}ij", f"{left_by(dead, FETCHED)}kl",
    ):  # fmt: skip
        (root / name).mkdir(parents=True)
    assert clear_away([root, tmp_path / "none"]) == [
        "checkpoints/begun: removed temporary files of a killed process",
        "checkpoints/moved: restored, its replacement was interrupted",
        "checkpoints/: removed temporary files of an import that was killed (2 times)",
        "checkpoints/: removed temporary files of a download that was killed",
    ]
    assert [each.name for each in root.iterdir() if each.name.startswith(".")] == [
        f"{left_by(os.getppid(), '.busy.')}ef.new"
    ]
    assert (root / "moved").is_dir() and clear_away([root]) == []


def test_a_replacement_takes_away_what_dead_processes_left(tmp_path: Path, dead: int) -> None:
    """Beside the folder, and within one that is a mount point."""
    left = f"{left_by(dead, '.it.')}ab.new"
    names = [
        f"{left_by(os.getpid(), '.it.')}ab.new", f".it.elsewhere-{dead}.ab.new", ".it.notes.new"
    ]  # fmt: skip
    for name in (left, f"it/{left}", *names):
        (tmp_path / name).mkdir(parents=True)
    with replaced_folder(tmp_path / "it") as new:
        (new / "x").write_text("")
    assert {each.name for each in tmp_path.iterdir()} == {"it", *names}
    assert [each.name for each in (tmp_path / "it").iterdir()] == ["x"]
