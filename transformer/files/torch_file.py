"""Reads files of tensors into memory: torch files as data, never run as code, and safetensors.

Overwriting a mapped file in place kills the process (SIGBUS), so tensors are copied, and a file
that changes meanwhile is refused.

`weights_only=True` refuses whatever could run code, but a few bytes can still claim any amount of
memory (`bytearray(10**12)`), time (the hash of a tuple of a tuple twice of a tuple twice …) or
stack (tuples nested 100,000 deep). So only names in state dicts and values of limited size and
depth are allowed, and the pickles checked are those that torch will read.

The safetensors library is not used: its `safe_open` maps the file, and overwriting a mapped file in
place kills the process (in 6 of 9 loads of 193 MB); its `torch.load` holds every number twice.

A file holds the header's length (8 bytes, little-endian), the header (a JSON object with each
tensor's type, shape and offsets), and the numbers without gaps, in any order.
"""

import math
import os
import pickle
import pickletools
import re
import struct
import warnings
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, TypeGuard

import torch
from torch import Tensor

from transformer.config import parse_json
from transformer.files.safe import check_unchanged, open_file, read_fully
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


#: Globals in pickles of state dicts.
ALLOWED = re.compile(
    r"collections OrderedDict"
    r"|torch\._utils (_rebuild_tensor|_rebuild_tensor_v2|_rebuild_tensor_v3"
    r"|_rebuild_parameter)"
    r"|torch \w+Storage|torch\.storage (Typed|Untyped)Storage"
    r"|torch (bfloat16|(float|int|uint|complex)\d+|bool|device|Size)"
    r"|torch\.serialization _get_layout"
)

#: Maximum size of a pickle in bytes, and the number of pickles before an old file's numbers.
MAX_PICKLE, OLD_PICKLES = 64 * 1024 * 1024, 5
#: Maximum opcodes in a pickle, about a second's work; a tensor takes about 30.
MAX_STEPS = 500_000
#: Maximum values within a value, shared ones counted at each place, and maximum nesting.
MAX_VALUES, MAX_DEPTH = 2_000_000, 200

#: Opcodes that change their first operand in place.
_IN_PLACE = ("APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS", "BUILD")


def read_torch(
    path: Path,
    *,
    allowed: re.Pattern[str] = ALLOWED,
    safe_globals: Sequence[Callable[..., Any] | type] = (),
    hint: str = "",
    shapes_only: bool = False,
) -> Any:
    """Return a torch file's content, with tensors on the CPU.

    Args:
        allowed: globals that its pickles may use.
        safe_globals: classes that torch may build besides its own.
        hint: added to the message if the file holds more than weights.
        shapes_only: return tensors on the meta device, without their numbers.

    Raises: `CheckpointError`, one line that names the file.
    """
    with open_file(path) as (file, status):
        check_pickles(path, file, allowed, hint)
        file.seek(0)
        try:
            # Safe globals apply to all threads meanwhile, which is harmless.
            with torch.serialization.safe_globals(list(safe_globals)), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about pickles that torch did not write
                content = torch.load(
                    file, map_location="meta" if shapes_only else "cpu", weights_only=True
                )
        except pickle.UnpicklingError as error:
            name = re.search(r"GLOBAL ([\w.]+)", str(error))
            what = f" ({name[1]})" if name else ""
            raise CheckpointError(
                f"{path}: holds more than weights{what}, or is damaged; "
                f"it is not loaded, since it could run code{hint}"
            ) from None
        except Exception as error:  # noqa: BLE001 - a damaged file may fail in any way
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise CheckpointError(f"{path}: not a whole torch file ({reason})") from None
        check_unchanged(path, file, status)
    return content


def check_pickles(
    path: Path, file: IO[bytes], allowed: re.Pattern[str] = ALLOWED, hint: str = ""
) -> None:
    """Refuse a torch file that holds more than tensors or would expand when unpickled.

    Args: file: open at its beginning; see `read_torch` for the others.

    Raises: `CheckpointError` naming the file.
    """
    try:
        archive = file.read(4) == b"PK\x03\x04"  # as torch decides
        file.seek(0)
        if archive:
            _check_directory(file)
            _check_archive(path, file, allowed, hint)
        else:
            for _ in range(OLD_PICKLES):
                _check_pickle(path, file, allowed, hint)
    except CheckpointError:
        raise
    except Exception as error:  # noqa: BLE001 - a damaged file may fail in any way
        reason = str(error) or type(error).__name__
        raise CheckpointError(f"{path}: not a whole torch file ({reason})") from None


