"""Reads safetensors files into memory, one tensor at a time.

The safetensors library is not used: its `safe_open` maps the file, and overwriting a mapped file in
place kills the process (in 6 of 9 loads of 193 MB); its `torch.load` holds every number twice.

A file holds the header's length (8 bytes, little-endian), the header (a JSON object with each
tensor's type, shape and offsets), and the numbers without gaps, in any order.
"""

import math
import os
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeGuard

import torch
from torch import Tensor

from transformer.config import parse_json
from transformer.files.safe import read_fully
from transformer.types import CheckpointError

#: Maximum header size in bytes; 200 layers need less than a tenth.
MAX_HEADER = 16 * 1024 * 1024
#: Maximum number of tensors in a file; 200 layers need less than half.
MAX_TENSORS = 20_000
_MAX_DIMENSIONS = 64

#: Bits per number by type name.
_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F16": 16,
    "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
}  # fmt: skip
#: Types of weights; other tensors are described but never read.
DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


class Part(NamedTuple):
    """A tensor's shape, type name and byte range in a file."""

    shape: tuple[int, ...]
    dtype: str
    begin: int
    end: int


def read_header(path: Path, file: BinaryIO, size: int) -> dict[str, Part]:
    """Return each tensor's location after checking the whole header against the file's size.

    Args:
        file: open at its beginning.
        size: bytes of the file.

    Raises: `CheckpointError`, one line that names the file.
    """
    length = int.from_bytes(file.read(8), "little")
    if MAX_HEADER < length <= size:
        raise CheckpointError(
            f"{path}: a header of {length:,} bytes; at most {MAX_HEADER:,} are allowed"
        )
    try:
        if length > size - 8:
            raise ValueError("it ends within its header")
        header = bytearray(length)
        read_fully(file, memoryview(header))
        values = parse_json(header.decode())
        if not isinstance(values, dict):
            raise ValueError("the header is not an object")
        values.pop("__metadata__", None)
        if len(values) > MAX_TENSORS:
            raise CheckpointError(
                f"{path}: {len(values):,} tensors; at most {MAX_TENSORS:,} are allowed"
            )
        parts = {name: _part(name, value, 8 + length) for name, value in values.items()}
        end = 8 + length
        for name, part in sorted(parts.items(), key=lambda item: item[1][2:]):
            if part.begin != end:
                raise ValueError(f"a gap or an overlap before tensor {name!r:.80}")
            end = part.end
        if end != size:
            raise ValueError(f"{size:,} bytes, but its header lists {end:,}")
    except CheckpointError:
        raise
    except ValueError as error:
        raise CheckpointError(f"{path}: not a whole safetensors file ({error})") from None
    return parts


def _part(name: str, value: object, start: int) -> Part:
    """Check a header entry; `start` is the offset of the numbers. Raises `ValueError`."""
    entry = value if isinstance(value, dict) else {}
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in _BITS:
        raise ValueError(f"tensor {name!r:.80} has the unknown type {dtype!r:.40}")
    if not _is_whole(shape) or not _is_whole(offsets) or len(offsets) != 2:
        raise ValueError(f"tensor {name!r:.80} lacks a shape or offsets")
    begin, end = offsets
    if math.prod(shape) * _BITS[dtype] != 8 * (end - begin):
        raise ValueError(f"tensor {name!r:.80} has the wrong number of bytes for its shape")
    return Part(tuple(shape), dtype, start + begin, start + end)


def _is_whole(values: object) -> TypeGuard[list[int]]:
    """Return True for a short list of integers in the range of file sizes."""
    return (
        isinstance(values, list)
        and len(values) <= _MAX_DIMENSIONS
        and all(type(value) is int and 0 <= value < 2**63 for value in values)
    )


def read_part(path: Path, file: BinaryIO, part: Part) -> Tensor:
    """Return a copy of a tensor of one of `DTYPES`.

    Raises: `CheckpointError` if the file has been truncated.
    """
    tensor = torch.empty(part.shape, dtype=DTYPES[part.dtype])
    if not tensor.numel():
        return tensor
    file.seek(part.begin, os.SEEK_SET)
    try:
        read_fully(file, tensor.view(-1).view(torch.uint8).numpy().data)
    except ValueError as error:
        raise CheckpointError(f"{path}: not a whole safetensors file ({error})") from None
    return tensor
