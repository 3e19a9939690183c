"""A container's limits of memory, processors and processes, by Linux's control groups.

Both versions of them: one tree with a folder for each kind of resource, or one folder for all.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

#: Where systems mount control groups.
GROUPS = Path("/sys/fs/cgroup")

#: Microseconds in which a group may use its share of the processors, as container engines have it.
_PERIOD = 100_000

_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30}


@dataclass(frozen=True)
class Group:
    """What processes of a group may use at most, and what they have used.

    Attributes:
        folders: a process belongs to the group once its number is in each one's `cgroup.procs`.
    """

    folders: tuple[Path, ...]

    def most_memory(self) -> int:
        """Most bytes held at once, files in memory included; 0 if this kernel does not say."""
        return self._number("memory.max_usage_in_bytes", "memory.peak")

    def most_processes(self) -> int:
        """Most processes and threads at once, or those of now; 0 if this kernel does not say."""
        return self._number("pids.peak") or self._number("pids.current")

    def killed(self) -> int:
        """Processes that were killed because there was no memory left."""
        found = re.search(r"oom_kill (\d+)", self._text("memory.oom_control", "memory.events"))
        return int(found[1]) if found else 0

    def _number(self, *names: str) -> int:
        return int(self._text(*names) or 0)

    def _text(self, *names: str) -> str:
        for folder in self.folders:
            for name in names:
                with suppress(OSError):
                    return (folder / name).read_text()
        return ""


def size(text: str) -> int:
    """Return the bytes that a size as in a compose file stands for: `3g`."""
    found = re.fullmatch(r"(\d+)([bkmg]?)b?", text.lower())
    assert found, text
    return int(found[1]) * _UNITS[found[2]]


@contextmanager
def group(*, memory: int, processors: float, processes: int) -> Iterator[Group | None]:
    """A group with these limits, gone at the end; None where this machine lets nobody make one.

    Args:
        memory: bytes.
        processors: how many may be busy, 1.5 for one and a half.
        processes: threads count.
    """
    name = f"headlight-{secrets.token_hex(4)}"
    quota = round(processors * _PERIOD)
    if (GROUPS / "cgroup.controllers").exists():
        wanted = {
            GROUPS / name: {
                "memory.max": memory, "cpu.max": f"{quota} {_PERIOD}", "pids.max": processes,
            },
        }  # fmt: skip
    else:
        wanted = {
            GROUPS / "memory" / name: {"memory.limit_in_bytes": memory},
            GROUPS / "cpu" / name: {"cpu.cfs_period_us": _PERIOD, "cpu.cfs_quota_us": quota},
            GROUPS / "pids" / name: {"pids.max": processes},
        }
    try:
        made = _make(wanted)
        yield Group(tuple(wanted)) if made else None
    finally:
        for folder in wanted:
            with suppress(OSError):
                folder.rmdir()


def _make(wanted: dict[Path, dict[str, object]]) -> bool:
    try:
        with suppress(OSError):  # of the second version only; it may have them already
            (GROUPS / "cgroup.subtree_control").write_text("+memory +cpu +pids")
        for folder, values in wanted.items():
            folder.mkdir()
            for file, value in values.items():
                (folder / file).write_text(str(value))
    except OSError:
        return False
    return True
