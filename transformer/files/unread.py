"""Formats of models that Headlight does not read, and a remedy for each.

A format is recognised by file names, first bytes, a setting, or the texts and names in a torch
file's archive. Nothing is unpickled.
"""

import os
import re
import tomllib
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from transformer.files.safe import json_object, open_file
from transformer.types import CheckpointError


@dataclass(frozen=True)
class Unread:
    """A format, a row of unread.toml, which explains the fields."""

    holds: str
    files: tuple[str, ...] = ()
    starts: tuple[re.Pattern[bytes], ...] = ()
    texts: tuple[str, ...] = ()
    setting: tuple[str, str, str] | None = None
    always: bool = False
    importer: str = ""


def _bytes(start: str) -> re.Pattern[bytes]:
    parts = (b"." if part == ".." else re.escape(bytes.fromhex(part)) for part in start.split())
    return re.compile(b"".join(parts), re.DOTALL | re.IGNORECASE)


def _row(row: dict[str, Any]) -> Unread:
    lists = {name: tuple(value) for name, value in row.items() if isinstance(value, list)}
    return Unread(**{**row, **lists, "starts": tuple(map(_bytes, row.get("starts", ())))})


_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
FORMATS = tuple(map(_row, _TABLE["formats"]))

#: Patterns of weights that Headlight reads.
_READ = ("*.safetensors*", "pytorch_model*.bin*", "*.ckpt", "*.pt")
#: Suffixes of weights alone, and of a model's other files.
_WEIGHTS = (".bin", ".ckpt", ".h5", ".pb", ".pkl", ".pt", ".pth", ".safetensors")
_OTHERS = (".json", ".model", ".spm")
_MOST_FILES, _MOST_OPENED = 1_000, 40


def unread(path: Path, importer: str | None = None) -> str | None:
    """Return the content of a file or folder that Headlight does not read, with a remedy.

    Args: importer: the format meant to read the path, if known; only its files are then named.

    Returns: the rest of a sentence about the path, or None for everything else.
    """
    try:
        folder = path.is_dir()
        if not folder and not path.is_file():
            return None
        place = path if folder else path.parent
        names = os.listdir(place)[:_MOST_FILES]
    except (OSError, ValueError):
        return None
    reads = any(fnmatchcase(name, pattern) for name in names for pattern in _READ)
    for row in FORMATS:
        fits = _has_files(row, names) or (row.setting and _is_set(place, row.setting))
        named = folder or any(fnmatchcase(path.name, together.split()[0]) for together in row.files)
        if named and (row.always or not reads) and fits:
            return row.holds
    if not folder:
        return _content(path, importer)
    opened = [name for name in names if name.endswith((*_WEIGHTS, *_OTHERS))]
    for name in sorted(opened)[:_MOST_OPENED]:
        alone = "config.json" not in names and name.endswith((".pt", ".ckpt"))
        if reason := _content(place / name, importer, start_only=not alone, folder=True):
            return f"{reason} ({name})"
    return None


def listed(path: Path) -> bool:
    """Return True if a file's name, or the names in a folder, belong to one of these formats."""
    try:
        names = os.listdir(path) if path.is_dir() else [path.name]
    except (OSError, ValueError):
        return False
    return path.suffix in _WEIGHTS or any(_has_files(row, names) for row in FORMATS)


def _has_files(row: Unread, names: Collection[str]) -> bool:
    return any(
        all(any(fnmatchcase(name, pattern) for name in names) for pattern in together.split())
        for together in row.files
    )


def _is_set(place: Path, setting: tuple[str, str, str]) -> bool:
    file, key, values = setting
    with suppress(CheckpointError):
        return json_object(place / file).get(key) in values.split()
    return False


def _content(
    path: Path, importer: str | None, *, start_only: bool = False, folder: bool = False
) -> str | None:
    """Return the content of one file by its first bytes and, if a torch file, its texts."""
    from transformer.files.torch_file import outer_texts  # a page of maps needs no torch

    try:
        with open_file(path) as (file, status):
            start = file.read(64)
            texts = frozenset() if start_only else outer_texts(file)
    except CheckpointError:
        return None
    if not status.st_size and not folder:
        return "is empty; fetch the file again"
    start = start.lstrip() if start.lstrip().startswith(b"<") else start
    for row in FORMATS:
        known = any(first.match(start) for first in row.starts)
        known = known or any(texts.issuperset(keys.split()) for keys in row.texts)
        if known and not (importer and row.importer):
            return row.holds.replace("FILE", "DIR") if folder else row.holds
    if folder or importer:
        return None
    if path.suffix in _WEIGHTS:
        return "is one file of a model; open its folder, with the config and the tokenizer"
    if path.suffix != ".npz" and not start.startswith(b"PK"):
        return "is not a format that Headlight reads: a folder of a model, or an .npz of maps"
    return None
