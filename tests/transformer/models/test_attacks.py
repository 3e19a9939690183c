"""Attacks on every model reader: each gets one line that names the file, and has no effect."""

import argparse
import json
import pickle
import resource
import shutil
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from tests.random_stacks import random_stack
from tests.tiny_models import random_model
from tests.transformer import damage
from tests.transformer.models.huggingface import models as huggingface
from tests.transformer.models.importers.foreign import fairseq, joeynmt, written
from transformer.checkpoint import weights
from transformer.checkpoint.folder import load_checkpoint, save_checkpoint
from transformer.config import ModelConfig
from transformer.files import torch_file as reading
from transformer.models.catalogue import inspect_entry, list_entries, open_tracer
from transformer.models.huggingface import HuggingFaceModel
from transformer.models.importers.registry import FORMATS
from transformer.models.one_stack.model import save_stack
from transformer.text.tokenizer import Tokenizer
from transformer.types import CheckpointError

# A reader that waits for a pipe waits for ever: the timeout of every test ends it.
pytestmark = pytest.mark.filterwarnings("ignore")

#: Every reader, with its weights and its config. "table" is an imported checkpoint.
WEIGHTS = {
    "own": "model.safetensors", "table": "model.safetensors", "marian": "model.safetensors",
    "hf": "model.safetensors", "joeynmt": "7.ckpt", "fairseq": "checkpoint_best.pt",
}  # fmt: skip
CONFIGS = {
    **dict.fromkeys(("own", "table", "marian", "hf"), "config.json"),
    "joeynmt": "config.yaml",
}
MAPPED = [kind for kind, name in WEIGHTS.items() if name.endswith(".safetensors")]
#: Torch files, in which pickles may stand, and the key of their weights.
TORCH = {
    "own": ("model.pt", "model"), "marian": ("pytorch_model.bin", "x"),
    "hf": ("pytorch_model.bin", "x"), "joeynmt": ("7.ckpt", "model_state"),
    "fairseq": ("checkpoint_best.pt", "model"),
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Tokenizer) -> Path:
    root = tmp_path_factory.mktemp("whole")
    config = ModelConfig(
        vocab_size=tiny_tokenizer.vocab_size, d_model=24, n_heads=3, d_ff=40, n_encoder_layers=2,
        n_decoder_layers=1,
    )  # fmt: skip
    save_checkpoint(root / "own", random_model(config), tiny_tokenizer)
    save_stack(root / "stack", *random_stack("continue", config, tiny_tokenizer))
    huggingface.make_folder(root / "marian", "separate vocabularies")
    FORMATS["marian"].convert(root / "marian", root / "table")
    damage.split()(Path(shutil.copytree(root / "marian", root / "shards")))
    joeynmt(root / "joeynmt", "pre-norm, other ids")
    joeynmt(root / "joeynmt merges", "post-norm, separate")
    fairseq(root / "fairseq", "post-norm, all shared")
    fairseq(root / "fairseq apart", "pre-norm, nothing shared")
    huggingface.make("t5", root / "hf")
    huggingface.make("bart", root / "bart")
    return root


@pytest.fixture(autouse=True)
def _no_bombs() -> Iterator[None]:
    """Fail on allocations above 8 GiB, to protect the machine."""
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + 8 * 2**30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def copied(whole: Path, kind: str, to: Path) -> Path:
    return Path(shutil.copytree(whole / kind, to / "root" / kind))


def opened(kind: str, folder: Path) -> None:
    kind = {"shards": "marian"}.get(kind, kind).partition(" ")[0]
    if kind in FORMATS:
        FORMATS[kind].convert(folder, folder.parent / "made")
        return
    list_entries([folder.parent])  # the list must survive it too
    if kind == "bart":
        HuggingFaceModel.load(folder, "cpu")
    else:
        open_tracer(folder, "cpu")


def refused(kind: str, folder: Path, reason: str = "") -> str:
    with pytest.raises(CheckpointError, match=reason) as caught:
        opened(kind, folder)
    line = str(caught.value)
    assert line.isprintable() and len(line) <= 640
    assert line.count(str(folder)) == 1 or kind not in FORMATS
    assert str(folder) in line and "headlight-tokenizer" not in line
    assert [each.name for each in folder.parent.iterdir()] == [kind]
    return line


