"""Torch files of untrusted models: nothing in them is run, and none fills the memory."""

from __future__ import annotations

import argparse
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")

from tests.transformer.damage import (
    Evil,
    archive,
)
from tests.transformer.importers.foreign import written
from tests.transformer.models.readers import TORCH, copied, refused, torch_path
from transformer.importers.registry import FORMATS

# A reader that waits for a pipe waits for ever: the timeout of every test ends it.
pytestmark = pytest.mark.filterwarnings("ignore")


#: Pickles that take memory for a few bytes: a call, a number of 2 GB, lists of lists of lists.
PICKLES: dict[str, bytes] = {
    "many steps": b"\x80\x02" + b"(" * 500_100 + b".",
    "a call": b"\x80\x02c__builtin__\nbytearray\n\x8a\x06\x00\x00\x00\x00\x00\x10\x85R.",
    "a long number": b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b"x" * 100 + b".",
    "lists of lists": b"\x80\x02]q\x00"
    + b"".join(b"(h%ch%clq%c" % (at, at, at + 1) for at in range(200))
    + b".",
}


@pytest.mark.parametrize("kind", TORCH)
def test_a_torch_file_that_would_grow(whole: Path, tmp_path: Path, kind: str) -> None:
    folder = copied(whole, kind, tmp_path)
    path = torch_path(kind, folder)
    archive(path.name, zipfile.ZIP_DEFLATED)(folder)
    refused(kind, folder, "compressed archive")
    for data in PICKLES.values():
        path.write_bytes(data)
        assert path.name in refused(kind, folder)


@pytest.mark.parametrize("kind", TORCH)
@pytest.mark.parametrize("form", ["bare", "archive", "old", "numbers' key", "namespace"])
def test_a_payload_leaves_no_trace(whole: Path, tmp_path: Path, kind: str, form: str) -> None:
    folder, payload = copied(whole, kind, tmp_path), Evil(tmp_path / "ran")
    path, key = torch_path(kind, folder), TORCH[kind][1]
    for protocol in (0, 2, 4):
        if form == "bare":
            path.write_bytes(pickle.dumps(payload, protocol))
        else:
            values: dict[Any, Any] = {
                "numbers' key": {payload: torch.ones(2)},
                "namespace": {"args": argparse.Namespace(x=payload), key: {}},
            }.get(form, {"a": torch.ones(2), key: {"b": payload}})
            torch.save(
                values, path, pickle_protocol=protocol,
                _use_new_zipfile_serialization=form != "old",
            )  # fmt: skip
        line = refused(kind, folder, f"{path.name}: (holds more than weights|not a whole)")
        if kind in ("joeynmt", "fairseq") and "holds more" in line:
            assert f"import {kind} --explain` prints how to convert it" in line
    assert not (tmp_path / "ran").exists()
    pickle.loads(pickle.dumps(payload))  # noqa: S301 - the payload itself does work
    assert (tmp_path / "ran").exists()


def test_a_namespace_cannot_be_made_to_call_anything(whole: Path, tmp_path: Path) -> None:
    """A namespace's values stay attributes, even under names that pickle calls."""
    folder = copied(whole, "fairseq", tmp_path)
    values = written(folder / "checkpoint_best.pt")
    settings = values["cfg"]["model"]
    settings.__dict__["__setstate__"] = settings.__dict__["__reduce__"] = "called"
    torch.save(values, folder / "checkpoint_best.pt")
    assert FORMATS["fairseq"].convert(folder, tmp_path / "ours").is_dir()


def test_an_archive_with_a_second_pickle_of_the_same_name(whole: Path, tmp_path: Path) -> None:
    """Two readers could choose different ones."""
    folder = copied(whole, "own", tmp_path)
    path = torch_path("own", folder)
    with zipfile.ZipFile(path) as old:
        name = next(each for each in old.namelist() if each.endswith("data.pkl"))
    with zipfile.ZipFile(path, "a") as more:
        more.writestr(name, pickle.dumps({}))
    refused("own", folder, "holds a file twice")
