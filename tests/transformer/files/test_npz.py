"""Archives that lie: about sizes, names, types and their own end."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.arrays.trace_file import load_arrays
from transformer.errors import CheckpointError
from transformer.files import npz
from transformer.files.npz import describe_npz, read_npz

GOOD = {"a": np.arange(6.0).reshape(2, 3), "b": np.array(["▁x", ""]), "c": np.array(3)}


def member(array: Any = None, *, header: bytes | None = None, body: bytes = b"") -> bytes:
    """An .npy file, or one with a header of any content."""
    if header is None:
        held = io.BytesIO()
        np.save(held, array)
        return held.getvalue()
    text = header + b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def archive(path: Path, **files: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as made:
        for name, data in files.items():
            made.writestr(name.replace("__", "."), data)
    return path


def refused(path: Path, *wanted: str) -> str:
    with pytest.raises(CheckpointError) as raised:
        read_npz(path, wanted or ("a",))
    text = str(raised.value)
    assert text.startswith(f"{path}: ") and "\n" not in text
    return text


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_numpy_writes_is_read(tmp_path: Path, save: Callable[..., None]) -> None:
    save(tmp_path / "x.npz", **GOOD, extra=np.zeros(5))
    found = read_npz(tmp_path / "x.npz", GOOD)
    assert found.keys() == GOOD.keys()
    for name, array in GOOD.items():
        np.testing.assert_array_equal(found[name], array)
    assert describe_npz(tmp_path / "x.npz", ["a"]) == {"a": ((2, 3), np.dtype("f8"))}


def test_columns_first_and_other_byte_orders_are_read(tmp_path: Path) -> None:
    array = np.asfortranarray(np.arange(6, dtype=">f4").reshape(2, 3))
    np.savez(tmp_path / "x.npz", a=array, b=np.array(["é"], dtype=">U1"))
    found = read_npz(tmp_path / "x.npz", ["a", "b"])
    np.testing.assert_array_equal(found["a"], array)
    assert found["b"].tolist() == ["é"]


class Leaves:
    """Leaves a file behind when unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.path),))


def test_a_pickle_is_refused_and_never_run(tmp_path: Path) -> None:
    trace = tmp_path / "was-here"
    held = np.empty(1, dtype=object)
    held[0] = Leaves(trace)
    np.savez(tmp_path / "x.npz", a=held)
    assert "holds Python objects, which could run code" in refused(tmp_path / "x.npz")
    body = pickle.dumps(Leaves(trace))
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    archive(tmp_path / "y.npz", a__npy=member(header=header, body=body))
    assert "holds Python objects" in refused(tmp_path / "y.npz")
    (tmp_path / "z.npz").write_bytes(body)
    assert "not a whole .npz file" in refused(tmp_path / "z.npz")
    assert not trace.exists()


