"""Atomic replacement of files and folders, and leftovers of killed processes.

    .NAME.HOST-PID.RANDOM.new     the replacement of NAME
    .NAME.HOST-PID.RANDOM.old     NAME itself, moved aside for a moment
    .importing.HOST-PID.RANDOM    an unfinished checkpoint
    .fetched.HOST-PID.RANDOM      files fetched from a hub

A later process removes those of dead processes: on this machine by process id, otherwise by age.
"""

import ctypes
import errno
import glob
import os
import re
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
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


#: Names of temporary files, including those left behind by a killed process.
TEMPORARY = re.compile(r"\..+\.\d+\.new")


def check_place(path: Path) -> None:
    """Check that a file can be written here before doing the work. Raises `OSError`."""
    problem = 0
    if path.is_dir() or not path.name:
        problem = errno.EISDIR
    elif not path.parent.is_dir():
        problem = errno.ENOENT
    elif not os.access(path.parent, os.W_OK):
        problem = errno.EACCES
    if problem:
        raise OSError(problem, os.strerror(problem), str(path))


def write_atomic(path: Path, data: bytes | memoryview) -> None:
    """Write a file atomically and durably: it appears whole or not at all, even after a crash.

    Anything that is not a regular file, such as /dev/null, is written to rather than replaced.

    Raises: `OSError` naming the file.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        path.write_bytes(data)
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Flush a folder's entries to disk."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


#: Errors for a folder that cannot be renamed: a mount point, or a read-only parent.
_FIXED = (errno.EXDEV, errno.EBUSY, errno.EACCES, errno.EPERM, errno.EROFS)
#: Errors of systems and file systems without an atomic exchange of names.
_NO_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


@contextmanager
def replaced_folder(
    path: Path, *, over: bool = True, dropped: Collection[str] = ()
) -> Iterator[Path]:
    """Yield an empty folder that replaces `path` if the block ends without an error.

    Other entries of the old folder are carried over, as hard links where possible. First,
    leftovers of killed processes on this machine are removed. A folder that cannot be renamed,
    such as a mount point, is updated file by file.

    Args:
        path: created if missing; a link to a folder remains a link.
        over: True if `path` may hold files; an empty folder is always allowed.
        dropped: names not carried over from the old folder.

    Raises: `FileExistsError` if `path` is not empty and `over` is False; `OSError`.
    """
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    sweep(path)
    prefix, fixed = own_prefix(f".{path.name}."), False
    try:
        new = Path(tempfile.mkdtemp(prefix=prefix, suffix=".new", dir=path.parent))
    except OSError as error:
        if error.errno not in _FIXED or not path.is_dir():
            raise
        fixed, new = True, Path(tempfile.mkdtemp(prefix=prefix, suffix=".new", dir=path))
    try:
        yield new
        os.umask(mask := os.umask(0o077))
        new.chmod(path.stat().st_mode & 0o7777 if path.is_dir() else 0o777 & ~mask)
        sync_folder(new)
        if not over or not path.exists():
            _put(new, path)
        elif fixed:
            _fill(new, path, dropped)
        else:
            _keep_others(path, new, dropped)
            _swap(new, path, dropped)
        sync_folder(path.parent)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _put(new: Path, path: Path) -> None:
    try:
        os.rename(new, path)
    except OSError as error:
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None


def _keep_others(old: Path, new: Path, dropped: Collection[str]) -> None:
    for entry in os.scandir(old):
        target = new / entry.name
        if os.path.lexists(target) or entry.name in dropped or TEMPORARY.fullmatch(entry.name):
            continue
        if entry.is_dir(follow_symlinks=False):
            shutil.copytree(entry.path, target, symlinks=True, copy_function=_link)
        else:
            _link(entry.path, str(target))


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # no hard links on this file system
        shutil.copy2(source, target, follow_symlinks=False)


def _swap(new: Path, path: Path, dropped: Collection[str]) -> None:
    try:
        if exchange(new, path):
            return
        old = new.with_suffix(".old")
        os.rename(path, old)
        try:
            os.rename(new, path)
        except OSError:
            os.rename(old, path)
            raise
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        if error.errno not in _FIXED:
            raise
        _fill(new, path, dropped)


def _fill(new: Path, path: Path, dropped: Collection[str]) -> None:
    for name in sorted(file.name for file in new.iterdir() if not file.is_dir()):
        write_atomic(path / name, (new / name).read_bytes())
    for name in dropped:
        if not (new / name).exists():
            (path / name).unlink(missing_ok=True)


def exchange(first: Path, second: Path) -> bool:
    """Exchange two names atomically. Returns False if unsupported. Raises `OSError`."""
    call = _exchange_call()
    if call is None:
        return False
    if call(os.fsencode(first), os.fsencode(second)) == 0:
        return True
    code = ctypes.get_errno()
    if code in _NO_EXCHANGE:
        return False
    raise OSError(code, os.strerror(code), str(second))


def _exchange_call() -> Callable[[bytes, bytes], int] | None:
    library = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "linux" and hasattr(library, "renameat2"):
        here, at_once = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
        return lambda first, second: library.renameat2(here, first, here, second, at_once)
    if sys.platform == "darwin" and hasattr(library, "renamex_np"):
        return lambda first, second: library.renamex_np(first, second, 2)  # RENAME_SWAP
    return None
