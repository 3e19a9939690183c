"""Leftovers of killed processes: temporary folders named after the process.

    .NAME.HOST-PID.RANDOM.new     the replacement of NAME
    .NAME.HOST-PID.RANDOM.old     NAME itself, moved aside for a moment
    .importing.HOST-PID.RANDOM    an unfinished checkpoint
    .fetched.HOST-PID.RANDOM      files fetched from a hub

A later process removes those of dead processes: on this machine by process id, otherwise by age.
"""

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

#: Prefix of training folders among the system's temporary files.
RUNS = "headlight-training-"

_HOST = re.sub(r"[^A-Za-z0-9]+", "-", socket.gethostname())[:40]

#: Seconds until a stage of another machine in a shared folder counts as abandoned.
_ABANDONED = 7 * 24 * 3600.0

#: Seconds that a folder may be missing while it is replaced.
_MOMENT = 5.0


def own_prefix(prefix: str) -> str:
    """Return a prefix for `tempfile.mkdtemp` that names this process."""
    return f"{prefix}{_HOST}-{os.getpid()}."


def restore(path: Path) -> bool:
    """Restore a folder that a killed process had moved aside; return True if it did."""
    with suppress(OSError, ValueError, RuntimeError):
        if not os.path.lexists(path):
            path = path.resolve()
            for left in _beside(path):
                if left.suffix == ".old":
                    os.rename(left, path)
                    return True
    return False


def comes_back(path: Path) -> bool:
    """Wait for a folder that is briefly moved aside; return True if it exists."""
    with suppress(OSError, ValueError, RuntimeError):
        path, deadline = path.resolve(), time.monotonic() + _MOMENT
        while not os.path.lexists(path):
            aside = any(path.parent.glob(f"{glob.escape(f'.{path.name}.')}*.old"))
            if not aside or time.monotonic() > deadline:
                break
            time.sleep(0.005)
        return os.path.lexists(path)
    return False


def sweep(path: Path) -> None:
    """Restore a folder, then remove the temporary folders of killed processes beside it."""
    restore(path)
    # A folder that cannot be renamed, such as a mount point, has its leftovers inside.
    for left in (*_beside(path), *_beside(path / path.name)):
        shutil.rmtree(left, ignore_errors=True)


def remove_stages(place: Path, prefix: str, *, own: bool = False) -> list[str]:
    """Remove folders of killed processes with this prefix, and return their names.

    Args: own: also remove folders with this process's id, which every server in a container has;
        True only before this process has made any.
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
    """Clean up after killed processes when a server starts; return one line per cleanup."""
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
    """Yield the names of folders whose replacement in `place` is unfinished."""
    try:
        names = os.listdir(place)
    except OSError:
        return
    for name in sorted(names):
        match = re.fullmatch(rf"\.(.+)\.{re.escape(_HOST)}-\d+\.\w+\.(new|old)", name)
        if match is not None:
            yield match[1]


def _beside(path: Path, own: bool = False) -> Iterator[Path]:
    """Yield temporary folders of dead processes on this machine that were replacing `path`."""
    prefix = f".{path.name}.{_HOST}-"
    for left in path.parent.glob(f"{glob.escape(prefix)}*"):
        match = re.fullmatch(r"(\d+)\.\w+\.(new|old)", left.name.removeprefix(prefix))
        if match is not None and not _alive(int(match[1]), own):
            yield left


def _is_orphan(left: Path, prefix: str, own: bool) -> bool:
    if left.is_symlink() or not left.is_dir():
        return False
    match = re.fullmatch(r"(.*)-(\d+)\.\w+", left.name.removeprefix(prefix))
    if match is not None and match[1] == _HOST:
        return not _alive(int(match[2]), own)
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
    except OSError:  # another user's
        pass
    return True
