"""The same attacks against everything that reads a model: checkpoints, importers, other libraries'.

Each gives one line that names the file, soon; nothing is opened, run or written.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("transformers")

from tests.tiny_models import random_model
from tests.transformer.huggingface import models as huggingface_models
from tests.transformer.importers.foreign import fairseq, joeynmt
from tests.transformer.importers.models import make_folder
from transformer.__main__ import main
from transformer.catalogue import list_entries, open_tracer
from transformer.checkpoint import weights
from transformer.checkpoint.folder import load_checkpoint, save_checkpoint
from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.files import safe
from transformer.importers import mapping
from transformer.importers.registry import FORMATS
from transformer.text.tokenizer import Tokenizer

Damage = Callable[[Path], object]

#: Every kind, with its weights and its config. "table" is an imported checkpoint.
WEIGHTS = {
    "own": "model.safetensors", "table": "model.safetensors", "marian": "model.safetensors",
    "hf": "model.safetensors", "joeynmt": "7.ckpt", "fairseq": "checkpoint_best.pt",
}  # fmt: skip
CONFIGS = {
    "own": "config.json", "table": "config.json", "marian": "config.json", "hf": "config.json",
    "joeynmt": "config.yaml",
}  # fmt: skip
MAPPED = [kind for kind, name in WEIGHTS.items() if name.endswith(".safetensors")]
# A reader that waits for a pipe waits for ever: the timeout of every test ends it.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Tokenizer) -> Path:
    root = tmp_path_factory.mktemp("whole")
    config = ModelConfig(
        vocab_size=tiny_tokenizer.vocab_size, d_model=24, n_heads=3, d_ff=40, n_encoder_layers=2,
        n_decoder_layers=1,
    )  # fmt: skip
    save_checkpoint(root / "own", random_model(config), tiny_tokenizer)
    make_folder(root / "marian", "separate vocabularies")
    FORMATS["marian"].convert(root / "marian", root / "table")
    joeynmt(root / "joeynmt", "pre-norm, other ids")
    fairseq(root / "fairseq", "pre-norm, nothing shared")
    (root / "hf").mkdir()
    huggingface_models.t5(root / "hf")
    return root


def copied(whole: Path, kind: str, to: Path) -> Path:
    return Path(shutil.copytree(whole / kind, to / "root" / kind))


def opened(kind: str, folder: Path) -> None:
    """Open a model with the reader of its kind."""
    if kind in FORMATS:
        FORMATS[kind].convert(folder, folder.parent / "made")
    else:
        list_entries([folder.parent])  # the list must survive it too
        open_tracer(folder, "cpu")


def refused(kind: str, folder: Path) -> str:
    """Return the one line."""
    with pytest.raises(CheckpointError) as caught:
        opened(kind, folder)
    line = str(caught.value)
    assert "\n" not in line and len(line) <= 640
    assert str(folder) in line
    assert [each.name for each in folder.parent.iterdir()] == [kind]
    return line


def replaced_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replaced_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replaced_by_device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def replaced_by_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


IN_PLACE: dict[str, Damage] = {
    "a pipe": replaced_by_pipe, "a folder": replaced_by_folder, "a device": replaced_by_device,
    "a loop": replaced_by_loop, "nothing": emptied,
}  # fmt: skip


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("what", IN_PLACE)
def test_something_else_in_place_of_the_weights(
    whole: Path, tmp_path: Path, kind: str, what: str
) -> None:
    folder = copied(whole, kind, tmp_path)
    IN_PLACE[what](folder / WEIGHTS[kind])
    assert WEIGHTS[kind] in refused(kind, folder)


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("what", IN_PLACE)
def test_something_else_in_place_of_the_config(
    whole: Path, tmp_path: Path, kind: str, what: str
) -> None:
    folder = copied(whole, kind, tmp_path)
    IN_PLACE[what](folder / CONFIGS[kind])
    assert CONFIGS[kind] in refused(kind, folder)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("own", "tokenizer.model"), ("table", "vocabulary.json"), ("table", "target.model"),
        ("marian", "source.spm"), ("marian", "vocab.json"), ("marian", "generation_config.json"),
        ("joeynmt", "src_vocab.txt"), ("joeynmt", "sp.en.model"), ("fairseq", "dict.de.txt"),
        ("hf", "tokenizer_config.json"), ("hf", "generation_config.json"),
    ],
)  # fmt: skip
def test_pipes_in_place_of_the_rest(whole: Path, tmp_path: Path, kind: str, name: str) -> None:
    folder = copied(whole, kind, tmp_path)
    replaced_by_pipe(folder / name)
    assert f"{name}: a pipe" in refused(kind, folder)


def safetensors(header: bytes, rest: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header + rest


def shifted(by: int) -> Callable[[bytes], bytes]:
    """Shift every tensor's offsets."""

    def change(data: bytes) -> bytes:
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8 : 8 + size])
        for name, each in header.items():
            if name != "__metadata__":
                each["data_offsets"] = [at + by for at in each["data_offsets"]]
        return safetensors(json.dumps(header).encode(), data[8 + size :])

    return change