def torch_path(kind: str, folder: Path) -> Path:
    """Replace a model's safetensors file with a torch file and return its path."""
    name, _ = TORCH[kind]
    if name != WEIGHTS[kind]:
        damage.torch_file(lambda state: state, name)(folder)
    return folder / name


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, faults in damage.FAULTS.items() for name in faults]
)
def test_faults_are_named_in_one_line(whole: Path, tmp_path: Path, kind: str, name: str) -> None:
    folder = copied(whole, kind, tmp_path)
    do, reason = damage.FAULTS[kind][name]
    do(folder)
    line = refused(kind, folder, reason)
    if kind in ("own", "table", "stack"):
        assert inspect_entry(folder).error == (None if name in damage.HIDDEN else line)


@pytest.mark.parametrize("what", damage.IN_PLACE)
@pytest.mark.parametrize(("kind", "name"), [
    *WEIGHTS.items(), *CONFIGS.items(), ("own", "tokenizer.model"),
    ("table", "vocabulary.json"), ("table", "target.model"), ("marian", "source.spm"),
    ("marian", "vocab.json"), ("marian", "generation_config.json"),
    ("joeynmt", "src_vocab.txt"), ("joeynmt", "sp.en.model"), ("fairseq", "dict.de.txt"),
    ("hf", "tokenizer_config.json"), ("hf", "generation_config.json"),
])  # fmt: skip
def test_in_place_of_a_file(whole: Path, tmp_path: Path, kind: str, name: str, what: str) -> None:
    if what != "a pipe" and name not in (WEIGHTS[kind], CONFIGS.get(kind)):
        return
    folder = copied(whole, kind, tmp_path)
    damage.become(name, damage.IN_PLACE[what])(folder)
    line = refused(kind, folder)
    assert name in line or (what == "a link to nothing" and kind == "joeynmt")
    assert what != "a pipe" or f"{name}: a pipe" in line


@pytest.mark.parametrize(
    ("kind", "name"),
    [("own", "tokenizer.model"), ("table", "vocabulary.json"), ("table", "target.model")],
)
def test_a_swapped_tokenizer_is_refused(kind: str, name: str, whole: Path, tmp_path: Path) -> None:
    path = (folder := copied(whole, kind, tmp_path)) / name
    if name.endswith(".json"):
        pieces = json.loads(path.read_text())
        pieces[20], pieces[21] = pieces[21], pieces[20]
        path.write_text(json.dumps(pieces))
    else:
        model = ModelProto.FromString(path.read_bytes())
        one, other = model.pieces[20], model.pieces[21]
        one.piece, other.piece = other.piece, one.piece
        path.write_bytes(model.SerializeToString())
    refused(kind, folder, r"tokenizer\.model: not the tokenizer that the model was saved with")
    damage.edit("config.json", tokenizer_sha256=...)(folder)  # as of an older version
    opened(kind, folder)


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


#: False safetensors files.
HEADERS: dict[str, damage.Damage] = {
    "claims 100 MB": damage.write("model.safetensors", struct.pack("<Q", 100 * 2**20) + b"{}"),
    "has 17 MB": damage.write("model.safetensors", damage.safetensors_file(
        '{"__metadata__":{"a":"' + "x" * (17 * 2**20) + '"}}')),
    "claims more than it has": damage.write("model.safetensors", struct.pack("<Q", 2**63) + b"{}"),
    "is nested": damage.write("model.safetensors", damage.safetensors_file("[" * 2**20)),
    "has too many tensors": damage.write("model.safetensors", damage.safetensors_file(json.dumps({
        f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(901)}))),
    "beyond the end": damage.header(lambda each: each.update(
        data_offsets=[n + 10**9 for n in each["data_offsets"]])),
    "on top of each other": damage.header(lambda each: each.update(
        data_offsets=[0, each["data_offsets"][1] - each["data_offsets"][0]])),
    "larger than the file": damage.header(lambda each: each.update(shape=[2**40, 2**40])),
}  # fmt: skip


