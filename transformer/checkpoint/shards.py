"""Weights in one file, or in shards with an index of tensors."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from torch import Tensor

from transformer.checkpoint.weights import Described, describe, describe_weights, read_tensors
from transformer.files.safe import check_file, is_there, json_object
from transformer.types import CheckpointError

#: Maximum number of shards.
MAX_FILES = 100
#: Allowed shard names: beside the index, not hidden.
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,200}", re.ASCII)


@dataclass(frozen=True)
class Stored:
    """Description of weights on disk."""

    path: Path  # the file, or the index of shards, for messages
    files: Mapping[str, Path]  # file of each tensor
    found: Mapping[str, Described]  # shape and type of each tensor
    size: int  # total bytes
    read: Mapping[str, Tensor] | None = None  # the tensors, if already in memory

    @classmethod
    def of(cls, path: Path, tensors: Mapping[str, Tensor]) -> Self:
        """Describe tensors read from one file."""
        described = {name: describe(tensor) for name, tensor in tensors.items()}
        return cls(path, dict.fromkeys(described, path), described, check_file(path), tensors)

    def tensors(self) -> Mapping[str, Tensor]:
        """Read a copy of every tensor in its stored type.

        Raises: `CheckpointError` if a file has been replaced since it was described.
        """
        if self.read is not None:
            return self.read
        tensors: dict[str, Tensor] = {}
        for path in dict.fromkeys(self.files.values()):
            names = [name for name, file in self.files.items() if file == path]
            tensors |= read_tensors(path, {name: self.found[name] for name in names})
        return tensors


def describe_shards(folder: Path, names: Sequence[str], most: int = MAX_FILES) -> Stored:
    """Describe a folder's weights, without reading their numbers.

    Args: see `weight_files`.

    Raises: `CheckpointError`, one line that names the file.
    """
    path, placed = weight_files(folder, names, most)
    if placed is None:
        described = describe_weights(path)
        return Stored(path, dict.fromkeys(described, path), described, check_file(path))
    files: dict[str, Path] = {}
    described, size = {}, 0
    for name in sorted(set(placed.values())):
        file = path.parent / name
        size += check_file(file)
        shard = describe_weights(file)
        for tensor in shard:
            if placed.get(tensor) != name:
                raise CheckpointError(f"{file}: {path.name} does not list tensor {tensor!r} here")
        for tensor, other in placed.items():
            if other == name and tensor not in shard:
                raise CheckpointError(f"{file}: tensor {tensor!r} is missing")
        files |= dict.fromkeys(shard, file)
        described |= shard
    return Stored(path, files, described, size)


def weight_files(
    folder: Path, names: Sequence[str], most: int = MAX_FILES
) -> tuple[Path, dict[str, str] | None]:
    """Return a weight file and None, or an index and the file name of each tensor.

    Args:
        names: weight files in order of preference; their indexes are NAME.index.json.
        most: maximum number of shards.

    Raises: `CheckpointError`, one line that names the file.
    """
    for name in names:
        if is_there(path := folder / name):
            return path, None
        if is_there(index := folder / f"{name}.index.json"):
            return index, _placed(index, path.suffix, most)
    raise CheckpointError(f"{folder / names[0]}: the file is missing")


def _placed(index: Path, suffix: str, most: int) -> dict[str, str]:
    placed = json_object(index).get("weight_map")
    if not isinstance(placed, dict) or not placed:
        raise CheckpointError(f"{index}: 'weight_map' does not map tensors to files")
    for file in placed.values():
        if not isinstance(file, str) or not _NAME.fullmatch(file) or not file.endswith(suffix):
            raise CheckpointError(
                f"{index}: {file!r:.80} is not the name of a {suffix} file beside it"
            )
    if (count := len(set(placed.values()))) > most:
        raise CheckpointError(f"{index}: {count:,} files; at most {most:,} are allowed")
    return placed
