"""Formats of models that Headlight does not read, and a remedy for each.

A format is recognised by file names, first bytes, a setting, or the texts and names in a torch
file's archive. Nothing is unpickled.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from transformer.errors import CheckpointError
from transformer.files.safe import json_object, open_file
from transformer.files.torch_file import outer_texts


@dataclass(frozen=True)
class Unread:
    """A format; any of its clues is enough."""

    holds: str  # content and remedy, as the rest of a sentence about the path
    files: tuple[str, ...] = ()  # names in a folder, each some patterns that all match
    starts: tuple[bytes, ...] = ()  # first bytes of a file
    texts: tuple[str, ...] = ()  # keys of a torch file or names in its archive, each several
    setting: tuple[str, str, str] | None = None  # a JSON file, a key, its values
    always: bool = False  # also in a folder with weights that Headlight reads
    importer: str = ""  # the format that imports it, see `import`


_NO_IMPORTER = "; it has no importer here: import a Marian, JoeyNMT or fairseq model instead"
_IMPORT = "is a {0} checkpoint; import it first: python -m transformer import {1} FILE --out PATH"
_SAVE = (
    "holds {0} weights; save them with transformers 4 as safetensors, by "
    "from_pretrained(DIR, {1}=True).save_pretrained(OUT), and open OUT"
)

FORMATS = (
    Unread(
        "holds a LoRA adapter, which is a part of a model; merge it in Python by "
        "PeftModel.from_pretrained(...).merge_and_unload().save_pretrained(DIR), and open DIR",
        ("adapter_model.*",), always=True,
    ),
    Unread(
        "holds a model in Marian's own format; convert it with transformers 4, python -m "
        "transformers.models.marian.convert_marian_to_pytorch --src DIR --dest OUT, which keeps "
        "the beam size of decoder.yml, and import OUT",
        ("*.npz *decoder.yml",), always=True,
    ),
    Unread(
        "holds a model in Marian's binary format, as in Firefox Translations; import the model "
        "that it was made from, or an OPUS-MT model for these languages",
        ("model.*.bin* lex.*",), (b"\1\0\0\0\0\0\0\0",),
    ),
    Unread(
        "holds SMaLL-100, an M2M100 with a tokenizer in Python code of its own, which is never "
        "run; open facebook/m2m100_418M instead",
        setting=("tokenizer_config.json", "tokenizer_class", "SMALL100Tokenizer"), always=True,
    ),
    Unread(
        "holds a T5Gemma 2, whose decoder attends to its own tokens and the source in one softmax, "
        "so it has no separate maps; open a T5Gemma or T5 instead",
        setting=("config.json", "model_type", "t5gemma2"), always=True,
    ),
    Unread(
        "holds a ProphetNet, for which the transformers library returns scores before the softmax, "
        "which are no weights; open a BART or T5 instead",
        setting=("config.json", "model_type", "prophetnet xlm-prophetnet"), always=True,
    ),
    Unread(
        "holds a CTranslate2 model, which has no attention by head; import the model that it was "
        "converted from",
        ("model.bin *vocabulary.*",),
        tuple(bytes([version, 0, 0, 0, 16, 0]) + b"TransformerSpec" for version in range(2, 16)),
    ),
    Unread(_SAVE.format("TensorFlow", "from_tf"), ("tf_model.h5",)),
    Unread(_SAVE.format("Flax", "from_flax"), ("*.msgpack",)),
    Unread(
        "holds a llama.cpp model (GGUF); open the folder that it was converted from",
        ("*.gguf",), (b"GGUF",),
    ),
    Unread("holds an ONNX model; open the folder that it was exported from", ("*.onnx",)),
    Unread(
        "holds a model of TensorFlow, Tensor2Tensor or Keras; open its PyTorch version, or convert "
        "it to safetensors",
        ("saved_model.pb", "*.index *.data-?????-of-?????", "*.keras", "*.h5"),
        (b"\x89HDF\r\n\x1a\n",), ("model.weights.h5",),
    ),
    Unread("holds a NeMo model; unpack it with tar, and convert its weights", ("*.nemo",)),
    Unread(f"holds an OpenNMT-py checkpoint{_NO_IMPORTER}", texts=("model generator opt",)),
    Unread(f"holds an Eole model{_NO_IMPORTER}", ("model.00.safetensors",), always=True),
    Unread(f"holds an OpenNMT model for Lua{_NO_IMPORTER}", ("*.t7",)),
    Unread(f"holds a Sockeye model{_NO_IMPORTER}", ("params.* vocab.src.*",)),
    Unread("holds a Moses model, which counts phrases and has no attention", ("moses.ini",)),
    Unread(
        "is a TorchScript archive, a program in place of weights; open the folder that it was made "
        "from, or save the model's state_dict",
        texts=("constants.pkl code",),
    ),
    Unread(_IMPORT.format("JoeyNMT", "joeynmt"), texts=("model_state",), importer="joeynmt"),
    Unread(
        _IMPORT.format("fairseq", "fairseq"),
        texts=("model args extra_state", "model cfg extra_state"), importer="fairseq",
    ),
    Unread(
        "is a pointer of Git LFS and not the file itself; fetch it with git lfs pull",
        starts=(b"version https://git-lfs.github.com/spec/",),
    ),
    Unread(
        "is a web page, such as an error, saved under the name of a model; fetch the file again",
        starts=(b"<!doctype html", b"<html"),
    ),
)  # fmt: skip

#: Patterns of weights that Headlight reads.
_READ = ("*.safetensors", "pytorch_model*.bin", "*.index.json", "*.ckpt", "*.pt")
#: Suffixes of weights alone, and of a model's other files.
_WEIGHTS = (".bin", ".ckpt", ".h5", ".pb", ".pkl", ".pt", ".pth", ".safetensors")
_OTHERS = (".json", ".model", ".spm")
_MOST_FILES, _MOST_OPENED = 1_000, 40


def unread(path: Path, importer: str | None = None) -> str | None:
    """Return the content of a file or folder that Headlight does not read, with a remedy.

    Args: importer: the format that is to read the path, if known, of which only files are named.

    Returns: the rest of a sentence about the path, or None for everything else.
    """
    try:
        folder = path.is_dir()
        if not folder and not path.is_file():
            return None
        place = path if folder else path.parent
        names = os.listdir(place)[:_MOST_FILES]
    except (OSError, ValueError):
        return None
    reads = any(fnmatchcase(name, pattern) for name in names for pattern in _READ)
    for row in FORMATS:
        fits = _has_files(row, names) or (row.setting and _is_set(place, row.setting))
        named = folder or any(fnmatchcase(path.name, together.split()[0]) for together in row.files)
        if named and (row.always or not reads) and fits:
            return row.holds
    if not folder:
        return _content(path, importer)
    opened = [name for name in names if name.endswith((*_WEIGHTS, *_OTHERS))]
    for name in sorted(opened)[:_MOST_OPENED]:
        alone = "config.json" not in names and name.endswith((".pt", ".ckpt"))
        if reason := _content(place / name, importer, start_only=not alone, folder=True):
            return f"{reason} ({name})"
    return None


def listed(path: Path) -> bool:
    """Return True if a file's name, or the names in a folder, belong to one of these formats."""
    try:
        names = os.listdir(path) if path.is_dir() else [path.name]
    except (OSError, ValueError):
        return False
    return path.suffix in _WEIGHTS or any(_has_files(row, names) for row in FORMATS)


