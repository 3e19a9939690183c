"""A look into torch files before they are opened: what their pickles would call.

`weights_only=True` refuses what could run code. Some of what it lets through still takes any amount
of memory for a few bytes (`bytearray(10**12)`, an encoding that doubles its text, applied again and
again), so a state dict may name only what state dicts are made of.
"""

from __future__ import annotations

import os
import pickletools
import re
import zipfile
from pathlib import Path
from typing import IO

from transformer.errors import CheckpointError

#: What tensors by name, and the counters beside them, are made of.
ALLOWED = re.compile(
    r"collections OrderedDict"
    r"|torch\._utils (_rebuild_tensor|_rebuild_tensor_v2|_rebuild_tensor_v3"
    r"|_rebuild_parameter)"
    r"|torch \w+Storage|torch\.storage (Typed|Untyped)Storage"
    r"|torch (bfloat16|(float|int|uint|complex)\d+|bool|device|Size)"
    r"|torch\.serialization _get_layout"
)

#: Largest pickle looked through, and how many stand in an old file before its numbers begin.
MAX_PICKLE, OLD_PICKLES = 64 * 1024 * 1024, 5
#: Most steps in one, less than a second's reading; a tensor takes 30 or so.
MAX_STEPS = 500_000


def check_pickles(
    path: Path, file: IO[bytes], allowed: re.Pattern[str] = ALLOWED, hint: str = ""
) -> None:
    """Refuse a torch file that is not made of tensors, or that would grow when it is unpacked.

    Args:
        path: for messages.
        file: open at its beginning.
        allowed: what its pickles may name.
        hint: added to the reason where they name something else.

    Raises: `CheckpointError` naming the file.
    """
    try:
        if zipfile.is_zipfile(file):
            _check_archive(path, file, allowed, hint)
        else:
            file.seek(0)
            for _ in range(OLD_PICKLES):
                _check_pickle(path, file, allowed, hint)
    except CheckpointError:
        raise
    except Exception as error:  # noqa: BLE001 - a damaged file may fail in any way
        reason = str(error) or type(error).__name__
        raise CheckpointError(f"{path}: not a whole torch file ({reason})") from None


def _check_archive(path: Path, file: IO[bytes], allowed: re.Pattern[str], hint: str) -> None:
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        # torch itself compresses nothing.
        if any(each.compress_type != zipfile.ZIP_STORED for each in members):
            raise CheckpointError(f"{path}: a compressed archive, which torch does not write")
        if len({each.filename for each in members}) != len(members):
            raise CheckpointError(f"{path}: an archive that holds a file twice")
        # Together: members may lie on top of each other.
        if sum(each.file_size for each in members) > file.seek(0, os.SEEK_END):
            raise CheckpointError(f"{path}: an archive whose files are larger than itself")
        for each in members:
            if each.filename.rpartition("/")[2].lower().endswith(".pkl"):
                if each.file_size > MAX_PICKLE:
                    raise CheckpointError(
                        f"{path}: {each.filename} has {each.file_size:,} bytes; at most "
                        f"{MAX_PICKLE:,} are looked through"
                    )
                with archive.open(each) as member:
                    _check_pickle(path, member, allowed, hint)


def _check_pickle(path: Path, file: IO[bytes], allowed: re.Pattern[str], hint: str) -> None:
    for count, (operation, argument, position) in enumerate(pickletools.genops(file)):
        if count >= MAX_STEPS:
            raise CheckpointError(f"{path}: a pickle of more than {MAX_STEPS:,} steps")
        if position is not None and position > MAX_PICKLE:
            raise CheckpointError(f"{path}: a pickle of more than {MAX_PICKLE:,} bytes")
        calls = operation.name in ("GLOBAL", "INST")
        if operation.name in ("STACK_GLOBAL", "OBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4") or (
            calls and not allowed.fullmatch(str(argument))
        ):
            what = f" ({str(argument).replace(' ', '.')})" if calls else ""
            raise CheckpointError(
                f"{path}: holds more than weights{what}; it is not loaded, since it could run code "
                f"or fill the memory{hint}"
            )
