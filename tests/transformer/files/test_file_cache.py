"""Values read from files are cached until the files change, for many folders."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from transformer.catalogue import list_entries
from transformer.checkpoint import folder, snapshots, weights
from transformer.files.folders import FileCache

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
