"""Processors and memory that this process may use: the machine's, or less by control groups.

Containers and services of systemd are control groups. Their files are in one tree (version 2) or in
one for each resource (version 1); the limits of all groups around this process count.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_ROOT = Path("/")

#: Environment variable with the number of processes that trace sentences; 0 for none.
SETTING = "HEADLIGHT_WORKERS"

#: Largest number of processes without the setting.
_MOST = 4

#: Bytes of a server with its visitors and results, and of a process that traces, both without
#: models (docs/capacity.md); least bytes for the models of such a process.
_SERVER, _WORKER, _LEAST = 2**30, 320 * 2**20, 2**28


class Shares(NamedTuple):
    """Shares of the memory; server and processes together stay within it."""

    workers: int  # processes that trace sentences
    server: int  # most bytes for the server's models
    worker: int  # most bytes for the models of each process


def shares() -> Shares:
    """Return the shares of the server, which keeps one processor, and of the processes.

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
    found = len(affinity(0)) if affinity else os.cpu_count() or 1
    for group in _groups("cpu"):
        each = _read(group, "cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us").split()
        if len(each) == 2 and all(map(str.isdecimal, each)):  # "max" or -1 without a limit
            found = min(found, int(each[0]) // max(1, int(each[1])))
    return max(1, found)


def free_memory() -> int | None:
    """Return the bytes of memory available to this process, or None if unknown."""
    left = min((left for _, left in _memory()), default=None)
    return None if left is None else max(0, left)


def _memory() -> Iterator[tuple[int, int]]:
    """Yield limits and what is left of them, in bytes: the machine's and each group's."""
    machine = _numbers(_ROOT / "proc/meminfo")
    if "MemAvailable:" in machine:
        yield 1024 * machine["MemTotal:"], 1024 * machine["MemAvailable:"]
    for group in _groups("memory"):
        limit = _read(group, "memory.max", "memory.limit_in_bytes").strip()
        held = _read(group, "memory.current", "memory.usage_in_bytes").strip()
        if limit.isdecimal() and held.isdecimal():
            stat = _numbers(group / "memory.stat")
            # Cached pages of files count as free. Version 1 has the sums of inner groups, too.
            pages = (f"{state}_file" for state in ("inactive", "active"))
            free = sum(stat.get(f"total_{name}", stat.get(name, 0)) for name in pages)
            yield int(limit), int(limit) - int(held) + free


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
