"""Processors and memory that this process may use: the machine's, or less by control groups.

Containers and services of systemd are control groups. Their files are in one tree (version 2) or in
one for each resource (version 1); the limits of all groups around this process count.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")

#: Environment variable with the number of processes that trace sentences; 0 for none.
SETTING = "HEADLIGHT_WORKERS"

#: Largest number of processes without the setting.
_MOST = 4

#: Bytes of a server with its visitors and results, and of a process that traces, both without
#: models (docs/capacity.md).
_SERVER, _WORKER = 2**30, 320 * 2**20

#: Least and most bytes for the models of a process that traces, and most for those of the server.
_LEAST, _OF_WORKER, _OF_SERVER = 2**28, 2**30, 2**31


def processors() -> int:
    """Return the number of processors for this process, at least 1."""
    affinity = getattr(os, "sched_getaffinity", None)
    found = len(affinity(0)) if affinity else os.cpu_count() or 1
    for group in _groups("cpu"):
        each = _read(group, "cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us").split()
        if len(each) == 2 and all(map(str.isdecimal, each)):  # "max" or -1 without a limit
            found = min(found, int(each[0]) // max(1, int(each[1])))
    return max(1, found)


def memory() -> int | None:
    """Return the bytes of memory that this process and others of its groups may use, or None."""
    return min((limit for limit, _ in _memory()), default=None)


def free_memory() -> int | None:
    """Return the bytes of memory available to this process, or None if unknown."""
    return max(0, min(left for _, left in found)) if (found := [*_memory()]) else None


def most_workers() -> int:
    """Return the number of processes that trace sentences.

    By default one processor is left to the server, memory holds all of them, and at most four are
    used.

    Raises: `ValueError`, one line, for a setting that is no number.
    """
    if setting := os.environ.get(SETTING, "").strip():
        if not setting.isdecimal():
            raise ValueError(f"{SETTING}={setting[:20]}: must be a whole number, 0 for none")
        return int(setting)
    most = max(1, min(_MOST, processors() - 1))
    # The server keeps as many models as all of them.
    return most if (whole := memory()) is None else min(
        most, max(0, whole - _SERVER) // (_WORKER + 2 * _LEAST)
    )  # fmt: skip


def model_memory() -> tuple[int, int]:
    """Return the most bytes for models, of the server and of each process that traces.

    Server and processes together stay within the memory.
    """
    if (whole := memory()) is None:
        return _OF_SERVER, _OF_WORKER
    workers = most_workers()
    half = (whole - _SERVER - workers * _WORKER) // 2
    return (
        max(_LEAST, min(_OF_SERVER, half if workers else 2 * half)),
        max(_LEAST, min(_OF_WORKER, half // max(1, workers))),
    )


def _memory() -> Iterator[tuple[int, int]]:
    """Yield limits and what is left of them, in bytes: the machine's and each group's."""
    machine = _numbers(_ROOT / "proc/meminfo")
    if {"MemTotal:", "MemAvailable:"} <= machine.keys():
        yield 1024 * machine["MemTotal:"], 1024 * machine["MemAvailable:"]
    for group in _groups("memory"):
        limit = _read(group, "memory.max", "memory.limit_in_bytes").strip()
        held = _read(group, "memory.current", "memory.usage_in_bytes").strip()
        if limit.isdecimal() and held.isdecimal():
            held_by = _numbers(group / "memory.stat")
            # Cached pages of files count as free. Version 1 has the sums of inner groups, too.
            pages = sum(
                held_by.get(f"total_{name}", held_by.get(name, 0))
                for name in ("inactive_file", "active_file")
            )
            yield int(limit), int(limit) - int(held) + pages


def _groups(resource: str) -> Iterator[Path]:
    """Yield the folders of the control groups around this process that may limit a resource."""
    for line in _read(_ROOT, "proc/self/cgroup").splitlines():
        _, resources, path = line.split(":", 2)
        if not resources or resource in resources.split(","):
            top = _ROOT / "sys/fs/cgroup" / (resource if resources else "")
            inner = top / path.lstrip("/")  # from within a container, it may not be there
            yield from (each for each in (inner, *inner.parents) if each.is_relative_to(top))


def _read(folder: Path, name: str, *others: str) -> str:
    """Return the text of a file, or of others that take its place; "" without any."""
    for names in ((name,), others):
        try:
            return "".join((folder / each).read_text("ascii") for each in names)
        except (OSError, ValueError):
            continue
    return ""


def _numbers(path: Path) -> dict[str, int]:
    """Read lines of a name and a number."""
    lines = (line.split() for line in _read(path.parent, path.name).splitlines())
    return {each[0]: int(each[1]) for each in lines if len(each) > 1 and each[1].isdecimal()}
