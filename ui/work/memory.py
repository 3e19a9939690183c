"""Free memory of the server."""

from __future__ import annotations

from pathlib import Path

_MEMORY = Path("/proc/meminfo")

#: Limits of the container or service that the server runs in, where there is one.
_GROUP = Path("/sys/fs/cgroup")


def free_memory() -> int | None:
    """Return the bytes of memory available to this process, or None if unknown."""
    limits = [each for each in (_of_the_machine(), _of_the_group()) if each is not None]
    return max(0, min(limits)) if limits else None


def _of_the_machine() -> int | None:
    found = _numbers(_MEMORY, ":").get("MemAvailable")
    return None if found is None else 1024 * found


def _of_the_group() -> int | None:
    """Return the bytes left of the group's limit; cached pages of files count as free."""
    try:
        limit = (_GROUP / "memory.max").read_text("ascii").strip()
        if not limit.isdecimal():
            return None
        held = int((_GROUP / "memory.current").read_text("ascii"))
    except (OSError, ValueError):
        return None
    pages = _numbers(_GROUP / "memory.stat")
    return int(limit) - held + pages.get("inactive_file", 0) + pages.get("active_file", 0)


def _numbers(path: Path, after_name: str = "") -> dict[str, int]:
    """Read lines of a name and a number; {} if there are none."""
    try:
        lines = [line.split() for line in path.read_text("ascii").splitlines()]
    except (OSError, ValueError):
        return {}
    return {
        words[0].removesuffix(after_name): int(words[1])
        for words in lines
        if len(words) > 1 and words[1].isdecimal()
    }