def outer_texts(file: IO[bytes]) -> frozenset[str]:
    """Return the outer dictionary's texts in a torch file, and names in its archive; {} for others.

    Opcodes are read and never run. Names of an archive's files count without its main folder.
    """
    texts = set[str]()
    with suppress(Exception):  # a damaged file may fail in any way
        file.seek(0)
        if file.read(4) == b"PK\x03\x04":
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                texts.update(part for one in members for part in one.filename.split("/", 2)[:2])
                for member in members:
                    stored = member.compress_type == zipfile.ZIP_STORED
                    if stored and re.fullmatch(r"[^/]+/data\.pkl", member.filename):
                        with archive.open(member) as stream:
                            texts |= _outer_texts(stream)
        elif file.seek(0) == 0 and file.read(2) == b"\x80\x02":
            file.seek(0)
            for _ in range(OLD_PICKLES - 1):
                texts |= _outer_texts(file)
    return frozenset(texts)


def _outer_texts(file: IO[bytes]) -> set[str]:
    texts, depth = set[str](), 0
    for operation, argument, position in islice(pickletools.genops(file), MAX_STEPS):
        if (position or 0) > MAX_PICKLE:
            break
        depth += operation.name == "MARK"
        depth -= pickletools.markobject in operation.stack_before
        if depth <= 1 and isinstance(argument, str) and "UNICODE" in operation.name:
            texts.add(argument)
    return texts


def _check_directory(file: IO[bytes]) -> None:
    """Require the archive's directory to lie where both `zipfile` and torch look for it.

    `zipfile` takes the bytes before the end record, torch those at the offset in that record.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 98))
    tail = file.read()
    end = tail[-22:]
    listed, begin, comment = struct.unpack("<LLH", end[12:])
    stop = size - 22
    if tail[-42:-38] == b"PK\x06\x07":  # 64-bit numbers: a record of 56 bytes and its address
        stop = size - 98
        listed, begin = struct.unpack("<QQ", tail[40:56])
        if not tail.startswith(b"PK\x06\x06") or tail[64:72] != struct.pack("<Q", stop):
            raise ValueError("an archive without a plain end")
    if end[:4] != b"PK\x05\x06" or comment or begin + listed != stop:
        raise ValueError("an archive without a plain end")


def _check_archive(path: Path, file: IO[bytes], allowed: re.Pattern[str], hint: str) -> None:
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        # torch never compresses.
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise CheckpointError(f"{path}: a compressed archive, which torch does not write")
        if len({member.filename for member in members}) != len(members):
            raise CheckpointError(f"{path}: an archive that holds a file twice")
        # In total, since members may overlap.
        if sum(member.file_size for member in members) > file.seek(0, os.SEEK_END):
            raise CheckpointError(f"{path}: an archive smaller than its files")
        for member in members:
            if member.filename.lower().endswith(".pkl"):
                if member.file_size > MAX_PICKLE:
                    raise CheckpointError(
                        f"{path}: {member.filename} has {member.file_size:,} bytes; at most "
                        f"{MAX_PICKLE:,} are allowed"
                    )
                with archive.open(member) as stream:
                    _check_pickle(path, stream, allowed, hint)


def _check_pickle(path: Path, file: IO[bytes], allowed: re.Pattern[str], hint: str) -> None:
    sizes = _Sizes()
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
        sizes.step(operation, argument)


class _Sizes:
    """Simulates a pickle's stack, with (values, depth) in place of each value."""

    def __init__(self) -> None:
        self._stack: list[list[int]] = []
        self._marks: list[int] = []
        self._memo: dict[object, list[int]] = {}

    def step(self, operation: pickletools.OpcodeInfo, argument: object) -> None:
        """Apply one opcode. Raises `ValueError` for a value beyond the limits."""
        stack, name = self._stack, operation.name
        if name == "MARK":
            self._marks.append(len(stack))
        elif name.endswith("PUT") or name == "MEMOIZE":
            self._memo[len(self._memo) if name == "MEMOIZE" else argument] = stack[-1]
        elif name.endswith("GET"):
            stack.append(self._memo[argument])
        else:
            before = operation.stack_before
            if pickletools.markobject in before:
                first = self._marks.pop() - before.index(pickletools.markobject)
            else:
                first = len(stack) - len(before)
            taken, stack[first:] = stack[first:], []
            value = taken[0] if name in _IN_PLACE else [1, 1]
            inner = taken[1:] if name in _IN_PLACE else taken
            value[0] += sum(size for size, _ in inner)
            value[1] = max([value[1], *(depth + 1 for _, depth in inner)])
            if value[0] > MAX_VALUES or value[1] > MAX_DEPTH:
                raise ValueError("a value that is too large or nested too deeply")
            stack.extend([value] * len(operation.stack_after))
