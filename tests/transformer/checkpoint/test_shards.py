"""Marian weights in several files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from tests.transformer.importers.models import make_folder
from transformer.checkpoint.folder import load_checkpoint
from transformer.errors import CheckpointError
from transformer.files import hub
from transformer.importers.registry import FORMATS

pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers

INDEX = "model.safetensors.index.json"
PARTS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("marian") / "theirs"
    make_folder(folder, "separate vocabularies")
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """The same model with its weights in two files."""
    folder = Path(shutil.copytree(whole, tmp_path / "theirs"))
    split(folder, safetensors.torch.save_file)
    return folder


def split(folder: Path, save: Callable[..., object], ending: str = "safetensors") -> None:
    state = safetensors.torch.load_file(folder / "model.safetensors")
    stem = "model" if ending == "safetensors" else "pytorch_model"
    names = sorted(state)
    files = [f"{stem}-0000{part}-of-00002.{ending}" for part in (1, 2)]
    placed = {name: files[at % 2] for at, name in enumerate(names)}
    for file in files:
        save({name: state[name] for name in names if placed[name] == file}, folder / file)
    index = {"metadata": {"total_size": 1}, "weight_map": placed}
    (folder / f"{stem}.{ending}.index.json").write_text(json.dumps(index))
    (folder / "model.safetensors").unlink()


@pytest.mark.parametrize("ending", ["safetensors", "bin"])
def test_several_files_hold_what_one_does(whole: Path, tmp_path: Path, ending: str) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "theirs"))
    split(folder, safetensors.torch.save_file if ending == "safetensors" else torch.save, ending)
    one = load_checkpoint(FORMATS["marian"].convert(whole, tmp_path / "one")).model.state_dict()
    several = load_checkpoint(
        FORMATS["marian"].convert(folder, tmp_path / "several")
    ).model.state_dict()
    assert one.keys() == several.keys()
    assert all(torch.equal(one[name], several[name]) for name in one)


def place(**changes: Any) -> Callable[[Path], object]:
    """Map the first tensor, or another, to another file."""

    def change(folder: Path) -> None:
        index = json.loads((folder / INDEX).read_text())
        if "at" in changes:
            index["weight_map"][min(index["weight_map"])] = changes["at"]
        index |= changes.get("index", {})
        (folder / INDEX).write_text(json.dumps(index))

    return change


def poison(folder: Path) -> None:
    state = safetensors.torch.load_file(folder / PARTS[1])
    state[min(state)].view(-1)[0] = float("nan")
    safetensors.torch.save_file(state, folder / PARTS[1])


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a way out": (place(at="../../secret.safetensors"), r"index\.json: '\.\./\.\./secret"),
    "an absolute path": (place(at="/etc/passwd.safetensors"), "is not the name of a"),
    "a backslash": (place(at="..\\x.safetensors"), "is not the name of a"),
    "a hidden file": (place(at=".x.safetensors"), "is not the name of a"),
    "another kind": (place(at="pytorch_model.bin"), "is not the name of a .safetensors file"),
    "a number": (place(at=3), "3 is not the name of a"),
    "a line break": (place(at="a\nb.safetensors"), "is not the name of a"),
    "no map": (place(index={"weight_map": None}), "does not say which tensor lies where"),
    "an empty map": (place(index={"weight_map": {}}), "does not say which tensor lies where"),
    "too many": (place(index={"weight_map": {str(i): f"{i}.safetensors" for i in range(101)}}),
                 "101 files; at most 100"),
    "the other file": (place(at=PARTS[1]), r"00001-of-00002\.safetensors: holds '.*does not say"),
    "a file less": (lambda f: (f / PARTS[1]).unlink(), r"00002\.safetensors: the file is missing"),
    "half copied": (lambda f: (f / PARTS[1]).write_bytes((f / PARTS[1]).read_bytes()[:-9]),
                    r"00002\.safetensors: not a whole"),
    "NaN": (poison, r"model-00002-of-00002\.safetensors: tensor .* holds NaN"),
    "not JSON": (lambda f: (f / INDEX).write_text("{"), r"index\.json: not valid JSON"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_wrong_is_said_in_one_line(name: str, folder: Path, tmp_path: Path) -> None:
    damage, reason = DAMAGES[name]
    damage(folder)
    with pytest.raises(CheckpointError, match=reason) as caught:
        FORMATS["marian"].convert(folder, tmp_path / "ours")
    assert "\n" not in str(caught.value)
    assert [each.name for each in tmp_path.iterdir()] == ["theirs"]


def test_they_are_fetched_too(folder: Path) -> None:
    import fnmatch

    assert all(
        any(fnmatch.fnmatchcase(name, pattern) for pattern in FORMATS["marian"].files)
        for name in (INDEX, *PARTS)
    )
    assert hub.MAX_FILES >= 10