@pytest.mark.parametrize("name", ["../a.npy", "/a.npy", "b/a.npy", "..\\a.npy", ".a.npy"])
def test_names_that_are_paths_are_refused(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as made:
        made.writestr(name, member(np.ones(2)))
        made.writestr("a.npy", member(np.ones(2)))
    assert "is a path; names of arrays have no folders" in refused(tmp_path / "x.npz")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as made:
        made.writestr("a.npy", member(np.ones(2)))
        made.writestr("a.npy", member(np.ones(2)))
    assert "'a.npy' is there twice" in refused(tmp_path / "x.npz")


def test_bombs_are_refused_before_memory_is_taken(tmp_path: Path) -> None:
    zeros = np.zeros((2, 16, 512, 512), dtype="f4")  # 32 MiB
    np.savez_compressed(tmp_path / "x.npz", cross=zeros)
    del zeros
    assert (tmp_path / "x.npz").stat().st_size < 2**20
    tracemalloc.start()
    try:
        text = refused(tmp_path / "x.npz", "cross")
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "to 1; at most 200 to 1 is allowed" in text and "np.savez" in text
    assert most < 4 * 2**20


def test_more_bytes_than_allowed_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(npz, "MAX_BYTES", 1_000)
    np.savez(tmp_path / "x.npz", a=np.zeros(100), b=np.zeros(100), big=np.zeros(500))
    assert read_npz(tmp_path / "x.npz", ["a"])["a"].size == 100
    assert "1,000 are allowed" in refused(tmp_path / "x.npz", "a", "b")
    assert "1,000 are allowed" in refused(tmp_path / "x.npz", "big")


def test_a_long_list_of_files_is_refused(tmp_path: Path) -> None:
    archive(tmp_path / "x.npz", **{f"x{i}__npy": b"" for i in range(300)})
    assert "more than 256 files in the archive" in refused(tmp_path / "x.npz")
    with zipfile.ZipFile(tmp_path / "y.npz", "w") as made:
        for i in range(40):
            made.writestr(f"{i}{'n' * 60_000}", b"")
    assert "a list of files of" in refused(tmp_path / "y.npz")


@pytest.mark.parametrize(
    ("header", "why"),
    [
        (b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }", "takes 8,000,"),
        (b"{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", "takes 16 bytes, but"),
        (b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }", "has the shape [-1]"),
        (b"{'descr': '<f8', 'fortran_order': False, 'shape': " + b"(1," + b"1," * 40 + b"), }",
         "has the shape"),
        (b"{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000,), }", "the shape"),
        (b"{'descr': '<c16', 'fortran_order': False, 'shape': (1,), }", "complex128; numbers and"),
        (b"{'descr': '|V8', 'fortran_order': False, 'shape': (1,), }", "numbers and text"),
        (b"{'descr': [('x', '<f8')], 'fortran_order': False, 'shape': (1,), }", "numbers and text"),
        (b"{'descr': '<f8', 'fortran_order': False, 'shape': (1,), 'x': 1}", "is damaged"),
        (b"[1,2", "is damaged"),
        (b"(" * 5_000, "is damaged"),
        (b"1" * 20_000, "is damaged"),
        (b"__import__('os').mkdir('/tmp/x')", "is damaged"),
    ],
)  # fmt: skip
def test_headers_that_lie_are_refused(tmp_path: Path, header: bytes, why: str) -> None:
    path = archive(tmp_path / "x.npz", a__npy=member(header=header, body=b"\0" * 8))
    assert why in refused(path)
    with pytest.raises(CheckpointError):
        describe_npz(path, ["a"])


def test_an_archive_that_says_less_than_it_holds_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.npz", a__npy=member(np.ones(1_000)))
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02")
    data[at + 24 : at + 28] = struct.pack("<L", 200)  # the size unpacked
    path.write_bytes(data)
    assert "array 'a' is damaged" in refused(path)


def test_encrypted_and_odd_packings_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_LZMA) as made:
        made.writestr("a.npy", member(np.ones(2)))
    assert "packed in a way NumPy does not write" in refused(tmp_path / "x.npz")


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    assert "no such file" in refused(tmp_path / "none.npz")
    assert "no such file" in refused(tmp_path)
    (tmp_path / "empty.npz").write_bytes(b"")
    assert "not a whole .npz file" in refused(tmp_path / "empty.npz")
    np.save(tmp_path / "one.npy", np.ones(3))
    assert "not a whole .npz file" in refused(tmp_path / "one.npy")


@given(cut=st.integers(0, 1_200), data=st.data())
def test_a_file_cut_or_changed_anywhere_is_read_whole_or_refused(
    tmp_path_factory: pytest.TempPathFactory, cut: int, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("npz") / "x.npz"
    maps = np.full((2, 3, 4, 4), 0.25, dtype="f4")
    np.savez_compressed(path, encoder_self=maps, tokens=np.array(list("abcd")))
    whole = path.read_bytes()
    if cut < len(whole):
        path.write_bytes(whole[:cut])
        with pytest.raises(CheckpointError):
            load_arrays(path)
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = bytearray(whole)
    changed[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(bytes(changed))
    with contextlib.suppress(CheckpointError):
        trace = load_arrays(path)
        assert trace.encoder_self.sum() == pytest.approx(24, abs=0.2)
