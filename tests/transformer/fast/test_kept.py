"""What a machine remembers of its races, in files that anything may have happened to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from transformer.fast.kept import Kept

WAYS = ["columns", "packed", "packed"]


def test_what_was_kept_first_is_read_by_all(tmp_path: Path) -> None:
    one, other = Kept(tmp_path / "a" / "b", {"cpu": "x"}), Kept(tmp_path / "a" / "b", {"cpu": "x"})
    assert one.read({"n": 1}) is None
    assert list(one.write({"n": 1}, WAYS)) == WAYS
    assert list(other.write({"n": 1}, ["rows"] * 3)) == WAYS == other.read({"n": 1})
    assert other.read({"n": 2}) is None
    assert Kept(tmp_path / "a" / "b", {"cpu": "y"}).read({"n": 1}) is None
    assert [path.suffix for path in one.folder.iterdir()] == [".json"]


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"[" * 9_000, b"{}", b"[1]", b'{"key": {"n": 1}, "names": ["a", 2, "c"]}'],
)
def test_a_damaged_file_is_replaced(tmp_path: Path, content: bytes) -> None:
    kept = Kept(tmp_path, {})
    kept.write({"n": 1}, WAYS)
    (path,) = tmp_path.iterdir()
    path.write_bytes(content)
    assert kept.read({"n": 1}) is None
    assert list(kept.write({"n": 1}, ["rows"] * 3)) == ["rows"] * 3 == kept.read({"n": 1})


def test_another_shapes_file_under_this_ones_name_is_not_believed(tmp_path: Path) -> None:
    kept = Kept(tmp_path, {})
    kept.write({"n": 1}, WAYS)
    (path,) = tmp_path.iterdir()
    path.write_text(json.dumps({"key": {"n": 2}, "names": WAYS}))
    assert kept.read({"n": 1}) is None


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = Kept(tmp_path / "file" / "folder", {})
    assert list(kept.write({"n": 1}, WAYS)) == WAYS
    assert kept.read({"n": 1}) is None


def test_this_machine_has_a_place_unless_there_is_no_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept = Kept.of_this_machine()
    assert kept is not None and kept.folder == tmp_path / "headlight" / "products"
    monkeypatch.delenv("XDG_CACHE_HOME")

    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", homeless)
    assert Kept.of_this_machine() is None
