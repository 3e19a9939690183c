"""Formats that Headlight does not read are named at every door, with a remedy."""

import argparse
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.transformer.conftest import Command
from tests.transformer.models.huggingface.models import make
from transformer.files.unread import FORMATS, listed, unread
from transformer.models.arrays.trace_file import load_arrays
from transformer.models.catalogue import list_entries, open_tracer
from transformer.models.huggingface import HuggingFaceModel
from transformer.models.importers import registry
from transformer.translator import Translator
from transformer.types import CheckpointError

CT2 = b"\6\0\0\0\x10\0TransformerSpec\0"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"
PAGE = b"\n<!DOCTYPE html><html><body>404</body></html>"


def opennmt(path: Path) -> None:
    opt = argparse.Namespace(layers=6, heads=8)
    vocab = {"src": [f"word{i}" for i in range(50)], "tgt": ["a", "b"]}
    weights = {f"encoder.{i}": torch.zeros(2) for i in range(3)}
    content = {"model": weights, "generator": {"0.bias": torch.zeros(2)}, "vocab": vocab}
    torch.save({**content, "opt": opt, "optim": {}}, path)


def old_opennmt(path: Path) -> None:
    torch.save({"model": {}, "generator": {}, "opt": 1}, path, _use_new_zipfile_serialization=False)


def program(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("m/data.pkl", "m/constants.pkl", "m/code/__torch__.py"):
            archive.writestr(name, b"")


def keras(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.weights.h5", b"")


def saved(content: object) -> Callable[[Path], None]:
    return lambda path: torch.save(content, path)


#: A file's name, its bytes or its writer, and part of the text about it.
FILES: dict[str, tuple[str, bytes | Callable[[Path], None], str]] = {
    "OpenNMT-py": ("m_step_10.pt", opennmt, "OpenNMT-py"),
    "OpenNMT-py, old": ("m.pt", old_opennmt, "OpenNMT-py"),
    "Firefox": ("model.ende.intgemm.alphas.bin", b"\1" + bytes(30), "Firefox Translations"),
    "CTranslate2": ("model.bin", CT2 + bytes(9), "CTranslate2"),
    "CTranslate2, a decoder": (
        "model.bin",
        b"\5\0\0\0\x17\0TransformerDecoderSpec\0",
        "CTranslate2",
    ),
    "OpenNMT-py, weights apart": (
        "m.pt",
        saved({"vocab": {}, "opt": 1, "optim": {}}),
        "OpenNMT-py",
    ),
    "GGUF": ("model.bin", b"GGUF\3\0\0\0", "llama.cpp"),
    "Keras": ("weights.bin", b"\x89HDF\r\n\x1a\n", "Keras"),
    "Keras 3": ("m.pt", keras, "Keras"),
    "TorchScript": ("m.pt", program, "TorchScript"),
    "a JoeyNMT": ("best.ckpt", saved({"model_state": {}}), "import joeynmt FILE"),
    "a fairseq": ("m.pt", saved({"model": {}, "args": 1, "extra_state": {}}), "fairseq FILE"),
    "a pointer": ("pytorch_model.bin", POINTER, "git lfs pull"),
    "a page": ("model.safetensors", PAGE, "web page"),
    "empty": ("model.bin", b"", "is empty"),
    "bare weights": ("pytorch_model.bin", saved({"a": torch.zeros(2)}), "open its folder"),
    "a pickle": ("model.pkl", pickle.dumps(nn.Linear), "open its folder"),
    "a text": ("notes.md", b"# Notes", "not a format that Headlight reads"),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_is_named_and_never_unpickled(kind: str, tmp_path: Path, command: Command) -> None:
    name, content, reason = FILES[kind]
    path = tmp_path / name
    path.write_bytes(content) if isinstance(content, bytes) else content(path)
    for door in (open_tracer, load_arrays, Translator.load):
        with pytest.raises(CheckpointError, match=reason) as caught:
            door(path)
        assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)
    for arguments in (["translate", "--checkpoint", path, "A dog"], ["import", "marian", path]):
        out = ["--out", tmp_path / "out"] if "import" in arguments else []
        assert reason in command(*arguments, *out).err


FOLDERS = {
    "model.ende.intgemm.alphas.bin lex.50.50.ende.s2t.bin": "Firefox",
    "model.ckpt-9.index model.ckpt-9.data-00000-of-00001": "Tensor2Tensor",
    "saved_model.pb": "TensorFlow", "flax_model.msgpack": "from_flax=True", "m.keras": "Keras",
    "flax_model-00001-of-00002.msgpack flax_model.msgpack.index.json": "from_flax=True",
    "tf_model-00001-of-00002.h5 tf_model.h5.index.json": "from_tf=True",
    "model.bin shared_vocabulary.json config.json": "CTranslate2",
    "model.nemo": "NeMo", "model.t7": "Lua", "params.best vocab.src.0.json": "Sockeye",
    "moses.ini phrase-table": "Moses", "config.json model.00.safetensors": "Eole",
}  # fmt: skip


@pytest.mark.parametrize("names", FOLDERS)
def test_a_folder_is_named_by_its_files(names: str, tmp_path: Path) -> None:
    (folder := tmp_path / "model").mkdir()
    for name in names.split():
        (folder / name).write_text("{}")
    doors = (open_tracer, HuggingFaceModel.load, Translator.load)
    for door in (*doors, lambda at: registry.FORMATS["fairseq"].convert(at, tmp_path / "out")):
        with pytest.raises(CheckpointError, match=FOLDERS[names]):
            door(folder)
    (entry,) = list_entries([tmp_path])
    assert FOLDERS[names] in (entry.error or "")


@pytest.mark.parametrize(("file", "content", "reason"), [
    ("tokenizer_config.json", {"tokenizer_class": "SMALL100Tokenizer"}, "SMaLL-100"),
    ("config.json", {"model_type": "t5gemma2"}, "one softmax"),
    ("config.json", {"model_type": "prophetnet"}, "before the softmax"),
    ("pytorch_model.bin", POINTER, r"git lfs pull \(pytorch_model.bin\)"),
    ("spiece.model", PAGE, "web page"), ("model.bin", CT2, "CTranslate2"),
])  # fmt: skip
def test_a_folder_is_named_by_content(
    tmp_path: Path, file: str, content: bytes | dict[str, str], reason: str
) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "m2m_100"}')
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    (tmp_path / file).write_bytes(data)
    with pytest.raises(CheckpointError, match=reason):
        open_tracer(tmp_path)


def test_a_tokenizer_in_code_of_its_own_is_named(tmp_path: Path) -> None:
    make("t5", tmp_path)
    path = tmp_path / "tokenizer_config.json"
    (tmp_path / "tokenizer.json").unlink()
    path.write_text('{"tokenizer_class": "OurTokenizer"}')
    with pytest.raises(CheckpointError, match="OurTokenizer is not the library's"):
        open_tracer(tmp_path)


def test_what_is_read_is_not_in_the_way(tmp_path: Path) -> None:
    opennmt(tmp_path / "model.pt")
    assert "OpenNMT-py" in (unread(tmp_path) or "")
    np.savez(tmp_path / "maps.npz", x=np.zeros(2))
    (tmp_path / "README.md").write_text("x")
    assert unread(tmp_path / "maps.npz") is None and unread(tmp_path / "nothing.pt") is None
    assert not listed(tmp_path / "README.md") and listed(tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match="a folder, not a file"):
        load_arrays(tmp_path)
    assert all("\n" not in row.holds for row in FORMATS)
