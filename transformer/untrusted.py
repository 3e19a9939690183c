"""What every reader of files from elsewhere needs: one-line reasons, real files, plain JSON."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

#: Longest reason, in characters; what is longer loses its middle.
_LONGEST = 600


class CheckpointError(ValueError):
    """A checkpoint that cannot be used: the message names the file and says what is wrong.

    It is one line whatever a file holds, and never longer than a screen.
    """

    def __init__(self, message: object) -> None:
        line = " ".join("".join(c if c.isprintable() else " " for c in str(message)).split(" "))
        if len(line) > _LONGEST:
            line = f"{line[: _LONGEST - 100]} … {line[-97:]}"
        super().__init__(line)


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
