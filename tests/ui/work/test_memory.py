"""Free memory, as the system reports it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ui.work import memory


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 8,000,000 bytes free, whose files a test may change."""
    monkeypatch.setattr(memory, "_MEMORY", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_GROUP", tmp_path)
    (tmp_path / "meminfo").write_text("MemTotal:  16384 kB\nMemAvailable:  8000 kB\nHugePages: 0\n")
    return tmp_path


def test_the_machine_alone(system: Path) -> None:
    assert memory.free_memory() == 8000 * 1024
    (system / "memory.max").write_text("max\n")
    assert memory.free_memory() == 8000 * 1024


def test_the_limit_of_a_group_holds_and_its_pages_of_files_are_free(system: Path) -> None:
    (system / "memory.max").write_text("5000000\n")
    (system / "memory.current").write_text("4000000\n")
    assert memory.free_memory() == 1_000_000
    (system / "memory.stat").write_text("anon 100\nactive_file 200000\ninactive_file 300000\n")
    assert memory.free_memory() == 1_500_000
    (system / "memory.current").write_text("9000000\n")
    assert memory.free_memory() == 0


def test_a_system_that_tells_nothing(system: Path) -> None:
    (system / "meminfo").unlink()
    assert memory.free_memory() is None
    (system / "memory.max").write_text("5000000\n")
    assert memory.free_memory() is None  # what it holds is not told
