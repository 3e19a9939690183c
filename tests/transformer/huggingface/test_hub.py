"""Models of the `transformers` library by their name on the hub: a hub on this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.transformer.huggingface.models import Pair
from tests.transformer.importers.hub_site import NAME, Hub, serving
from transformer.errors import CheckpointError
from transformer.huggingface.model import HuggingFaceModel

pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers


@pytest.fixture
def site(made: dict[str, Pair], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    (tmp_path / "room").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "room"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "home" / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("no_proxy", "*")
    contents = {each.name: each.read_bytes() for each in made["bart"].folder.iterdir()}
    contents |= {"modeling_evil.py": b"raise SystemExit", "pytorch_model.bin": b"old"}
    with serving(Hub(contents)) as site:
        monkeypatch.setenv("HF_ENDPOINT", site.home)
        site.publish()
        yield site


def test_fetched_loaded_and_gone(site: Hub, made: dict[str, Pair], tmp_path: Path) -> None:
    model = HuggingFaceModel.from_hub(NAME, "cpu", max_tokens=40)
    assert (model.name, model.path, model.max_tokens) == (NAME, None, 40)
    assert list((tmp_path / "room").iterdir()) == []
    fetched = {path.rpartition("/")[2] for path in site.asked if "resolve" in path}
    assert "model.safetensors" in fetched
    assert not fetched & {"modeling_evil.py", "pytorch_model.bin"}
    before = made["bart"].ours.trace("A dog.", "Ein Hund.")
    after = model.trace("A dog.", "Ein Hund.")
    for kind in model.kinds:
        assert np.array_equal(before.attention(kind), after.attention(kind))


def test_a_download_cut_short_is_one_line_and_nothing_is_kept(site: Hub, tmp_path: Path) -> None:
    site.files[site.path_of("model.safetensors")] = site.contents["model.safetensors"][:99]
    with pytest.raises(CheckpointError, match=r"model\.safetensors: ") as caught:
        HuggingFaceModel.from_hub(NAME, "cpu")
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "room").iterdir()) == []
