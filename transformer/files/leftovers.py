"""Leftovers of killed processes: temporary folders named after the process.

    .NAME.HOST-PID.RANDOM.new     the replacement of NAME
    .NAME.HOST-PID.RANDOM.old     NAME itself, moved aside for a moment
    .importing.HOST-PID.RANDOM    an unfinished checkpoint
    .fetched.HOST-PID.RANDOM      files fetched from a hub

A later process removes those of dead processes. On this machine, process ids decide, not the
clock.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

#: Prefixes of unfinished checkpoints and downloads; listings leave such names out.
STAGE = ".importing."
FETCHED = ".fetched."

#: Prefix of the folders of training runs among the system's temporary files.
RUNS = "headlight-training-"

_HOST = re.sub(r"[^A-Za-z0-9]+", "-", socket.gethostname())[:40]

#: Seconds after which a stage that another machine left in a shared folder counts as abandoned.
_ABANDONED = 7 * 24 * 3600.0

#: Seconds for which a folder that is being replaced may be missing.
_MOMENT = 5.0


def own_prefix(prefix: str) -> str:
    """Return a prefix for `tempfile.mkdtemp` that names this process."""
    return f"{prefix}{_HOST}-{os.getpid()}."


def restore(path: Path) -> bool:
    """Restore a folder that a killed process had moved aside; return True if there was one."""
    with suppress(OSError, ValueError, RuntimeError):
        if not os.path.lexists(path):
            path = path.resolve()
            for left in _beside(path):
                if left.suffix == ".old":
                    os.rename(left, path)
                    return True
    return False


def comes_back(path: Path) -> bool:
    """Wait for a folder that is moved aside for a moment; return True if it is there."""
    with suppress(OSError, ValueError, RuntimeError):
        path, deadline = path.resolve(), time.monotonic() + _MOMENT
        while not os.path.lexists(path):
            aside = any(path.parent.glob(f"{glob.escape(f'.{path.name}.')}*.old"))
            if not aside or time.monotonic() > deadline:
                break
            time.sleep(0.005)
        return os.path.lexists(path)  # it may have come back since
    return False


def sweep(path: Path) -> None:
    """Restore a folder, then remove the temporary folders of killed processes beside it."""
    restore(path)
    # A folder that cannot be renamed, such as a mount point, has its leftovers inside.
    for left in (*_beside(path), *_beside(path / path.name)):
        shutil.rmtree(left, ignore_errors=True)


def remove_stages(place: Path, prefix: str, *, own: bool = False) -> list[str]:
    """Remove a prefix's folders of killed processes in `place`.

    Args:
        own: whether this process has none yet, so that those with its number are an earlier
            process's: in a container every server has the same.

    Returns: the names of those removed.
    """
    removed = []
    with suppress(OSError):
        for left in sorted(place.glob(f"{glob.escape(prefix)}*")):
            if _is_orphan(left, prefix, own):
                shutil.rmtree(left, ignore_errors=True)
                if not left.exists():
                    removed.append(left.name)
    return removed


def clear_away(places: Iterable[Path]) -> list[str]:
    """Clean up after killed processes in folders of checkpoints, when a server starts.

    Returns: a line for each finding, without the folders' own paths.
    """
    lines = []
    for place in places:
        for name in dict.fromkeys(_replaced(place)):
            if restore(place / name):
                lines.append(f"{place.name}/{name}: restored, its replacement was interrupted")
            before = [*_beside(place / name, own=True)]
            for left in before:
                shutil.rmtree(left, ignore_errors=True)
            if before:
                lines.append(f"{place.name}/{name}: removed temporary files of a killed process")
        for prefix, what in ((STAGE, "an import"), (FETCHED, "a download")):
            if count := len(remove_stages(place, prefix, own=True)):
                times = "" if count == 1 else f" ({count} times)"
                lines.append(
                    f"{place.name}/: removed temporary files of {what} that was killed{times}"
                )
    return lines


def _replaced(place: Path) -> Iterator[str]:
    """Yield the names that unfinished folders in `place` were to replace."""
    try:
        names = os.listdir(place)
    except OSError:
        return
    for each in sorted(names):
        found = re.fullmatch(rf"\.(.+)\.{re.escape(_HOST)}-\d+\.\w+\.(new|old)", each)
        if found is not None:
            yield found[1]


def _beside(path: Path, own: bool = False) -> Iterator[Path]:
    """Yield the temporary folders of dead processes on this machine that were replacing `path`."""
    prefix = f".{path.name}.{_HOST}-"
    for left in path.parent.glob(f"{glob.escape(prefix)}*"):
        found = re.fullmatch(r"(\d+)\.\w+\.(new|old)", left.name.removeprefix(prefix))
        if found is not None and not _alive(int(found[1]), own):
            yield left


def _is_orphan(left: Path, prefix: str, own: bool) -> bool:
    if left.is_symlink() or not left.is_dir():
        return False
    found = re.fullmatch(r"(.*)-(\d+)\.\w+", left.name.removeprefix(prefix))
    if found is not None and found[1] == _HOST:
        return not _alive(int(found[2]), own)
    with suppress(OSError):
        return time.time() - left.stat().st_mtime > _ABANDONED
    return False


def _alive(pid: int, own: bool) -> bool:
    if own and pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
