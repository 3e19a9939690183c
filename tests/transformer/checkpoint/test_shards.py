"""Marian weights in several files."""

from __future__ import annotations

import fnmatch
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch

from tests.transformer.faults import INDEX, PARTS
from tests.transformer.importers.models import make_folder
from transformer.checkpoint.folder import load_checkpoint
from transformer.importers.registry import FORMATS

pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("marian") / "theirs"
    make_folder(folder, "separate vocabularies")
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


def test_they_are_fetched_too() -> None:
    assert all(
        any(fnmatch.fnmatchcase(name, pattern) for pattern in FORMATS["marian"].files)
        for name in (INDEX, *PARTS)
    )
