"""Leftovers of killed processes are removed; values read are cached until files change."""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from transformer.catalogue import list_entries
from transformer.checkpoint import folder, snapshots, weights
from transformer.files import leftovers
from transformer.files.folders import FileCache, replaced_folder
from transformer.files.leftovers import FETCHED, STAGE, clear_away, own_prefix, remove_stages


@pytest.fixture(scope="module")
def dead() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def left_by(pid: int, prefix: str) -> str:
    return own_prefix(prefix).replace(f"-{os.getpid()}.", f"-{pid}.")


def test_only_dead_stages_go(tmp_path: Path, dead: int, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_server_puts_its_folders_in_order(tmp_path: Path, dead: int) -> None:
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


N_MANY = 40


def test_a_second_listing_of_many_reads_nothing(
    tiny_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No config, tokenizer or weights."""
    many = tmp_path
    for index in range(N_MANY):
        shutil.copytree(tiny_checkpoint, many / f"c{index:03}")
    reads: list[str] = []
    for module, name in (
        (folder, "read_small"), (snapshots, "check_weights"), (weights, "describe_weights"),
    ):  # fmt: skip
        real = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *given, real=real: (reads.append(str(given[0])), real(*given))[1]
        )
    list_entries([many])
    assert len(reads) >= 3 * N_MANY
    reads.clear()
    found = list_entries([many])
    assert len(found) == N_MANY and all(each.ok for each in found)
    assert list_entries([many]) and not reads
    # Only the one that changed is read again.
    (many / "c023" / "config.json").write_text("{")
    (broken,) = [each for each in list_entries([many]) if not each.ok]
    assert broken.name == "c023"
    assert reads and all("c023" in each for each in reads)


def test_one_result_is_kept_for_each_path() -> None:
    cache: FileCache[int] = FileCache(max_paths=2)
    made: list[str] = []

    def look(name: str, mark: int) -> int:
        return cache.get(Path(name), mark, lambda: made.append(name) or len(made))  # type: ignore[func-returns-value]

    assert [look("a", 1), look("a", 1), look("b", 1), look("a", 2), look("a", 1)] == [1, 1, 2, 3, 4]
    look("a", 1), look("c", 1), look("a", 1)
    assert made == ["a", "b", "a", "a", "c"]
    look("b", 1)  # the least recently used one is evicted
    assert made[-1] == "b"


def test_a_file_cache_may_be_shared_by_threads() -> None:
    cache: FileCache[int] = FileCache(max_paths=5)

    def work(offset: int) -> bool:
        numbers = [(index * 7 + offset) % 11 for index in range(500)]
        return numbers == [cache.get(Path(str(n)), n, lambda n=n: n) for n in numbers]  # type: ignore[misc]

    with ThreadPoolExecutor(6) as threads:
        assert all(threads.map(work, range(6)))
