"""What every reader of files from elsewhere needs: one-line reasons, real files, plain JSON."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from transformer.errors import CheckpointError


def check_file(path: Path) -> int:
    """The size of a file that can be read like one, in bytes.

    A pipe would keep its reader waiting for ever, and a device may never end.

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
    """Whether there is anything of this name, also something that cannot be opened."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):
        return True
    return True


def is_folder(path: Path) -> bool:
    """Whether this is a folder; False for whatever cannot even be looked up."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def parse_json(text: str | bytes) -> Any:
    """JSON that says everything once.

    Raises: `ValueError`, also for a key that an object holds twice (readers differ in which of them
        counts) and for nesting that no config needs.
    """
    try:
        return json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise ValueError(f"the key {key[:80]!r} stands there twice")
        values[key] = value
    return values


#: Bounds on what a config may ask for, beyond its number of parameters.
MAX_LAYERS, MAX_POSITION_ENTRIES, MAX_SMALL_FILE = 200, 200_000_000, 64 * 1024 * 1024


#: A config has a few kB; a long one would be parsed for many seconds before it is refused.
MAX_CONFIG = 2 * 1024 * 1024


#: Pieces as a list in JSON; those of a quarter of a million pieces have 6 MB.
MAX_TABLE = 16 * 1024 * 1024


def read_small(path: Path, most: int = MAX_SMALL_FILE) -> bytes:
    """The bytes of a file that has no reason to be large. Raises `CheckpointError` naming it.

    It is opened once, without waiting, and read no further than allowed: what lies there may be
    exchanged at any moment, also for a pipe or for something larger.
    """
    with open_file(path) as (file, _):
        data = file.read(most + 1)
    if len(data) > most:
        size = max(len(data), check_file(path))
        raise CheckpointError(f"{path}: {size:,} bytes; at most {most:,} are allowed")
    return data


@contextmanager
def open_file(path: Path) -> Iterator[tuple[BinaryIO, os.stat_result]]:
    """Open a real file for reading, without waiting; with what the system says of it.

    Raises: `CheckpointError` naming the file, also for an `OSError` of whoever reads it.
    """
    check_file(path)
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise CheckpointError(f"{path}: not a file any more")
            yield file, status
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror or error}") from None


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def check_unchanged(path: Path, file: BinaryIO, before: os.stat_result) -> None:
    """Refuse a file that was written to since it was opened: what was read of it may be of two.

    Raises: `CheckpointError` naming the file.
    """
    now = os.fstat(file.fileno())
    if (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise CheckpointError(f"{path}: changed while it was read")


def read_fully(file: BinaryIO, buffer: memoryview) -> None:
    """Fill a buffer from where the file stands. Raises `ValueError` where the file ends before."""
    while len(buffer):
        count = file.readinto(buffer)  # type: ignore[attr-defined]
        if not count:
            raise ValueError(f"it ends {len(buffer):,} bytes too early")
        buffer = buffer[count:]


def json_object(path: Path, most: int = MAX_CONFIG) -> dict[str, Any]:
    """A JSON file of at most so many bytes, with an object in it.

    Raises: `CheckpointError` naming the file.
    """
    data = read_small(path, most)
    try:
        values = parse_json(data.decode())
    except UnicodeDecodeError:
        raise CheckpointError(f"{path}: not UTF-8 text") from None
    except ValueError as error:
        raise CheckpointError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(values, dict):
        raise CheckpointError(f"{path}: expected a JSON object")
    return values
