"""Paths, permissions, JSON and small files: the result is a value or one line."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.transformer.conftest import Command
from tests.transformer.damage import become, torch_file
from transformer.catalogue import inspect_entry, list_entries
from transformer.checkpoint.folder import load_checkpoint
from transformer.errors import CheckpointError
from transformer.files import safe
from transformer.files.safe import parse_json

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
    """As a user without rights, since root may read everything."""
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
        ('{"a": {"b": 1, "b": 1}}', "the key 'b' stands there twice"),
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
    with pytest.raises(CheckpointError, match="not a file any more"):
        safe.read_small(path)
    monkeypatch.setattr(safe, "check_file", lambda given: 2)
    path.unlink()
    path.write_bytes(b"x" * 101)
    with pytest.raises(CheckpointError, match="at most 100 are allowed"):
        safe.read_small(path, 100)
