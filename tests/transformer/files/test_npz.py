import contextlib
import io
import os
import pickle
import shutil
import struct
import subprocess
import tempfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transformer.conftest import Command
from tests.transformer.damage import Evil, become, torch_file
from transformer.checkpoint import snapshots, weights
from transformer.checkpoint.folder import load_checkpoint
from transformer.config import parse_json
from transformer.files import folders, npz, safe
from transformer.files.folders import FETCHED, STAGE, clear_away, own_prefix, remove_stages
from transformer.files.npz import describe_npz, read_npz
from transformer.models.arrays.trace_file import load_arrays
from transformer.models.catalogue import inspect_entry, list_entries
from transformer.types import CheckpointError


def member(array: Any = None, *, header: bytes | None = None, body: bytes = b"") -> bytes:
    """Return an .npy file, optionally with an invalid header."""
    if header is None:
        held = io.BytesIO()
        np.save(held, array)
        return held.getvalue()
    text = header + b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def header(descr: str, shape: str) -> bytes:
    return f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()


def archive(path: Path, *files: tuple[str, bytes], packing: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", packing) as made:
        for name, data in files:
            made.writestr(name, data)
    return path


def refused(path: Path, *wanted: str) -> str:
    with pytest.raises(CheckpointError) as raised:
        read_npz(path, wanted or ("a",))
    text = str(raised.value)
    assert text.startswith(f"{path}: ") and "\n" not in text
    return text


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_numpy_writes_is_read(tmp_path: Path, save: Callable[..., None]) -> None:
    path = tmp_path / "x.npz"
    turned = np.asfortranarray(np.arange(6, dtype=">f4").reshape(2, 3))
    good = {"a": np.arange(6.0).reshape(2, 3), "b": np.array(["▁x", ""]), "c": np.array(3),
            "columns": turned, "other order": np.array(["é"], dtype=">U1")}  # fmt: skip
    save(path, **good, extra=np.zeros(5))
    found = read_npz(path, good)
    assert found.keys() == good.keys()
    for name, array in good.items():
        np.testing.assert_array_equal(found[name], array)
    assert describe_npz(path, ["a"]) == {"a": ((2, 3), np.dtype("f8"))}


def test_a_pickle_is_refused_and_never_run(tmp_path: Path) -> None:
    trace = tmp_path / "was-here"
    np.savez(tmp_path / "x.npz", a=np.array([Evil(trace)], dtype=object))
    assert "holds Python objects, which could run code" in refused(tmp_path / "x.npz")
    body = pickle.dumps(Evil(trace))
    archive(tmp_path / "y.npz", ("a.npy", member(header=header("|O", "(1,)"), body=body)))
    assert "holds Python objects" in refused(tmp_path / "y.npz")
    (tmp_path / "z.npz").write_bytes(body)
    assert "not a whole .npz file" in refused(tmp_path / "z.npz")
    assert not trace.exists()


ONES = ("a.npy", member(np.ones(2)))

#: Members of an archive, and why it is refused.
ARCHIVES: dict[str, tuple[list[tuple[str, bytes]], str]] = {
    **{
        name: ([(name, ONES[1]), ONES], "is a path; array names have no folders")
        for name in ("../a.npy", "/a.npy", "b/a.npy", "..\\a.npy", ".a.npy")
    },
    "twice": ([ONES, ONES], "'a.npy' appears twice"),
    "many": ([(f"x{i}.npy", b"") for i in range(300)], "more than 256 files in the archive"),
    "long names": ([(f"{i}{'n' * 60_000}", b"") for i in range(40)], "a directory of"),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ARCHIVES)
def test_lists_of_files_that_lie_are_refused(tmp_path: Path, name: str) -> None:
    files, why = ARCHIVES[name]
    assert why in refused(archive(tmp_path / "x.npz", *files))


def test_bombs_take_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, cross=np.zeros((2, 16, 512, 512), dtype="f4"))  # 32 MiB
    assert path.stat().st_size < 2**20
    tracemalloc.start()
    try:
        text = refused(path, "cross")
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "to 1; at most 200 to 1 is allowed" in text and "np.savez" in text
    assert most < 4 * 2**20
    monkeypatch.setattr(npz, "MAX_BYTES", 1_000)
    np.savez(path, a=np.zeros(100), b=np.zeros(100), big=np.zeros(500))
    assert read_npz(path, ["a"])["a"].size == 100
    for wanted in (("a", "b"), ("big",)):
        assert "at most 1,000" in refused(path, *wanted)


