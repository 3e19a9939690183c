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
from itertools import islice
from pathlib import Path

from transformer.errors import CheckpointError
from transformer.files.safe import json_object, open_file
from transformer.files.torch_file import outer_texts


@dataclass(frozen=True)
class Unread:
    """A format; any of its clues is enough."""

    holds: str  # content and remedy, as the rest of a sentence about the path
    files: tuple[str, ...] = ()  # patterns of file names in a folder that all match
    starts: tuple[bytes, ...] = ()  # first bytes of a file
    texts: frozenset[str] = frozenset()  # keys of a torch file, or names in its archive
    setting: tuple[str, str, tuple[str, ...]] | None = None  # a JSON file, a key, its values
    always: bool = False  # also in a folder with weights that Headlight reads
    importer: str = ""  # the format that imports it, see `import`


def _importable(title: str, name: str, *texts: str) -> Unread:
    command = f"python -m transformer import {name} FILE --out PATH"
    remedy = f"is a {title} checkpoint; import it first: {command}"
    return Unread(remedy, texts=frozenset(texts), importer=name)


_TENSORFLOW = "holds a TensorFlow model{}; open the PyTorch version, or convert it to safetensors"
_AGAIN = "; fetch the file again"

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
        ("*.npz", "*decoder.yml"), always=True,
    ),
    Unread(
        "holds a model in Marian's binary format, as in Firefox Translations, with compressed "
        "weights; import the model that it was made from, or an OPUS-MT model for these languages",
        ("model.*.bin*", "lex.*"), (b"\1\0\0\0\0\0\0\0",),
    ),
    Unread(
        "holds SMaLL-100, an M2M100 with a tokenizer in Python code of its own, which is never "
        "run; open facebook/m2m100_418M instead",
        setting=("tokenizer_config.json", "tokenizer_class", ("SMALL100Tokenizer",)), always=True,
    ),
    Unread(
        "holds a T5Gemma 2, whose decoder attends to its own tokens and the source in one softmax, "
        "so it has no separate maps; open a T5Gemma or T5 instead",
        setting=("config.json", "model_type", ("t5gemma2",)), always=True,
    ),
    Unread(
        "holds a ProphetNet, for which the transformers library returns scores before the softmax, "
        "which are no weights; open a BART or T5 instead",
        setting=("config.json", "model_type", ("prophetnet", "xlm-prophetnet")), always=True,
    ),
    Unread(
        "holds a CTranslate2 model, which has no attention by head; import the model that it was "
        "converted from",
        ("model.bin", "*vocabulary.*"),
        tuple(bytes([version, 0, 0, 0, 16, 0]) + b"TransformerSpec" for version in range(2, 16)),
    ),
    Unread(
        "holds TensorFlow weights; save them with transformers 4 as safetensors, by "
        "from_pretrained(DIR, from_tf=True).save_pretrained(OUT), and open OUT",
        ("tf_model.h5",),
    ),
    Unread(
        "holds Flax weights; save them with transformers 4 as safetensors, by "
        "from_pretrained(DIR, from_flax=True).save_pretrained(OUT), and open OUT",
        ("*.msgpack",),
    ),
    Unread(
        "holds a llama.cpp model (GGUF); open the folder that it was converted from",
        ("*.gguf",), (b"GGUF",),
    ),
    Unread("holds an ONNX model; open the folder that it was exported from", ("*.onnx",)),
    Unread(_TENSORFLOW.format(" (SavedModel)"), ("saved_model.pb",)),
    Unread(_TENSORFLOW.format(", as of Tensor2Tensor"), ("*.index", "*.data-?????-of-?????")),
    Unread(_TENSORFLOW.format(" (Keras)"), ("*.keras",), (b"\x89HDF\r\n\x1a\n",)),
    Unread(_TENSORFLOW.format(" (Keras)"), ("*.h5",), texts=frozenset({"model.weights.h5"})),
    Unread(
        "holds a NeMo model; unpack it with tar and convert model_weights.ckpt to a format that "
        "Headlight reads",
        ("*.nemo",),
    ),
    Unread(
        "holds an OpenNMT-py checkpoint; Headlight has no importer for it; import a Marian, "
        "JoeyNMT or fairseq model instead",
        texts=frozenset({"model", "generator", "opt"}),
    ),
    Unread(
        "holds an Eole model; Headlight has no importer for it; import a Marian, JoeyNMT or "
        "fairseq model instead",
        ("model.00.safetensors",), always=True,
    ),
    Unread(
        "holds a model of OpenNMT for Lua; Headlight has no importer for it; train it again, or "
        "import another",
        ("*.t7",),
    ),
    Unread(
        "holds a Sockeye model; Headlight has no importer for it; import a Marian, JoeyNMT or "
        "fairseq model instead",
        ("params.*", "vocab.src.*"),
    ),
    Unread("holds a Moses model, which counts phrases and has no attention", ("moses.ini",)),
    Unread(
        "is a TorchScript archive, a program in place of weights; save the model's state_dict or "
        "open the folder that it was made from",
        texts=frozenset({"constants.pkl", "code"}),
    ),
    _importable("JoeyNMT", "joeynmt", "model_state"),
    _importable("fairseq", "fairseq", "model", "args", "extra_state"),
    _importable("fairseq", "fairseq", "model", "cfg", "extra_state"),
    Unread(
        "is a pointer of Git LFS and not the file itself; fetch it with git lfs pull",
        starts=(b"version https://git-lfs.github.com/spec/",), always=True,
    ),
    Unread(
        f"is a web page, such as an error, saved under the name of a model{_AGAIN}",
        starts=(b"<!doctype html", b"<html"), always=True,
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
        names = [entry.name for entry in islice(os.scandir(place), _MOST_FILES)]
    except (OSError, ValueError):
        return None
    reads = any(fnmatchcase(name, pattern) for name in names for pattern in _READ)
    for row in FORMATS:
        fits = _has_files(row, names) or (row.setting and _is_set(place, row.setting))
        named = folder or any(fnmatchcase(path.name, pattern) for pattern in row.files[:1])
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
    every = [row for row in FORMATS if row.files and (path.is_dir() or len(row.files) == 1)]
    return path.suffix in _WEIGHTS or any(_has_files(row, names) for row in every)


def _has_files(row: Unread, names: Collection[str]) -> bool:
    return bool(row.files) and all(
        any(fnmatchcase(name, pattern) for name in names) for pattern in row.files
    )


def _is_set(place: Path, setting: tuple[str, str, tuple[str, ...]]) -> bool:
    file, key, values = setting
    with suppress(CheckpointError):
        return json_object(place / file).get(key) in values
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
        return f"is empty{_AGAIN}"
    start = start.lstrip() if start.lstrip().startswith(b"<") else start
    for row in FORMATS:
        known = any(start.lower().startswith(first.lower()) for first in row.starts)
        if (known or (row.texts and row.texts <= texts)) and not (importer and row.importer):
            return row.holds.replace("FILE", "DIR") if folder else row.holds
    if folder or importer:
        return None
    if path.suffix in _WEIGHTS:
        return "is one file of a model; open its folder, with the config and the tokenizer"
    if path.suffix != ".npz" and not start.startswith(b"PK"):
        return "is not a format that Headlight reads: a folder of a model, or an .npz of maps"
    return None
