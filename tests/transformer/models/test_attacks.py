"""The same attacks against everything that reads a model.

Each gives one line that names the file, soon; nothing is opened, run or left behind.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("transformers")

from tests.transformer.damage import (
    IN_PLACE,
    Damage,
    become,
    header,
    safetensors_file,
    write,
)
from tests.transformer.faults import FAULTS, HIDDEN
from tests.transformer.models.readers import (
    CONFIGS,
    TORCH,
    WEIGHTS,
    copied,
    opened,
    refused,
    torch_path,
)
from transformer.__main__ import main
from transformer.catalogue import inspect_entry, list_entries
from transformer.checkpoint import weights
from transformer.checkpoint.folder import load_checkpoint
from transformer.errors import CheckpointError
from transformer.importers import mapping
from transformer.importers.registry import FORMATS

MAPPED = [kind for kind, name in WEIGHTS.items() if name.endswith(".safetensors")]
# A reader that waits for a pipe waits for ever: the timeout of every test ends it.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, faults in FAULTS.items() for name in faults]
)
def test_what_is_wrong_is_said_in_one_line(
    whole: Path, tmp_path: Path, kind: str, name: str
) -> None:
    folder = copied(whole, kind, tmp_path)
    damage, reason = FAULTS[kind][name]
    damage(folder)
    line = refused(kind, folder, reason)
    if kind == "own":
        assert inspect_entry(folder).error == (None if name in HIDDEN else line)


@pytest.mark.parametrize("what", IN_PLACE)
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *WEIGHTS.items(), *CONFIGS.items(), ("own", "tokenizer.model"),
        ("table", "vocabulary.json"), ("table", "target.model"), ("marian", "source.spm"),
        ("marian", "vocab.json"), ("marian", "generation_config.json"),
        ("joeynmt", "src_vocab.txt"), ("joeynmt", "sp.en.model"), ("fairseq", "dict.de.txt"),
        ("hf", "tokenizer_config.json"), ("hf", "generation_config.json"),
    ],
)  # fmt: skip
def test_something_else_in_place_of_a_file(
    whole: Path, tmp_path: Path, kind: str, name: str, what: str
) -> None:
    if what != "a pipe" and name not in (WEIGHTS[kind], CONFIGS.get(kind)):
        return
    folder = copied(whole, kind, tmp_path)
    become(name, IN_PLACE[what])(folder)
    line = refused(kind, folder)
    assert name in line or (what == "a link to nothing" and kind == "joeynmt")
    assert what != "a pipe" or f"{name}: a pipe" in line


@pytest.mark.parametrize(
    ("kind", "name"), [*WEIGHTS.items(), ("own", "tokenizer.model"), ("table", "tokenizer.model"),
    ("marian", "target.spm"), ("joeynmt", "sp.de.model")],
)  # fmt: skip
def test_bytes_that_are_none_of_its_kind(whole: Path, tmp_path: Path, kind: str, name: str) -> None:
    folder = copied(whole, kind, tmp_path)
    data = (folder / name).read_bytes()
    parts = [int(share * len(data)) for share in (0.001, 0.1, 0.5, 0.99)]
    for wrong in (
        b"", b"\x00" * 100, b"\x0a\xff\xff\xff\xff\x0f", b"\xff" * 3_000, b"{}", b"<html>",
        *(data[:size] for size in parts if name == WEIGHTS[kind]),
    ):  # fmt: skip
        (folder / name).write_bytes(wrong)
        assert name in refused(kind, folder)


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_config_that_is_none_or_long_or_deep(whole: Path, tmp_path: Path, kind: str) -> None:
    folder = copied(whole, kind, tmp_path)
    path, yaml_file = folder / CONFIGS[kind], kind == "joeynmt"
    lines = "".join(f'{"" if yaml_file else ","}\n"k{i}": 1' for i in range(300_000))
    path.write_text(lines if yaml_file else f'{{"a": 1{lines}}}')
    assert "are allowed" in refused(kind, folder)
    deep = [b"[" * 500] if yaml_file else [b"[" * 100_000, b'{"a":' * 200_000, b"[" * 5_000]
    for wrong in (b"\xff\xfe\x00", b"[]", b'{"a": ', *deep):
        path.write_bytes(wrong)
        assert path.name in refused(kind, folder)


def moved(by: int) -> Damage:
    return header(lambda each: each.update(data_offsets=[n + by for n in each["data_offsets"]]))


#: False safetensors files.
HEADERS: dict[str, Damage] = {
    "claims 100 MB": write("model.safetensors", struct.pack("<Q", 100 * 2**20) + b"{}"),
    "has 17 MB": write("model.safetensors", safetensors_file(
        '{"__metadata__":{"a":"' + "x" * (17 * 2**20) + '"}}')),
    "claims more than there is": write("model.safetensors", struct.pack("<Q", 2**63) + b"{}"),
    "is nested": write("model.safetensors", safetensors_file("[" * 2**20)),
    "is no object": write("model.safetensors", safetensors_file("[]")),
    "has too many tensors": write("model.safetensors", safetensors_file(json.dumps({
        f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(20_001)}))),
    "beyond the end": moved(10**9),
    "before the beginning": moved(-8),
    "on top of each other": header(lambda each: each.update(
        data_offsets=[0, each["data_offsets"][1] - each["data_offsets"][0]])),
    "larger than the file": header(lambda each: each.update(shape=[2**40, 2**40])),
    "a negative shape": header(lambda each: each.update(shape=[-1, 5])),
    "an unknown type": header(lambda each: each.update(dtype="F99")),
}  # fmt: skip


@pytest.mark.parametrize("kind", MAPPED)
@pytest.mark.parametrize("how", HEADERS)
def test_a_header_that_lies(whole: Path, tmp_path: Path, kind: str, how: str) -> None:
    folder = copied(whole, kind, tmp_path)
    HEADERS[how](folder)
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
    folder = copied(whole, kind, tmp_path)
    path = folder / CONFIGS[kind]
    text = path.read_text()
    for what, value in NUMBERS.items():
        if kind == "joeynmt":
            values = yaml.safe_load(text)
            values["model"]["encoder"][size] = value
            path.write_text(yaml.safe_dump(values))
        else:
            values = json.loads(text)
            # The true value of one is the flag's.
            if values[size] == value or (what == "zero" and size.endswith("_id")):
                continue
            path.write_text(json.dumps(values | {size: value}))
        refused(kind, folder)


def test_settings_without_a_number(whole: Path, tmp_path: Path) -> None:
    folder = copied(whole, "hf", tmp_path)
    values = json.loads((folder / "config.json").read_text())
    for value in (float("inf"), float("nan")):
        (folder / "config.json").write_text(json.dumps(values | {"layer_norm_epsilon": value}))
        assert "layer_norm_epsilon" in refused("hf", folder)


VOCABULARIES: dict[str, Callable[[dict[str, Any]], object]] = {
    "an id twice": lambda ids: ids | {[*ids][5]: ids[[*ids][6]]},
    "an id beyond": lambda ids: ids | {[*ids][5]: 10**6},
    "a negative id": lambda ids: ids | {[*ids][5]: -3},
    "a fraction": lambda ids: ids | {[*ids][5]: 2.5},
    "a flag": lambda ids: ids | {[*ids][5]: True},
    "an id of 30 digits": lambda ids: ids | {[*ids][5]: 10**30},
    "half a character": lambda ids: {
        ("\ud800" if at == 7 else piece): index for at, (piece, index) in enumerate(ids.items())
    },
    "a list": lambda ids: [*ids],
    "another size": lambda ids: ids | {"more": len(ids)},
}


def test_a_vocabulary_that_is_none(whole: Path, tmp_path: Path) -> None:
    folder = copied(whole, "marian", tmp_path)
    path = folder / "vocab.json"
    ids = json.loads(path.read_text())
    for change in VOCABULARIES.values():
        path.write_text(json.dumps(change(ids)))
        assert "vocab.json" in refused("marian", folder)
    strange = {p if p in ("<pad>", "</s>", "<unk>") else f"x{i}": i for p, i in ids.items()}
    path.write_text(json.dumps(strange))
    refused("marian", folder, r"source\.spm: only 0 of .* belong to different models")


def test_files_of_two_models(whole: Path, tmp_path: Path) -> None:
    folder = copied(whole, "joeynmt merges", tmp_path / "a")
    (folder / "codes.de").write_text("#version: 0.2\nq x\nqx y\n")
    refused("joeynmt merges", folder, r"codes\.de: only 0 of the 2 pieces")
    folder = copied(whole, "fairseq apart", tmp_path / "b")
    for language in ("en", "de"):
        (folder / f"spm.{language}.model").unlink()
    refused("fairseq apart", folder, r"dict\.de\.txt: its pieces are SentencePiece's")


def test_a_table_of_pieces_that_is_none(whole: Path, tmp_path: Path) -> None:
    folder = copied(whole, "table", tmp_path)
    path = folder / "vocabulary.json"
    pieces = json.loads(path.read_text())
    for wrong, reason in (
        ([f"piece {index}" for index in range(500_000)], "vocabulary"),
        ([*pieces[:-1], pieces[0]], "vocabulary holds a piece twice"),
        ({"a": 1}, "expected a JSON list"),
    ):
        path.write_text(json.dumps(wrong))
        refused("table", folder, rf"vocabulary\.json: .*{reason}|{reason}")
        assert not list_entries([folder.parent])[0].ok


def test_names_in_a_config_are_not_opened(whole: Path, tmp_path: Path) -> None:
    """Files, classes and modules that a config names, which other programs would open."""
    folder = copied(whole, "marian", tmp_path)
    values = json.loads((folder / "config.json").read_text()) | {
        "_name_or_path": "../../../etc/passwd",
        "tokenizer_class": "os.system",
        "auto_map": {"AutoModel": "evil.Evil"},
        "tokenizer_file": "/etc/passwd",
        "target_spm": "../../target.spm",
    }
    (folder / "config.json").write_text(json.dumps(values))
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    path = FORMATS["marian"].convert(folder, tmp_path / "ours", name="../../x\n# y")
    assert inspect_entry(path).ok
    assert not (tmp_path / "ran").exists()
    assert "imported from `../../x # y`" in (path / "README.md").read_text()
    assert not any(b"root:" in each.read_bytes() for each in path.iterdir())


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
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        load_checkpoint(folder) if kind == "own" else opened(kind, folder)


@pytest.mark.parametrize("kind", ["own", "hf", "marian", "joeynmt", "fairseq"])
def test_the_command_line_ends_with_2_and_one_line(
    whole: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copied(whole, kind, tmp_path)
    become(WEIGHTS[kind], os.mkfifo)(folder)
    where = ["--checkpoint", str(folder), "--device", "cpu"]
    out = str(tmp_path / "made")
    commands = {
        "own": [["info", str(folder)], ["translate", *where, "A dog"],
                ["trace", *where, "--src", "A dog", "--out", out]],
        "hf": [["info", str(folder)]],
    }.get(kind, [["import", kind, str(folder), "--out", out]])  # fmt: skip
    for command in commands:
        code = main(command)
        said = capsys.readouterr()
        assert code == 2 or command[0] == "info"  # the list states the fault
        assert "Traceback" not in said.err + said.out
        assert code != 2 or said.err.count("\n") == 1
        assert "a pipe" in said.err + said.out


@pytest.mark.parametrize("kind", FORMATS)
def test_an_existing_folder_is_left_alone(whole: Path, tmp_path: Path, kind: str) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(CheckpointError, match="exists already"):
        FORMATS[kind].convert(whole / kind, tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *(("own", name) for name in (
            "config.json", "tokenizer.model", "model.safetensors", "model.pt", "metrics.json")),
        *(("marian", name) for name in (
            "config.json", "vocab.json", "source.spm", "model.safetensors", "pytorch_model.bin")),
    ],
)  # fmt: skip
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_cut_and_flipped_files_load_or_are_refused(
    whole: Path, kind: str, name: str, data: st.DataObject
) -> None:
    """Never another exception, and never a model that is not whole."""
    with tempfile.TemporaryDirectory() as temporary:
        folder, out = copied(whole, kind, Path(temporary)), Path(temporary) / "ours"
        path = folder / name
        if name == TORCH[kind][0]:
            torch_path(kind, folder)
        content = bytearray(path.read_bytes() if path.exists() else b'{"bleu": 1}')
        if data.draw(st.booleans(), label="cut"):
            del content[data.draw(st.integers(0, len(content) - 1), label="to") :]
        head = data.draw(st.sampled_from([64, 3_000, 10**9]), label="within")
        for _ in range(data.draw(st.integers(0, 4), label="flips") if content else 0):
            index = data.draw(st.integers(0, min(head, len(content)) - 1))
            content[index] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(content)
        loaded, reason = None, ""
        try:
            loaded = load_checkpoint(
                folder if kind == "own" else FORMATS[kind].convert(folder, out)
            )
        except CheckpointError as error:
            reason = str(error)
        if loaded is None:
            assert reason.isprintable() and str(folder) in reason and not out.exists()
            return
        assert inspect_entry(loaded.path).ok
        assert all(bool(each.isfinite().all()) for each in loaded.model.parameters())
        tokenized = loaded.tokenizer.tokenize("The animal didn't cross the street, é ﬁ 你.")
        assert all(0 <= index < loaded.config.vocab_size for index in tokenized.ids)
        loaded.tokenizer.decode(tokenized.ids)
