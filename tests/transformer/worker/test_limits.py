from collections.abc import Callable
from pathlib import Path

import pytest

from tests.random_stacks import random_stack
from transformer.config import ModelConfig
from transformer.models.one_stack.tracer import StackModel
from transformer.text.tokenizer import Tokenizer
from transformer.worker import limits
from transformer.worker.tracing import model_bytes

GIB, MIB = 2**30, 2**20

#: Files of a root, each by its path and content.
Write = Callable[[dict[str, str]], None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write files under a root that replaces a machine's root, with eight processors."""
    monkeypatch.setattr(limits, "_ROOT", tmp_path)
    monkeypatch.setattr(limits.os, "sched_getaffinity", lambda _: set(range(8)))

    def write(files: dict[str, str]) -> None:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(f"{text}\n")

    return write


TWO = "sys/fs/cgroup"  # version 2
CPU, MEMORY = "sys/fs/cgroup/cpu", "sys/fs/cgroup/memory"  # version 1


@pytest.mark.parametrize(("files", "found"), [
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
])  # fmt: skip
def test_processors(files: dict[str, str], found: int, write: Write) -> None:
    write(files)
    assert limits.processors() == found


def test_memory_of_machine_and_groups(write: Write) -> None:
    def free(files: dict[str, str]) -> int | None:
        write(files)
        return limits.free_memory()

    assert free({}) is None  # a system that says nothing
    machine = "MemTotal:  16384 kB\nMemAvailable:  8000 kB\nHugePages: 0"
    assert free({"proc/meminfo": machine}) == 8000 * 1024
    groups = {"proc/self/cgroup": "4:memory:/a\n0::/b", f"{TWO}/b/memory.max": "max"}
    assert free(groups) == 8000 * 1024
    two = {f"{TWO}/b/memory.max": "5000000", f"{TWO}/b/memory.current": "4000000"}
    assert free(two) == 1_000_000
    pages = "anon 100\nactive_file 200000\ninactive_file 300000"  # of files: they can go
    assert free({f"{TWO}/b/memory.stat": pages}) == 1_500_000
    write({f"{MEMORY}/memory.limit_in_bytes": "4000000"})
    assert free({f"{MEMORY}/memory.usage_in_bytes": "3500000"}) == 500_000
    inner = "inactive_file 7\ntotal_inactive_file 100000\ntotal_active_file 0"
    assert free({f"{MEMORY}/memory.stat": inner}) == 600_000
    assert free({f"{MEMORY}/memory.usage_in_bytes": "9000000"}) == 0


@pytest.mark.parametrize("memory", [GIB, 2 * GIB, 3 * GIB, 6 * GIB, 64 * GIB])
@pytest.mark.parametrize("processors", [1, 2, 64])
def test_server_and_processes_stay_within_the_memory(
    memory: int, processors: int, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(limits.SETTING, raising=False)
    monkeypatch.setattr(limits.os, "sched_getaffinity", lambda _: set(range(processors)))
    write({"proc/self/cgroup": "0::/", f"{TWO}/memory.max": str(memory)})
    write({f"{TWO}/memory.current": "0"})
    workers, server, each = limits.shares()
    assert (memory >= 2 * GIB) <= workers <= max(1, min(4, processors - 1))
    assert GIB + server + workers * (320 * MIB + each) <= max(memory, GIB + 256 * MIB)
    assert memory < 64 * GIB or server == 2 * GIB


def test_models_of_one_stack_count(tiny_config: ModelConfig, tiny_tokenizer: Tokenizer) -> None:
    model = StackModel(*random_stack("continue", tiny_config, tiny_tokenizer), device="cpu")
    assert model_bytes(model) == 4 * model.config.n_parameters > 0


def test_a_setting_decides(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    for setting, workers in (("", 4), ("0", 0), ("7", 7)):
        monkeypatch.setenv(limits.SETTING, setting)
        assert limits.shares().workers == workers
    monkeypatch.setenv(limits.SETTING, "many")
    with pytest.raises(ValueError, match=r"^HEADLIGHT_WORKERS=many: must be a whole number"):
        limits.shares()
