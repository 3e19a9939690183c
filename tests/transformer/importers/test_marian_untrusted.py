"""Malicious Marian folders: on the command line and as an import, one line and no trace."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.transformer.importers.models import make_folder
from transformer.__main__ import main
from transformer.catalogue import inspect_entry
from transformer.checkpoint.folder import load_checkpoint
from transformer.errors import CheckpointError
from transformer.importers.registry import FORMATS

pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers

WEIGHTS, TORCH_FILE = "model.safetensors", "pytorch_model.bin"
Damage = Callable[[Path], object]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("marian") / "theirs"
    make_folder(folder, "separate vocabularies")
    return folder


def pipe(name: str) -> Damage:
    def damage(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return damage


def twice(name: str, key: str) -> Damage:
    def damage(folder: Path) -> None:
        text = (folder / name).read_text().rstrip().removesuffix("}")
        (folder / name).write_text(f"{text}, {json.dumps(key)}: 7}}")

    return damage


def write(name: str, data: bytes) -> Damage:
    return lambda folder: (folder / name).write_bytes(data)


def as_torch(change: Callable[[dict[str, torch.Tensor]], object]) -> Damage:
    def damage(folder: Path) -> None:
        state = safetensors.torch.load_file(folder / WEIGHTS)
        (folder / WEIGHTS).unlink()
        torch.save(change(state), folder / TORCH_FILE)

    return damage


def repeated(folder: Path) -> None:
    """A config of a billion numbers, and a file in which each tensor is one number."""
    values = json.loads((folder / "config.json").read_text())
    inner = values["encoder_ffn_dim"]
    large = 4_000_000
    (folder / "config.json").write_text(
        json.dumps(values | {"encoder_ffn_dim": large, "decoder_ffn_dim": large})
    )
    as_torch(
        lambda state: {
            name: torch.zeros(1).expand([large if size == inner else size for size in tensor.shape])
            for name, tensor in state.items()
        }
    )(folder)


class Call:
    def __init__(self, function: object, *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[object, ...]:
        return self.call


DAMAGES: dict[str, tuple[Damage, str]] = {
    **{
        f"a pipe for {name}": (pipe(name), rf"{name}: a pipe, socket or device, not a file")
        for name in ("config.json", "vocab.json", "source.spm", "target.spm", WEIGHTS)
    },
    "a key twice": (twice("config.json", "d_model"), r"config\.json: .*'d_model' stands there tw"),
    "a piece twice": (twice("vocab.json", "</s>"), r"vocab\.json: .*'</s>' stands there twice"),
    "a vocabulary nested": (write("vocab.json", b'{"a":' * 200_000), r"vocab\.json: not valid J"),
    "a piece that is not text": (
        lambda folder: (folder / "source.spm").write_bytes(
            (folder / "source.spm").read_bytes().replace("▁".encode(), b"\xe2\x96\xff", 1)),
        r"source\.spm: not a SentencePiece model",
    ),
    "a header that lies": (write(WEIGHTS, struct.pack("<Q", 2**50) + b"{}"), "not a whole safe"),
    "one number for all": (repeated, r"bin: .* bytes are too few for the .* numbers"),
    "a call that fills the memory": (
        as_torch(lambda _: {"a": Call(bytearray, 10**13)}), r"bin: holds more than weights",
    ),
    "a link to itself": (
        lambda folder: ((folder / "vocab.json").unlink(),
                        (folder / "vocab.json").symlink_to("vocab.json")),
        r"vocab\.json: Too many levels",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.timeout(300)
def test_one_line_and_no_trace(
    name: str, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "theirs"))
    damage, reason = DAMAGES[name]
    damage(folder)
    with pytest.raises(CheckpointError, match=reason) as caught:
        FORMATS["marian"].convert(folder, tmp_path / "ours")
    assert str(caught.value).isprintable()
    capsys.readouterr()
    assert main(["import", "marian", str(folder), "--out", str(tmp_path / "ours")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert [each.name for each in tmp_path.iterdir()] == ["theirs"]


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_payload_leaves_no_trace(whole: Path, tmp_path: Path, protocol: int) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "theirs"))
    (folder / WEIGHTS).unlink()
    payload = Call(Path.touch, tmp_path / "ran")
    for content in ({"a": payload}, [payload]):
        torch.save(content, folder / TORCH_FILE, pickle_protocol=protocol)
        with pytest.raises(CheckpointError, match="it could run code"):
            FORMATS["marian"].convert(folder, tmp_path / "ours")
    assert not (tmp_path / "ran").exists()
    pickle.loads(pickle.dumps(payload, protocol))  # noqa: S301 - the payload itself does work
    assert (tmp_path / "ran").exists()


def test_names_in_a_config_are_not_opened(whole: Path, tmp_path: Path) -> None:
    """Files, classes and modules that a config names, which other programs would open."""
    folder = Path(shutil.copytree(whole, tmp_path / "theirs"))
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
    card = (path / "README.md").read_text()
    assert "imported from `../../x # y`" in card
    for each in path.iterdir():
        assert b"root:" not in each.read_bytes()


@pytest.mark.parametrize("name", ["config.json", "vocab.json", "source.spm", WEIGHTS, TORCH_FILE])
@given(data=st.data())
@settings(max_examples=15)
def test_cut_and_flipped_files_are_imported_or_refused(
    whole: Path, name: str, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(shutil.copytree(whole, Path(temporary) / "theirs"))
        if name == TORCH_FILE:
            as_torch(lambda state: state)(folder)
        content = bytearray((folder / name).read_bytes())
        if data.draw(st.booleans(), label="cut"):
            del content[data.draw(st.integers(0, len(content) - 1), label="to") :]
        head = data.draw(st.sampled_from([64, 3_000, 10**9]), label="within")
        for _ in range(data.draw(st.integers(0, 4), label="flips") if content else 0):
            index = data.draw(st.integers(0, min(head, len(content)) - 1))
            content[index] ^= 1 << data.draw(st.integers(0, 7))
        (folder / name).write_bytes(content)
        reason = ""
        try:
            FORMATS["marian"].convert(folder, Path(temporary) / "ours")
        except CheckpointError as error:
            reason = str(error)
        left = sorted(each.name for each in Path(temporary).iterdir())
        assert left == (["theirs"] if reason else ["ours", "theirs"])
        assert reason.isprintable()
        if not reason:
            loaded = load_checkpoint(Path(temporary) / "ours")
            loaded.tokenizer.decode(loaded.tokenizer.tokenize("A dog, é ﬁ.").ids)