def stacked(data: bytes) -> bytes:
    """Give all tensors of one shape the same offsets."""
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    places: dict[str, Any] = {}
    for name, each in header.items():
        if name != "__metadata__":
            each["data_offsets"] = places.setdefault(str(each["shape"]), each["data_offsets"])
    return safetensors(json.dumps(header).encode(), data[8 + size :])


def grown(data: bytes) -> bytes:
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    for name, each in header.items():
        if name != "__metadata__":
            each["shape"] = [2**40, 2**40]
    return safetensors(json.dumps(header).encode(), data[8 + size :])


#: False safetensors files, made from a good one's bytes.
HEADERS: dict[str, Callable[[bytes], bytes]] = {
    "claims 100 MB": lambda _: struct.pack("<Q", 100 * 2**20) + b"{}",
    "has 17 MB": lambda _: safetensors(b'{"__metadata__":{"a":"' + b"x" * (17 * 2**20) + b'"}}'),
    "claims more than there is": lambda _: struct.pack("<Q", 2**63) + b"{}",
    "is nested": lambda _: safetensors(b"[" * 2**20),
    "has too many tensors": lambda _: safetensors(json.dumps({
        f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(20_001)
    }).encode()),
    "beyond the end": shifted(10**9),
    "before the beginning": shifted(-8),
    "on top of each other": stacked,
    "larger than the file": grown,
}  # fmt: skip


@pytest.mark.parametrize("kind", MAPPED)
@pytest.mark.parametrize("how", HEADERS)
def test_a_header_that_lies(whole: Path, tmp_path: Path, kind: str, how: str) -> None:
    folder = copied(whole, kind, tmp_path)
    path = folder / WEIGHTS[kind]
    path.write_bytes(HEADERS[how](path.read_bytes()))
    assert WEIGHTS[kind] in refused(kind, folder)


#: Numbers that are no valid size.
NUMBERS: dict[str, object] = {
    "negative": -1, "zero": 0, "a fraction": 1.5, "a billion": 10**9, "of 400 digits": 10**400,
    "NaN": float("nan"), "infinite": float("inf"), "a flag": True, "nothing": None,
    "a megabyte": "x" * 2**20, "a list": [1] * 10, "a group": {"a": 1}, "text": "7",
}  # fmt: skip
#: A size of each kind, and its place.
SIZES = {
    "own": ("n_encoder_layers", "d_model", "n_heads"),
    "table": ("n_decoder_layers", "vocab_size", "eos_id"),
    "marian": ("encoder_layers", "d_model", "max_position_embeddings"),
    "hf": ("num_layers", "d_model", "num_heads"),
    "joeynmt": ("num_heads",),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "size"), [(k, each) for k, v in SIZES.items() for each in v])
