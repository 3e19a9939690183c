"""Free memory, as the system reports it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ui.work import memory


def test_free_memory_of_the_machine_and_of_a_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_MEMORY", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_GROUP", tmp_path)

    def free(**files: str) -> int | None:
        for name, text in files.items():
            (tmp_path / name.replace("_", ".")).write_text(f"{text}\n")
        return memory.free_memory()

    assert free() is None  # a system that says nothing
    assert free(memory_max="5000000") is None
    machine = "MemTotal:  16384 kB\nMemAvailable:  8000 kB\nHugePages: 0"
    assert free(meminfo=machine, memory_max="max") == 8000 * 1024
    assert free(memory_max="5000000", memory_current="4000000") == 1_000_000
    pages = "anon 100\nactive_file 200000\ninactive_file 300000"  # of files: they can go
    assert free(memory_stat=pages) == 1_500_000
    assert free(memory_current="9000000") == 0
