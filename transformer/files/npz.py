"""Writes .npz files and reads untrusted ones.

An .npz is a zip archive of arrays, and both formats can lie about sizes, types and names. The
archive's directory is checked first, then each array's header; memory is allocated only if they
agree and respect the limits. Nothing is unpickled or written to disk.
"""

import io
import math
import os
import struct
import warnings
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from transformer.files.safe import one_line
from transformer.files.unread import unread
from transformer.types import CheckpointError

#: Maximum total size of the arrays read, in bytes.
MAX_BYTES = 2**30
#: Maximum compression ratio of arrays above `RATIO_FROM` bytes. Real attention maps stay below 10,
#: zeros reach 1,030.
MAX_RATIO, RATIO_FROM = 200, 16 * 2**20
#: Maximum number of files in an archive, and size of its directory in bytes.
MAX_MEMBERS, _MAX_LIST = 256, 2**20

_END, _END_SIZE, _MAX_COMMENT = b"PK\x05\x06", 22, 2**16
_LOCATOR, _LOCATOR_SIZE = b"PK\x06\x07", 20
_MAX_DIMENSIONS, _MAX_HEADER, _MAX_EMPTY = 8, 10_000, 10_000
_STORED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

Arrays = dict[str, NDArray[Any]]
#: Shape and type of an array.
Header = tuple[tuple[int, ...], np.dtype[Any]]


def packed(arrays: Mapping[str, Any]) -> bytes:
    """Return arrays as a compressed .npz file."""
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **arrays)
    return file.getvalue()


def read_npz(path: Path, names: Collection[str]) -> Arrays:
    """Return the archive's arrays with these names; missing arrays are left out.

    Raises: `CheckpointError`, one line naming the file and array, for a damaged archive, names that
        are paths, object arrays, and sizes above `MAX_BYTES` or compression above `MAX_RATIO`.
    """
    with _opened(path) as archive:
        members = _members(path, archive, names)
        return {name: _read(path, archive, name, member) for name, member in members.items()}


def describe_npz(path: Path, names: Collection[str]) -> dict[str, Header]:
    """Return the arrays' shapes and types from their headers. Raises like `read_npz`."""
    with _opened(path) as archive:
        headers = {}
        for name, member in _members(path, archive, names).items():
            with _damage_named(path, name), archive.open(member) as stream:
                headers[name] = _header(path, name, stream, member.file_size)[:2]
        return headers


def _opened(path: Path) -> zipfile.ZipFile:
    try:
        if not path.is_file():
            kind = "a folder, not a file" if path.is_dir() else "no such file"
            raise CheckpointError(f"{path}: {kind}")
        with open(path, "rb") as file:
            other = path.suffix != ".npz" or file.read(2) != b"PK"
        if other and (reason := unread(path)):
            raise CheckpointError(f"{path}: {reason}")
        _check_end(path)
        return zipfile.ZipFile(path)
    except CheckpointError:
        raise
    except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error) as error:
        raise CheckpointError(f"{path}: not a whole .npz file ({one_line(error)})") from None
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror or error}") from None