def test_numbers_that_are_none(whole: Path, tmp_path: Path, kind: str, size: str) -> None:
    for what, value in NUMBERS.items():
        place = tmp_path / what.replace(" ", "-")
        folder = copied(whole, kind, place)
        path = folder / CONFIGS[kind]
        if kind == "joeynmt":
            values = yaml.safe_load(path.read_text())
            values["model"]["encoder"][size] = value
            path.write_text(yaml.safe_dump(values))
        else:
            values = json.loads(path.read_text())
            # The true value of one is the flag's.
            if values[size] == value or (what == "zero" and size.endswith("_id")):
                continue
            path.write_text(json.dumps(values | {size: value}))
        refused(kind, folder)
        shutil.rmtree(place)


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_config_that_is_long_or_deep_is_not_read_for_minutes(
    whole: Path, tmp_path: Path, kind: str
) -> None:
    folder = copied(whole, kind, tmp_path)
    path = folder / CONFIGS[kind]
    lines = "".join(f'{"" if kind == "joeynmt" else ","}\n"k{i}": 1' for i in range(300_000))
    path.write_text(lines if kind == "joeynmt" else f'{{"a": 1{lines}}}')
    assert "are allowed" in refused(kind, folder)
    path.write_text("[" * 100_000 if kind != "joeynmt" else "[" * 500)
    refused(kind, folder)


def _items(ids: dict[str, Any]) -> list[str]:
    return list(ids)


VOCABULARIES: dict[str, Callable[[dict[str, Any]], object]] = {
    "an id twice": lambda ids: ids | {_items(ids)[5]: ids[_items(ids)[6]]},
    "an id beyond": lambda ids: ids | {_items(ids)[5]: 10**6},
    "a negative id": lambda ids: ids | {_items(ids)[5]: -3},
    "a fraction": lambda ids: ids | {_items(ids)[5]: 2.5},
    "a flag": lambda ids: ids | {_items(ids)[5]: True},
    "an id of 30 digits": lambda ids: ids | {_items(ids)[5]: 10**30},
    "half a character": lambda ids: {
        ("\ud800" if at == 7 else piece): index for at, (piece, index) in enumerate(ids.items())
    },
    "a list": _items,
    "another size": lambda ids: ids | {"more": len(ids)},
}


@pytest.mark.parametrize("what", VOCABULARIES)
def test_a_vocabulary_that_is_none(whole: Path, tmp_path: Path, what: str) -> None:
    folder = copied(whole, "marian", tmp_path)
    path = folder / "vocab.json"
    path.write_text(json.dumps(VOCABULARIES[what](json.loads(path.read_text()))))
    assert "vocab.json" in refused("marian", folder)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("own", "tokenizer.model"), ("table", "tokenizer.model"), ("marian", "target.spm"),
     ("joeynmt", "sp.de.model")],
)  # fmt: skip
def test_a_sentencepiece_model_that_is_none(
    whole: Path, tmp_path: Path, kind: str, name: str
) -> None:
    folder = copied(whole, kind, tmp_path)
    for data in (b"", b"\x00" * 100, b"\x0a\xff\xff\xff\xff\x0f", b"\xff" * 3_000, b"{}"):
        (folder / name).write_bytes(data)
        assert name in refused(kind, folder)


def bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", pickle.dumps({}))
        archive.writestr("a/version", "3")
        archive.writestr("a/data/0", b"\0" * (50 * 2**20))


#: Pickles that take memory for a few bytes: a call, a number of 2 GB, lists of lists of lists.
PICKLES: dict[str, Damage] = {
    "many steps": lambda path: path.write_bytes(b"\x80\x02" + b"(" * 500_100 + b"."),
    "a zip bomb": bomb,
    "a call": lambda path: path.write_bytes(
        b"\x80\x02c__builtin__\nbytearray\n\x8a\x06\x00\x00\x00\x00\x00\x10\x85R."
    ),
    "a long number": lambda path: path.write_bytes(
        b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b"x" * 100 + b"."
    ),
    "lists of lists": lambda path: path.write_bytes(
        b"\x80\x02]q\x00" + b"".join(b"(h%ch%clq%c" % (at, at, at + 1) for at in range(200)) + b"."
    ),
}


