"""Weights in one file, or in several with an index of tensors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from transformer.checkpoint.weights import Described, describe_weights, read_tensors
from transformer.errors import CheckpointError
from transformer.files.safe import check_file, is_there, json_object

#: Most shards of one model.
MAX_FILES = 100
#: Allowed name of a shard: beside its index, not hidden.
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,200}", re.ASCII)


@dataclass(frozen=True)
class Stored:
    """Description of weights on disk.

    Attributes:
        path: the file, or the index of several, for messages.
        files: the file that holds each tensor.
        found: shape and type of each tensor.
        size: total bytes.
    """

    path: Path
    files: Mapping[str, Path]
    found: Mapping[str, Described]
    size: int

    def tensors(self) -> dict[str, Tensor]:
        """Read a copy of every tensor in its stored type.

        Raises: `CheckpointError` if a file has been replaced since it was described.
        """
        read: dict[str, Tensor] = {}
        for path in dict.fromkeys(self.files.values()):
            found = {name: self.found[name] for name, file in self.files.items() if file == path}
            read |= read_tensors(path, found)
        return read


def describe_shards(folder: Path, names: Sequence[str]) -> Stored:
    """Describe a folder's weights: the first file of these names, or else the first index.

    Raises: `CheckpointError`, one line that names the file.
    """
    for name in names:
        path = folder / name
        if is_there(path):
            found = describe_weights(path)
            return Stored(path, dict.fromkeys(found, path), found, check_file(path))
    for name in names:
        path = folder / f"{name}.index.json"
        if is_there(path):
            return _several(path, Path(name).suffix)
    raise CheckpointError(f"{folder / names[0]}: the file is missing")


def _several(index: Path, suffix: str) -> Stored:
    placed = json_object(index).get("weight_map")
    if not isinstance(placed, dict) or not placed:
        raise CheckpointError(f"{index}: 'weight_map' does not say which tensor lies where")
    for file in placed.values():
        if not isinstance(file, str) or not _NAME.fullmatch(file) or not file.endswith(suffix):
            raise CheckpointError(
                f"{index}: {file!r:.80} is not the name of a {suffix} file beside it"
            )
    names = sorted(set(placed.values()))
    if len(names) > MAX_FILES:
        raise CheckpointError(f"{index}: {len(names):,} files; at most {MAX_FILES} are read")
    files: dict[str, Path] = {}
    found: dict[str, Described] = {}
    size = 0
    for name in names:
        path = index.parent / name
        size += check_file(path)
        held = describe_weights(path)
        for tensor in held:
            if placed.get(tensor) != name:
                raise CheckpointError(f"{path}: holds {tensor!r}, but {index.name} does not say so")
        for tensor, file in placed.items():
            if file == name and tensor not in held:
                raise CheckpointError(f"{path}: tensor {tensor!r} is missing")
        files |= dict.fromkeys(held, path)
        found |= held
    return Stored(index, files, found, size)
