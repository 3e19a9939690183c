"""Atomic file writes."""

import errno
import os
import re
from pathlib import Path

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
