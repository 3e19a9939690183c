"""Snapshots of a training: stored small, read like any checkpoint, trusted like none."""

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.snapshots import UPDATES, write_snapshots
from transformer.catalogue import inspect_entry, list_entries, resolve
from transformer.checkpoint.folder import load_checkpoint
from transformer.checkpoint.reference import ModelRef, at, fingerprint, split_name
from transformer.checkpoint.snapshots import FILE, pack, read_history, read_snapshot
from transformer.checkpoint.weights import layout_of
from transformer.errors import CheckpointError
from transformer.translator import Translator


@pytest.fixture
def folder(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    shutil.copytree(tiny_checkpoint, tmp_path / "tiny")
    return tmp_path / "tiny"


def test_each_is_as_near_as_the_grid_and_errors_do_not_add_up(folder: Path) -> None:
    states = write_snapshots(folder)
    config = load_checkpoint(folder).config
    for updates, state in zip(UPDATES, states, strict=True):
        found = read_snapshot(ModelRef(folder, updates), layout_of(config).stored)
        assert found.keys() == state.keys()
        for name, tensor in state.items():
            if tensor.dim() > 1:
                step = float(states[-1][name].pow(2).mean().sqrt()) / 16
                assert float((found[name] - tensor).abs().max()) <= 0.501 * step, name
            else:
                torch.testing.assert_close(found[name], tensor.half().float())


@given(values=st.lists(st.floats(-300, 300, width=32), min_size=2, max_size=6))
def test_a_change_beyond_the_grid_is_made_up_for_later(values: list[float]) -> None:
    # One number jumps while the others keep the grid's step at about 1.
    rest = torch.ones(63)
    states = [{"w": torch.cat([torch.tensor([each]), rest])[None]} for each in [*values, 0.0]]
    arrays = pack(states, 1.0)
    step = float(arrays["steps"][0])
    found = np.cumsum([arrays[f"change_{k}"][0] for k in range(len(states))]) * step
    reached = 0.0
    for value, each in zip([*values, 0.0], found, strict=True):
        wanted = round(value / step) * step
        reached += float(np.clip(wanted - reached, -127 * step, 127 * step))
        assert each == pytest.approx(reached, abs=1e-3 * abs(reached) + 0.51 * step)


def test_a_snapshot_is_a_checkpoint_of_its_own_name(folder: Path) -> None:
    write_snapshots(folder)
    path = folder.with_name("tiny@3")
    loaded, whole = load_checkpoint(path), load_checkpoint(folder)
    assert loaded.name == "tiny@3" and loaded.config == whole.config
    expected = read_snapshot(ModelRef(folder, 3), layout_of(whole.config).stored)
    for name, tensor in expected.items():
        assert torch.equal(loaded.model.state_dict()[name], tensor)
    trace = Translator.load(path, device="cpu").trace("The cat sat on the mat.")
    again = Translator.load(folder, device="cpu").trace("The cat sat on the mat.")
    assert trace.src_ids == again.src_ids
    assert np.abs(trace.encoder_self - again.encoder_self).max() > 1e-3


def test_the_listing_shows_the_checkpoint_with_its_moments(folder: Path) -> None:
    before = fingerprint(folder)
    write_snapshots(folder)  # a change of the file is one of the checkpoint
    assert fingerprint(folder) != before
    assert resolve(folder.with_name("tiny@3")).mark == fingerprint(folder)
    (entry,) = list_entries([folder.parent])
    assert entry.name == "tiny" and entry.updates is None
    assert [each.updates for each in entry.history.snapshots] == list(UPDATES)
    assert [each.val_nll for each in entry.history.snapshots] == [9.0, 5.0, 2.0]
    moment = entry.after(3)
    assert (moment.name, moment.whole, moment.updates) == ("tiny@3", "tiny", 3)
    assert moment.path == folder.with_name("tiny@3") and moment.history == entry.history
    assert inspect_entry(moment.path) == moment
    assert entry.after(None) is entry
    with pytest.raises(CheckpointError, match="tiny: no snapshot after 4 updates"):
        entry.after(4)


def test_what_is_not_there_is_said_with_what_is(folder: Path) -> None:
    with pytest.raises(CheckpointError, match="no snapshot after 3 updates; there are: none"):
        load_checkpoint(folder.with_name("tiny@3"))
    (folder / FILE).write_bytes(b"not an archive")
    assert inspect_entry(folder).history.snapshots == ()
    with pytest.raises(CheckpointError, match=FILE):
        read_history(folder)
    write_snapshots(folder)
    with pytest.raises(CheckpointError, match="no snapshot after 4 updates; there are: 0, 3, 20"):
        load_checkpoint(folder.with_name("tiny@4"))
    assert "no snapshot after 4" in str(inspect_entry(folder.with_name("tiny@4")).error)
    with pytest.raises(CheckpointError, match="no such checkpoint folder"):
        load_checkpoint(folder.with_name("other@3"))


def test_a_folder_with_the_sign_in_its_name_is_itself(folder: Path) -> None:
    write_snapshots(folder)
    shutil.copytree(folder, folder.with_name("tiny@3"))
    assert ModelRef.of(folder.with_name("tiny@3")) == ModelRef(folder.with_name("tiny@3"))
    whole = load_checkpoint(folder.with_name("tiny@3"))
    for name, tensor in load_checkpoint(folder).model.state_dict().items():
        assert torch.equal(whole.model.state_dict()[name], tensor)


@given(name=st.text(min_size=1), updates=st.integers(0, 10**9))
def test_names_are_split_as_they_are_written(name: str, updates: int) -> None:
    assert split_name(at(name, updates)) == (name, updates)
    assert at(name, None) == name
    for other in (
        "a@",
        "@5",
        "a@05",
        "a@-1",
        "a@٣",
        "a@1e3",
        "a@9999999999",
        "a@ 3",
        "a@" + "9" * 5000,
    ):
        assert split_name(other) == (other, None)


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"updates": np.array([0, 3, 3])}, "must ascend"),
        ({"updates": np.array([-1, 3, 4])}, "must ascend"),
        ({"updates": np.array([0, 3, 10**10])}, "must ascend"),
        ({"updates": np.array([0, 3])}, "lists of equal length"),
        ({"updates": np.array([0.0, 3, 20])}, "lists of equal length"),
        ({"val_nll": None}, "lists of equal length"),
        ({"updates": np.arange(65), "val_nll": np.zeros(65, np.float32)}, "1 to 64"),
        ({"change_1": np.zeros(5, np.int8)}, "'change_1' should be"),
        ({"change_1": None}, "'change_1' should be"),
        ({"steps": np.zeros(2, np.float32)}, "'steps' should be"),
        ({"rest_2": None}, "'rest_2' should be"),
    ],
)
def test_damage_leaves_the_model_usable(changed: dict[str, Any], line: str, folder: Path) -> None:
    write_snapshots(folder, **changed)
    with pytest.raises(CheckpointError, match=line):
        load_checkpoint(folder.with_name("tiny@20"))
    assert load_checkpoint(folder).name == "tiny"
    assert inspect_entry(folder).error is None


@pytest.mark.parametrize(
    ("name", "value"),
    [*(("steps", value) for value in (np.inf, np.nan, 1e38, 0, -1)),
     ("rest_2", np.inf), ("rest_2", np.nan)],
)  # fmt: skip
def test_numbers_that_are_none_are_refused(folder: Path, name: str, value: float) -> None:
    shapes = layout_of(load_checkpoint(folder).config).stored.values()
    sizes = {
        "steps": sum(len(shape) > 1 for shape in shapes),
        "rest_2": sum(math.prod(shape) for shape in shapes if len(shape) == 1),
    }
    kind = np.float32 if name == "steps" else np.float16
    write_snapshots(folder, **{name: np.full(sizes[name], value, kind)})
    with pytest.raises(CheckpointError, match=r"'steps' must be between 0 and 1e|NaN or infinite"):
        load_checkpoint(folder.with_name("tiny@20"))
