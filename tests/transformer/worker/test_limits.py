"""Limits of the machine and of control groups, in files as the kernel writes them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.random_stacks import random_stack
from transformer.config import ModelConfig
from transformer.one_stack.tracer import StackModel
from transformer.text.tokenizer import Tokenizer
from transformer.worker import limits
from transformer.worker.tracing import model_bytes

GIB, MIB = 2**30, 2**20

#: Files of a root, each by its path and content.
Write = Callable[[dict[str, str]], None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes files of a root that replaces the machine's, which has eight processors."""
    monkeypatch.setattr(limits, "_ROOT", tmp_path)
    monkeypatch.setattr(limits.os, "sched_getaffinity", lambda _: set(range(8)))

    def write(files: dict[str, str]) -> None:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(f"{text}\n")

    return write


TWO = "sys/fs/cgroup"  # version 2
CPU, MEMORY = "sys/fs/cgroup/cpu", "sys/fs/cgroup/memory"  # version 1


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, 8),
        ({"proc/self/cgroup": "0::/", f"{TWO}/cpu.max": "max 100000"}, 8),
        ({"proc/self/cgroup": "0::/", f"{TWO}/cpu.max": "250000 100000"}, 2),
        ({"proc/self/cgroup": "0::/", f"{TWO}/cpu.max": "50000 100000"}, 1),
        # A service of systemd, and the slice around it.
        ({"proc/self/cgroup": "0::/a.slice/b", f"{TWO}/a.slice/cpu.max": "300000 100000",
          f"{TWO}/a.slice/b/cpu.max": "max 100000"}, 3),
        # Version 1: on the host, and in a container, where the path leads nowhere.
        ({"proc/self/cgroup": "3:cpuset:/a\n2:cpu,cpuacct:/a", f"{CPU}/cpu.cfs_quota_us": "-1",
          f"{CPU}/cpu.cfs_period_us": "100000", f"{CPU}/a/cpu.cfs_quota_us": "400000",
          f"{CPU}/a/cpu.cfs_period_us": "100000"}, 4),
        ({"proc/self/cgroup": "2:cpu,cpuacct:/docker/x\n0::/docker/x",
          f"{CPU}/cpu.cfs_quota_us": "200000", f"{CPU}/cpu.cfs_period_us": "100000"}, 2),
    ],
)  # fmt: skip
def test_processors(files: dict[str, str], found: int, write: Write) -> None:
    write(files)
    assert limits.processors() == found


def test_memory_of_machine_and_groups(write: Write) -> None:
    def found(files: dict[str, str]) -> tuple[int | None, int | None]:
        write(files)
        return limits.memory(), limits.free_memory()

    assert found({}) == (None, None)  # a system that says nothing
    machine = "MemTotal:  16384 kB\nMemAvailable:  8000 kB\nHugePages: 0"
    whole, free = 16384 * 1024, 8000 * 1024
    assert found({"proc/meminfo": machine}) == (whole, free)
    groups = {"proc/self/cgroup": "4:memory:/a\n0::/b", f"{TWO}/b/memory.max": "max"}
    assert found(groups) == (whole, free)
    two = {f"{TWO}/b/memory.max": "5000000", f"{TWO}/b/memory.current": "4000000"}
    assert found(two) == (5_000_000, 1_000_000)
    pages = "anon 100\nactive_file 200000\ninactive_file 300000"  # of files: they can go
    assert found({f"{TWO}/b/memory.stat": pages}) == (5_000_000, 1_500_000)
    one = {
        f"{MEMORY}/memory.limit_in_bytes": "4000000",
        f"{MEMORY}/memory.usage_in_bytes": "3500000",
    }
    assert found(one) == (4_000_000, 500_000)
    inner = "inactive_file 7\ntotal_inactive_file 100000\ntotal_active_file 0"
    assert found({f"{MEMORY}/memory.stat": inner}) == (4_000_000, 600_000)
    assert found({f"{MEMORY}/memory.usage_in_bytes": "9000000"}) == (4_000_000, 0)


@pytest.mark.parametrize("memory", [GIB, 2 * GIB, 3 * GIB, 4 * GIB, 6 * GIB, 64 * GIB])
@pytest.mark.parametrize("processors", [1, 2, 4, 64])
def test_server_and_processes_stay_within_the_memory(
    memory: int, processors: int, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(limits.SETTING, raising=False)
    monkeypatch.setattr(limits.os, "sched_getaffinity", lambda _: set(range(processors)))
    write({"proc/meminfo": f"MemTotal: {64 * MIB} kB\nMemAvailable: {memory // 1024} kB"})
    write({"proc/self/cgroup": "0::/", f"{TWO}/memory.max": str(memory)})
    write({f"{TWO}/memory.current": "0"})
    workers, (server, each) = limits.most_workers(), limits.model_memory()
    assert workers <= max(1, min(4, processors - 1))
    assert workers >= 1 or memory < 2 * GIB
    assert GIB + server + workers * (320 * MIB + each) <= max(memory, GIB + 256 * MIB)
    assert memory < 64 * GIB or server == 2 * GIB


def test_models_of_one_stack_count(tiny_config: ModelConfig, tiny_tokenizer: Tokenizer) -> None:
    model = StackModel(*random_stack("continue", tiny_config, tiny_tokenizer), device="cpu")
    assert model_bytes(model) == 4 * model.config.n_parameters > 0


@pytest.mark.parametrize(("setting", "most"), [("", 4), ("0", 0), ("7", 7), ("many", None)])
def test_a_setting_decides(
    setting: str, most: int | None, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(limits.SETTING, setting)
    if most is not None:
        assert limits.most_workers() == most
        return
    with pytest.raises(ValueError, match=r"^HEADLIGHT_WORKERS=many: must be a whole number"):
        limits.most_workers()