@pytest.mark.parametrize(("head", "why"), [
    (header("<f8", "(1000000000000,)"), "takes 8,000,"),
    (header("<f8", "(2,)"), "takes 16 bytes, but"),
    (header("<f8", "(-1,)"), "has the shape [-1]"),
    (header("<f8", "(" + "1," * 41 + ")"), "has the shape"),
    (header("<U0", "(1000000000000,)"), "the shape"),
    (header("<c16", "(1,)"), "complex128; expected"),
    (header("<f8", "(1,)").replace(b"'<f8'", b"[('x', '<f8')]"), "numbers and text"),
    (header("<f8", "(1,)").replace(b"}", b"'x': 1}"), "is damaged"),
    (b"[1,2", "is damaged"),
    (b"(" * 5_000, "is damaged"),
    (b"1" * 20_000, "is damaged"),
    (b"__import__('os').mkdir('/tmp/x')", "is damaged"),
])  # fmt: skip
def test_headers_that_lie_are_refused(tmp_path: Path, head: bytes, why: str) -> None:
    path = archive(tmp_path / "x.npz", ("a.npy", member(header=head, body=b"\0" * 8)))
    assert why in refused(path)
    with pytest.raises(CheckpointError):
        describe_npz(path, ["a"])


def test_other_archives_and_no_archives_are_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.npz", ("a.npy", member(np.ones(1_000))))
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02")
    data[at + 24 : at + 28] = struct.pack("<L", 200)  # the size unpacked: less than it holds
    path.write_bytes(data)
    assert "array 'a' is damaged" in refused(path)
    archive(path, ONES, packing=zipfile.ZIP_LZMA)
    assert "compressed as NumPy never does" in refused(path)
    (tmp_path / "empty.npz").write_bytes(b"")
    np.save(tmp_path / "one.npy", np.ones(3))
    for name, why in (
        ("none.npz", "no such file"), (".", "a folder, not a file"),
        ("empty.npz", "is empty"), ("one.npy", "not a format that Headlight reads"),
    ):  # fmt: skip
        assert why in refused(tmp_path / name)


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
        assert load_arrays(path).encoder_self.sum() == pytest.approx(24, abs=0.2)


WEIGHTS, CONFIG, TOKENIZER = "model.safetensors", "config.json", "tokenizer.model"


@pytest.mark.parametrize(
    "path", ["nowhere", "a\0b", "x" * 5_000, "x/" * 3_000, "\ud800", "/dev/null", "/proc/self/mem"]
)
def test_paths_that_are_no_folders(path: str, command: Command) -> None:
    with pytest.raises(CheckpointError, match="no such checkpoint folder") as caught:
        load_checkpoint(path)
    assert str(caught.value).isprintable()
    assert not inspect_entry(path).ok
    assert list_entries([Path(path)]) == []
    assert command("translate", "--checkpoint", path, "a dog").refused


def test_files_that_may_not_be_read(tiny_checkpoint: Path) -> None:
    """This runs as another user, since root can read every file."""
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        root.chmod(0o755)
        for name in (CONFIG, WEIGHTS, TOKENIZER, "all", "pt"):
            folder = Path(shutil.copytree(tiny_checkpoint, root / name))
            if name == "pt":
                torch_file(lambda state: state, "model.pt")(folder)
                (folder / "model.pt").chmod(0)
            else:
                (folder if name == "all" else folder / name).chmod(0)
        me = os.geteuid()
        if me == 0:
            os.seteuid(65_534)
        try:
            listed = list_entries([root])
        finally:
            os.seteuid(me)
        for each in root.iterdir():
            each.chmod(0o755)
    assert len(listed) == 5
    assert all("Permission denied" in str(entry.error) for entry in listed)


def test_json_says_everything_once_and_a_reason_is_one_line_of_bounded_length() -> None:
    assert parse_json('{"a": {"b": 1}, "b": [1, {"b": 2}]}') == {"a": {"b": 1}, "b": [1, {"b": 2}]}
    for text, why in (
        ('{"a": {"b": 1, "b": 1}}', "the key 'b' occurs twice"),
        ("[" * 100_000, "nested too deeply"),
    ):
        with pytest.raises(ValueError, match=why):
            parse_json(text)
    reason = str(CheckpointError("file\n\x1b[31m" + "x" * 10_000 + "\u202eend"))
    assert reason.isprintable() and len(reason) <= 620
    assert reason.startswith("file") and reason.endswith("end")