def _has_files(row: Unread, names: Collection[str]) -> bool:
    return any(
        all(any(fnmatchcase(name, pattern) for name in names) for pattern in together.split())
        for together in row.files
    )


def _is_set(place: Path, setting: tuple[str, str, str]) -> bool:
    file, key, values = setting
    with suppress(CheckpointError):
        return json_object(place / file).get(key) in values.split()
    return False


def _content(
    path: Path, importer: str | None, *, start_only: bool = False, folder: bool = False
) -> str | None:
    """Return the content of one file by its first bytes and, if a torch file, its texts."""
    try:
        with open_file(path) as (file, status):
            start = file.read(64)
            texts = frozenset() if start_only else outer_texts(file)
    except CheckpointError:
        return None
    if not status.st_size and not folder:
        return "is empty; fetch the file again"
    start = start.lstrip() if start.lstrip().startswith(b"<") else start
    for row in FORMATS:
        known = any(start.lower().startswith(first.lower()) for first in row.starts)
        known = known or any(texts.issuperset(keys.split()) for keys in row.texts)
        if known and not (importer and row.importer):
            return row.holds.replace("FILE", "DIR") if folder else row.holds
    if folder or importer:
        return None
    if path.suffix in _WEIGHTS:
        return "is one file of a model; open its folder, with the config and the tokenizer"
    if path.suffix != ".npz" and not start.startswith(b"PK"):
        return "is not a format that Headlight reads: a folder of a model, or an .npz of maps"
    return None