@pytest.mark.parametrize("kind", MAPPED)
@pytest.mark.parametrize("how", HEADERS)
def test_false_headers(
    whole: Path, tmp_path: Path, kind: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_TENSORS", 900)
    folder = copied(whole, kind, tmp_path)
    HEADERS[how](folder)
    assert (": 901 tensors; at most 900" in (line := refused(kind, folder))) == ("many" in how)
    assert WEIGHTS[kind] in line


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
    where = ("model", "encoder") if kind == "joeynmt" else ()
    own = None if where else json.loads((folder / CONFIGS[kind]).read_text())[size]
    for what, value in NUMBERS.items():
        # The true value of one is the flag's.
        if where or not (own == value or (what == "zero" and size.endswith("_id"))):
            damage.edit(CONFIGS[kind], *where, **{size: value})(folder)
            refused(kind, folder)


def test_names_in_a_config_are_not_opened(whole: Path, tmp_path: Path) -> None:
    """Other programs would open files, classes and modules that a config names."""
    folder = copied(whole, "marian", tmp_path)
    auto, name = {"AutoModel": "evil.Evil"}, "../../../etc/passwd"
    damage.edit("config.json", _name_or_path=name, auto_map=auto)(folder)
    files = {"tokenizer_file": "/etc/passwd", "target_spm": "../../target.spm"}
    damage.edit("config.json", tokenizer_class="os.system", **files)(folder)
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
    real = weights.check_memory

    def exchanged(*given: Any) -> None:
        real(*given)
        shutil.copyfile(other, path)

    monkeypatch.setattr(weights, "check_memory", exchanged)
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        load_checkpoint(folder) if kind == "own" else opened(kind, folder)


@pytest.mark.parametrize("kind", FORMATS)
def test_an_existing_folder_is_left_alone(whole: Path, tmp_path: Path, kind: str) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(CheckpointError, match="exists already"):
        FORMATS[kind].convert(whole / kind, tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["mine.txt"]


#: Pickles that take memory for a few bytes: a call, a number of 2 GB, lists of lists of lists.
PICKLES: dict[str, bytes] = {
    "many steps": b"\x80\x02" + b"(" * 9_100 + b".",
    "a call": b"\x80\x02c__builtin__\nbytearray\n\x8a\x06\x00\x00\x00\x00\x00\x10\x85R.",
    "a long number": b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b"x" * 100 + b".",
    "lists of lists": b"\x80\x02]q\x00"
    + b"".join(b"(h%ch%clq%c" % (at, at, at + 1) for at in range(200))
    + b".",
}


@pytest.mark.parametrize("kind", TORCH)
def test_torch_bombs(
    whole: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_STEPS", 9_000)
    folder = copied(whole, kind, tmp_path)
    path = torch_path(kind, folder)
    damage.archive(path.name, zipfile.ZIP_DEFLATED)(folder)
    refused(kind, folder, "compressed archive")
    for what, data in PICKLES.items():
        path.write_bytes(data)
        assert path.name in refused(kind, folder, "9,000 steps" if what == "many steps" else "")


@pytest.mark.parametrize("kind", TORCH)
@pytest.mark.parametrize("form", ["bare", "archive", "old", "numbers' key", "namespace"])
def test_a_payload_leaves_no_trace(whole: Path, tmp_path: Path, kind: str, form: str) -> None:
    folder, payload = copied(whole, kind, tmp_path), damage.Evil(tmp_path / "ran")
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
                values, path, pickle_protocol=protocol, _use_new_zipfile_serialization=form != "old"
            )
        line = refused(kind, folder, f"{path.name}: (holds more than weights|not a whole)")
        if kind in ("joeynmt", "fairseq") and "holds more" in line:
            assert f"import {kind} --explain` prints how to convert it" in line
    assert not (tmp_path / "ran").exists()
    pickle.loads(pickle.dumps(payload))  # noqa: S301 - the payload itself does work
    assert (tmp_path / "ran").exists()


def test_a_namespace_cannot_be_made_to_call_anything(whole: Path, tmp_path: Path) -> None:
    folder = copied(whole, "fairseq", tmp_path)
    values = written(folder / "checkpoint_best.pt")
    settings = values["cfg"]["model"]
    settings.__dict__["__setstate__"] = settings.__dict__["__reduce__"] = "called"
    torch.save(values, folder / "checkpoint_best.pt")
    assert FORMATS["fairseq"].convert(folder, tmp_path / "ours").is_dir()


def test_an_archive_with_a_second_pickle_of_the_same_name(whole: Path, tmp_path: Path) -> None:
    """Two readers could choose different pickles."""
    folder = copied(whole, "own", tmp_path)
    path = torch_path("own", folder)
    with zipfile.ZipFile(path) as old:
        name = next(each for each in old.namelist() if each.endswith("data.pkl"))
    with zipfile.ZipFile(path, "a") as more:
        more.writestr(name, pickle.dumps({}))
    refused("own", folder, "holds a file twice")