def _check_end(path: Path) -> None:
    """Check the size of the archive's directory before `zipfile` reads all of it."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _END_SIZE - _MAX_COMMENT - _LOCATOR_SIZE))
        tail = file.read()
    at = tail.rfind(_END)
    if at < 0 or len(tail) < at + _END_SIZE:
        raise CheckpointError(f"{path}: not a whole .npz file (an archive's end is missing)")
    count, listed = struct.unpack("<HL", tail[at + 10 : at + 16])
    if _LOCATOR in tail[max(0, at - _LOCATOR_SIZE) : at]:
        raise CheckpointError(f"{path}: an archive with 64-bit sizes, which NumPy does not write")
    if count > MAX_MEMBERS:
        raise CheckpointError(f"{path}: more than {MAX_MEMBERS} files in the archive")
    if listed > _MAX_LIST:
        raise CheckpointError(f"{path}: a directory of {listed:,} bytes; at most {_MAX_LIST:,}")


def _members(
    path: Path, archive: zipfile.ZipFile, names: Collection[str]
) -> dict[str, zipfile.ZipInfo]:
    """Return the members to read after checking every name and the total size."""
    members: dict[str, zipfile.ZipInfo] = {}
    seen, total = set[str](), 0
    for member in archive.infolist():
        name = member.filename
        if name != os.path.basename(name) or "\\" in name or name.startswith("."):
            raise CheckpointError(f"{path}: {_quoted(name)} is a path; array names have no folders")
        if name in seen:
            raise CheckpointError(f"{path}: {_quoted(name)} appears twice")
        seen.add(name)
        array = name.removesuffix(".npy")
        if array == name or array not in names:
            continue
        if member.flag_bits & 1 or member.compress_type not in _STORED:
            raise CheckpointError(
                f"{path}: array {array!r} is encrypted or compressed as NumPy never does"
            )
        total += member.file_size
        if total > MAX_BYTES:
            raise CheckpointError(
                f"{path}: arrays of {total:,} bytes up to {array!r}; at most {MAX_BYTES:,}"
            )
        packed = max(1, member.compress_size)
        if member.file_size > max(RATIO_FROM, MAX_RATIO * packed):
            raise CheckpointError(
                f"{path}: array {array!r} is packed {member.file_size // packed:,} to 1; at most "
                f"{MAX_RATIO} to 1 is allowed above {RATIO_FROM:,} bytes (save it with np.savez)"
            )
        members[array] = member
    return members


def _read(path: Path, archive: zipfile.ZipFile, name: str, member: zipfile.ZipInfo) -> NDArray[Any]:
    with _damage_named(path, name), archive.open(member) as stream:
        shape, dtype, order, n_bytes = _header(path, name, stream, member.file_size)
        # Reading one byte more verifies the archive's checksum.
        data = stream.read(n_bytes + 1)
        if len(data) != n_bytes:
            raise CheckpointError(f"{path}: array {name!r} is cut off")
        if not dtype.itemsize:  # empty strings only
            return np.full(shape, "")
        array: NDArray[Any] = np.frombuffer(data, dtype=dtype).reshape(shape, order=order)
        return array


def _header(
    path: Path, name: str, stream: IO[bytes], size: int
) -> tuple[tuple[int, ...], np.dtype[Any], Any, int]:
    """Return an array's shape, type, order and bytes after checking them against the archive."""
    version = npy.read_magic(stream)
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
    if read is None:
        raise CheckpointError(
            f"{path}: array {name!r} is stored as version {'.'.join(map(str, version))}; "
            "1.0 and 2.0 are allowed"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about headers written by Python 2
        try:
            shape, by_column, dtype = read(stream, max_header_size=_MAX_HEADER)
        except MemoryError:  # Python's parser on deep nesting
            raise ValueError("its header is nested too deeply") from None
    if dtype.hasobject:
        raise CheckpointError(
            f"{path}: array {name!r} {list(shape)} holds Python objects, which could run code; "
            "expected numbers and text (dtype=str instead of dtype=object)"
        )
    if dtype.kind not in "biufU":
        raise CheckpointError(
            f"{path}: array {name!r} {list(shape)} of {dtype}; expected numbers and text (str)"
        )
    count = math.prod([int(n) for n in shape])
    empty_texts = dtype.itemsize == 0 and count > _MAX_EMPTY
    if len(shape) > _MAX_DIMENSIONS or any(n < 0 for n in shape) or empty_texts:
        raise CheckpointError(f"{path}: array {name!r} has the shape {str(list(shape))[:60]}")
    n_bytes = count * dtype.itemsize
    if n_bytes != size - stream.tell():
        raise CheckpointError(
            f"{path}: array {name!r} {list(shape)} of {dtype} takes {n_bytes:,} bytes, "
            f"but the archive holds {size - stream.tell():,}"
        )
    return shape, dtype, "F" if by_column else "C", n_bytes


@contextmanager
def _damage_named(path: Path, name: str) -> Iterator[None]:
    """Turn any error of a damaged archive into one line that names the array."""
    try:
        yield
    except (CheckpointError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - zipfile, zlib and NumPy fail in many ways
        raise CheckpointError(f"{path}: array {name!r} is damaged ({one_line(error)})") from None


def _quoted(name: str) -> str:
    return repr(name if len(name) <= 60 else f"{name[:59]}…")
