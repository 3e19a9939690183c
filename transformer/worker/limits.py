"""Processors and memory available to this process: the machine's, or less by control groups.

Containers and systemd services are control groups. Their files are in one tree (version 2) or in
one tree per resource (version 1); the limits of all groups around this process count.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_ROOT = Path("/")

#: Environment variable for the number of tracing processes; 0 for none.
SETTING = "HEADLIGHT_WORKERS"

#: Maximum tracing processes without the setting.
_MOST = 4

#: Bytes of a server with visitors and results, and of a tracing process, both without models
#: (docs/capacity.md), and the fewest bytes for such a process's models.
_SERVER, _WORKER, _LEAST = 2**30, 320 * 2**20, 2**28


class Shares(NamedTuple):
    """Memory shares; server and processes together stay within the limit."""

    workers: int  # number of tracing processes
    server: int  # most bytes for the server's models
    worker: int  # most bytes for each process's models


def shares() -> Shares:
    """Return the shares for the server, which keeps one processor, and for the processes.

    Raises: `ValueError`, one line, if `SETTING` is not a number.
    """
    whole = min((limit for limit, _ in _memory()), default=2**50)
    setting = os.environ.get(SETTING, "").strip()
    if setting and not setting.isdecimal():
        raise ValueError(f"{SETTING}={setting[:20]}: must be a whole number, 0 for none")
    # The server keeps as many models as all processes.
    fitting = max(0, whole - _SERVER) // (_WORKER + 2 * _LEAST)
    workers = int(setting or min(_MOST, max(1, processors() - 1), fitting))
    left = max(0, whole - _SERVER - workers * _WORKER)
    server, worker = (left // 2, left // 2 // workers) if workers else (left, 0)
    return Shares(workers, min(2**31, max(_LEAST, server)), min(2**30, max(_LEAST, worker)))


def processors() -> int:
    """Return the number of processors for this process, at least 1."""
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity else os.cpu_count() or 1
    for group in _groups("cpu"):
        limits = _read(group, "cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us").split()
        if len(limits) == 2 and all(map(str.isdecimal, limits)):  # "max" or -1 means no limit
            count = min(count, int(limits[0]) // max(1, int(limits[1])))
    return max(1, count)


def free_memory() -> int | None:
    """Return the bytes of memory available to this process, or None if unknown."""
    left = min((left for _, left in _memory()), default=None)
    return None if left is None else max(0, left)


def _memory() -> Iterator[tuple[int, int]]:
    """Yield (limit, free bytes) for the machine and each group."""
    machine = _numbers(_ROOT / "proc/meminfo")
    if "MemAvailable:" in machine:
        yield 1024 * machine["MemTotal:"], 1024 * machine["MemAvailable:"]
    for group in _groups("memory"):
        limit = _read(group, "memory.max", "memory.limit_in_bytes").strip()
        held = _read(group, "memory.current", "memory.usage_in_bytes").strip()
        if limit.isdecimal() and held.isdecimal():
            stat = _numbers(group / "memory.stat")
            # Cached file pages count as free. Version 1 has sums over inner groups, too.
            pages = (f"{state}_file" for state in ("inactive", "active"))
            free = sum(stat.get(f"total_{name}", stat.get(name, 0)) for name in pages)
            yield int(limit), int(limit) - int(held) + free


def _groups(resource: str) -> Iterator[Path]:
    """Yield the folders of control groups around this process that may limit a resource."""
    for line in _read(_ROOT, "proc/self/cgroup").splitlines():
        _, resources, path = line.split(":", 2)
        if not resources or resource in resources.split(","):
            top = _ROOT / "sys/fs/cgroup" / (resource if resources else "")
            inner = top / path.lstrip("/")  # may be missing inside a container
            yield from (place for place in (inner, *inner.parents) if place.is_relative_to(top))


def _read(folder: Path, name: str, *others: str) -> str:
    """Return a file's text, or else the texts of the other files; "" if they are missing."""
    for names in ((name,), others):
        try:
            return "".join((folder / part).read_text("ascii") for part in names)
        except (OSError, ValueError):
            continue
    return ""


def _numbers(path: Path) -> dict[str, int]:
    lines = (line.split() for line in _read(path.parent, path.name).splitlines())
    return {line[0]: int(line[1]) for line in lines if len(line) > 1 and line[1].isdecimal()}
