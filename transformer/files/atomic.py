"""Writing files whole or not at all."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

#: Names of files that are being written, or were when their process was killed.
TEMPORARY = re.compile(r"\..+\.\d+\.new")


def check_place(path: Path) -> None:
    """See that a file may be written here, before the work that fills it. Raises `OSError`."""
    problem = 0
    if path.is_dir() or not path.name:
        problem = errno.EISDIR
    elif not path.parent.is_dir():
        problem = errno.ENOENT
    elif not os.access(path.parent, os.W_OK):
        problem = errno.EACCES
    if problem:
        raise OSError(problem, os.strerror(problem), str(path))


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that it appears whole or not at all, also when the machine goes down.

    What is there and no file, such as /dev/null, is written to and not replaced.

    Raises: `OSError` that names the file.
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
    """Have the names in a folder written to the disk."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