@pytest.mark.parametrize("kind", ["own", "marian", "hf", "joeynmt", "fairseq"])
@pytest.mark.parametrize("what", PICKLES)
def test_a_torch_file_that_would_grow(whole: Path, tmp_path: Path, kind: str, what: str) -> None:
    folder = copied(whole, kind, tmp_path)
    name = {"own": "model.pt", "marian": "pytorch_model.bin", "hf": "pytorch_model.bin"}.get(kind)
    if name is not None:
        (folder / WEIGHTS[kind]).unlink()
    PICKLES[what](folder / (name or WEIGHTS[kind]))
    assert (name or WEIGHTS[kind]) in refused(kind, folder)


@pytest.mark.parametrize("kind", ["own", "marian"])
def test_weights_that_are_exchanged_between_check_and_reading(
    whole: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copied(whole, kind, tmp_path)
    path, other = folder / WEIGHTS[kind], whole / "table" / WEIGHTS["table"]
    place = weights if kind == "own" else mapping
    real = place.check_memory

    def exchanged(*given: Any) -> None:
        real(*given)
        shutil.copyfile(other, path)

    monkeypatch.setattr(place, "check_memory", exchanged)
    with pytest.raises(CheckpointError, match=r"model\.safetensors") as caught:
        load_checkpoint(folder) if kind == "own" else opened(kind, folder)
    assert "\n" not in str(caught.value)


def test_settings_without_a_number(whole: Path, tmp_path: Path) -> None:
    folder = copied(whole, "hf", tmp_path)
    values = json.loads((folder / "config.json").read_text())
    for value in (float("inf"), float("nan")):
        (folder / "config.json").write_text(json.dumps(values | {"layer_norm_epsilon": value}))
        assert "layer_norm_epsilon" in refused("hf", folder)


def test_a_table_of_millions_is_not_built(whole: Path, tmp_path: Path) -> None:
    folder = copied(whole, "table", tmp_path)
    pieces = json.dumps([f"piece {index}" for index in range(500_000)])
    (folder / "vocabulary.json").write_text(pieces)
    assert "vocabulary.json: " in refused("table", folder)


def test_a_small_file_that_is_exchanged_for_a_pipe_or_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.json"
    path.write_text("{}")
    real = safe.check_file

    def check(given: Path) -> int:
        size = real(given)
        replaced_by_pipe(path)
        return size

    monkeypatch.setattr(safe, "check_file", check)
    with pytest.raises(CheckpointError, match="not a file any more"):
        safe.read_small(path)
    monkeypatch.setattr(safe, "check_file", lambda given: 2)
    path.unlink()
    path.write_bytes(b"x" * 101)
    with pytest.raises(CheckpointError, match="at most 100 are allowed"):
        safe.read_small(path, 100)


@pytest.mark.parametrize("kind", ["own", "hf", "marian", "joeynmt", "fairseq"])
def test_the_command_line_ends_with_2_and_one_line(
    whole: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copied(whole, kind, tmp_path)
    replaced_by_pipe(folder / WEIGHTS[kind])
    out = str(tmp_path / "made")
    commands = {
        "own": [["info", str(folder)], ["translate", "--checkpoint", str(folder), "A dog"]],
        "hf": [["info", str(folder)]],
    }.get(kind, [["import", kind, str(folder), "--out", out]])
    for command in commands:
        code = main(command)
        said = capsys.readouterr()
        assert code == 2 or command[0] == "info"  # the list states the fault
        assert "Traceback" not in said.err + said.out
        if code == 2:
            assert said.err.count("\n") == 1
        assert "a pipe" in said.err + said.out