def test_a_file_becomes_a_pipe_or_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config.json"
    path.write_text("{}")
    real = safe.check_file

    def check(given: Path) -> int:
        size = real(given)
        become(path.name, os.mkfifo)(tmp_path)
        return size

    monkeypatch.setattr(safe, "check_file", check)
    with pytest.raises(CheckpointError, match="no longer a file"):
        safe.read_small(path)
    monkeypatch.setattr(safe, "check_file", lambda given: 2)
    path.unlink()
    path.write_bytes(b"x" * 101)
    with pytest.raises(CheckpointError, match="at most 100 are allowed"):
        safe.read_small(path, 100)


@pytest.fixture(scope="module")
def dead() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def left_by(pid: int, prefix: str) -> str:
    return own_prefix(prefix).replace(f"-{os.getpid()}.", f"-{pid}.")


def test_only_dead_stages_go(tmp_path: Path, dead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = f"{STAGE}elsewhere-{dead}.ab"
    names = [f"{left_by(pid, STAGE)}ab" for pid in (dead, os.getppid(), os.getpid())]
    for name in (*names, theirs):
        (tmp_path / name / "model").mkdir(parents=True)
    os.utime(tmp_path / theirs, (0, 0))  # which another machine may be writing all the same
    monkeypatch.setattr(folders.time, "time", lambda: 3600.0)
    assert remove_stages(tmp_path, STAGE) == [names[0]]
    assert remove_stages(tmp_path, STAGE, own=True) == [names[2]]
    monkeypatch.setattr(folders.time, "time", lambda: 8 * 24 * 3600.0)
    assert remove_stages(tmp_path, STAGE) == [theirs]
    assert [each.name for each in tmp_path.iterdir()] == [names[1]]


def test_a_server_puts_its_folders_in_order(tmp_path: Path, dead: int) -> None:
    root = tmp_path / "checkpoints"
    for name in (
        f"{left_by(dead, '.moved.')}ab.old", f"{left_by(dead, '.begun.')}cd.new", "begun",
        f"{left_by(os.getppid(), '.busy.')}ef.new", f"{left_by(dead, STAGE)}gh",
        f"{left_by(dead, STAGE)}ij", f"{left_by(dead, FETCHED)}kl",
    ):  # fmt: skip
        (root / name).mkdir(parents=True)
    assert clear_away([root, tmp_path / "none"]) == [
        "checkpoints/begun: removed temporary files of a killed process",
        "checkpoints/moved: restored, its replacement was interrupted",
        "checkpoints/: removed temporary files of an import that was killed (2 times)",
        "checkpoints/: removed temporary files of a download that was killed",
    ]
    assert [each.name for each in root.iterdir() if each.name.startswith(".")] == [
        f"{left_by(os.getppid(), '.busy.')}ef.new"
    ]
    assert (root / "moved").is_dir() and clear_away([root]) == []


def test_a_replacement_takes_away_what_dead_processes_left(tmp_path: Path, dead: int) -> None:
    left = f"{left_by(dead, '.it.')}ab.new"
    names = [
        f"{left_by(os.getpid(), '.it.')}ab.new", f".it.elsewhere-{dead}.ab.new", ".it.notes.new"
    ]  # fmt: skip
    for name in (left, f"it/{left}", *names):
        (tmp_path / name).mkdir(parents=True)
    with folders.replaced_folder(tmp_path / "it") as new:
        (new / "x").write_text("")
    assert {each.name for each in tmp_path.iterdir()} == {"it", *names}
    assert [each.name for each in (tmp_path / "it").iterdir()] == ["x"]


N_MANY = 40


def test_a_second_listing_of_many_reads_nothing(
    tiny_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = tmp_path
    for index in range(N_MANY):
        shutil.copytree(tiny_checkpoint, many / f"c{index:03}")
    reads: list[str] = []
    for module, name in (
        (safe, "read_small"), (snapshots, "check_weights"), (weights, "describe_weights"),
    ):  # fmt: skip
        real = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *given, real=real: (reads.append(str(given[0])), real(*given))[1]
        )
    list_entries([many])
    assert len(reads) >= 3 * N_MANY
    reads.clear()
    found = list_entries([many])
    assert len(found) == N_MANY and all(each.ok for each in found)
    assert list_entries([many]) and not reads
    # Only the one that changed is read again.
    (many / "c023" / "config.json").write_text("{")
    (broken,) = [each for each in list_entries([many]) if not each.ok]
    assert broken.name == "c023"
    assert reads and all("c023" in each for each in reads)
