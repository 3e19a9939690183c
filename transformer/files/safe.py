"""Helpers for reading untrusted files: one-line errors, regular files only, strict JSON."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO

from transformer.config import MAX_VALUES, parse_json
from transformer.types import CheckpointError


def check_file(path: Path) -> int:
    """Return the size of a regular file in bytes; a pipe or device could block its reader.

    Raises: `CheckpointError` naming the file.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        raise CheckpointError(f"{path}: the file is missing") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe, socket or device"
        raise CheckpointError(f"{path}: {kind}, not a file")
    return status.st_size


def is_there(path: Path) -> bool:
    """Return True if the name exists, even if it cannot be opened."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):
        return True
    return True


def is_folder(path: Path) -> bool:
    """Return True for a folder, False also on an error."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def modified(path: Path) -> int:
    """Return the modification time in nanoseconds, or 0 on an error."""
    try:
        return os.stat(path).st_mtime_ns
    except (OSError, ValueError):
        return 0


#: Results about files that are cached, more than any folder of checkpoints holds.
MAX_CACHED = 10_000

#: Suffixes of files in a fingerprint, and the maximum number of files.
_COUNTED = (".json", ".safetensors", ".bin", ".model", ".spm", ".txt", ".pt", ".npz")
_MOST_COUNTED = 200


def fingerprint(path: Path) -> str:
    """Return a string that changes with the name, size, time or inode of any model file."""
    statuses: list[tuple[str, os.stat_result]] = []
    with suppress(OSError, ValueError):  # missing, or not a path
        try:
            with os.scandir(path) as files:
                counted = [(file.name, file) for file in files if file.name.endswith(_COUNTED)]
        except NotADirectoryError:
            statuses.append((path.name, path.stat()))
        else:
            for name, file in sorted(counted, key=itemgetter(0))[:_MOST_COUNTED]:
                with suppress(OSError):
                    statuses.append((name, file.stat()))
    return " ".join(
        f"{name}:{status.st_size}:{status.st_mtime_ns}:{status.st_ino}" for name, status in statuses
    )


#: Limits for a config besides the number of parameters, and for any small file in bytes.
MAX_LAYERS, MAX_POSITION_ENTRIES, MAX_SMALL_FILE = 200, 200_000_000, 64 * 1024 * 1024
#: Maximum size of a config in bytes; real configs have a few kB.
MAX_CONFIG = 2 * 1024 * 1024
#: Maximum size and lines of a vocabulary; 250,000 pieces take 6 MB.
MAX_TABLE, MAX_LINES = 16 * 1024 * 1024, 1_000_000


def read_small(path: Path, most: int = MAX_SMALL_FILE) -> bytes:
    """Read a small file. Raises `CheckpointError` naming it.

    The file is opened once and read only up to the limit, since it may be replaced at any moment.
    """
    with open_file(path) as (file, _):
        data = file.read(most + 1)
    if len(data) > most:
        size = max(len(data), check_file(path))
        raise CheckpointError(f"{path}: {size:,} bytes; at most {most:,} are allowed")
    return data


@contextmanager
def open_file(path: Path) -> Iterator[tuple[BinaryIO, os.stat_result]]:
    """Open a regular file without blocking; yield it with its status.

    Raises: `CheckpointError` naming the file, also for an `OSError` inside the block.
    """
    check_file(path)
    try:
        nonblocking = getattr(os, "O_NONBLOCK", 0)
        with open(path, "rb", opener=lambda at, flags: os.open(at, flags | nonblocking)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise CheckpointError(f"{path}: no longer a file")
            yield file, status
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror or error}") from None


def check_unchanged(path: Path, file: BinaryIO, before: os.stat_result) -> None:
    """Raise `CheckpointError` if a file changed since it was opened, as its bytes may be mixed."""
    now = os.fstat(file.fileno())
    if (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise CheckpointError(f"{path}: changed while being read")


def read_fully(file: BinaryIO, buffer: memoryview) -> None:
    """Fill a buffer from the file's position. Raises `ValueError` at the end of the file."""
    while len(buffer):
        count = file.readinto(buffer)  # type: ignore[attr-defined]
        if not count:
            raise ValueError(f"it ends {len(buffer):,} bytes too early")
        buffer = buffer[count:]


def read_text(path: Path, most: int = MAX_TABLE) -> str:
    """Return the text of a small UTF-8 file. Raises `CheckpointError` naming the file."""
    try:
        text = read_small(path, most).decode()
    except UnicodeDecodeError:
        raise CheckpointError(f"{path}: not UTF-8 text") from None
    if text.count("\n") > MAX_LINES:
        raise CheckpointError(f"{path}: more than {MAX_LINES:,} lines")
    return text


def one_line(error: BaseException) -> str:
    """Return another library's error message as one short line."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def json_object(
    path: Path, most: int = MAX_CONFIG, most_values: int = MAX_VALUES
) -> dict[str, Any]:
    """Read a JSON object from a file. Raises `CheckpointError` naming the file.

    Args: most, most_values: maximum bytes and values.
    """
    data = read_small(path, most)
    try:
        values = parse_json(data, most_values)
    except UnicodeDecodeError:
        raise CheckpointError(f"{path}: not UTF-8 text") from None
    except ValueError as error:
        raise CheckpointError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(values, dict):
        raise CheckpointError(f"{path}: expected a JSON object")
    return values
