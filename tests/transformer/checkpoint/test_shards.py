"""Marian weights in several files."""

import fnmatch
from pathlib import Path

import pytest
import torch

from tests.transformer.damage import split
from tests.transformer.faults import INDEX, PARTS
from tests.transformer.huggingface.models import make_folder
from transformer.checkpoint.folder import load_checkpoint
from transformer.importers.registry import FORMATS

pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers


@pytest.mark.parametrize("ending", ["safetensors", "bin"])
def test_several_files_hold_what_one_does(tmp_path: Path, ending: str) -> None:
    make_folder(tmp_path / "theirs", "separate vocabularies")
    states = []
    for name in ("one", "several"):
        path = FORMATS["marian"].convert(tmp_path / "theirs", tmp_path / name)
        states.append(load_checkpoint(path).model.state_dict())
        if name == "one":
            split(ending)(tmp_path / "theirs")
    one, several = states
    assert one.keys() == several.keys()
    assert all(torch.equal(one[name], several[name]) for name in one)


def test_they_are_fetched_too() -> None:
    patterns = FORMATS["marian"].files
    for name in (INDEX, *PARTS):
        assert any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
