"""Untrusted checkpoints: whatever a folder holds, the result is a model or one line."""

from __future__ import annotations

import json
import os
import pickle
import resource
import shutil
import struct
import tempfile
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer.__main__ import main
from transformer.catalogue import inspect_entry, list_entries
from transformer.checkpoint.folder import load_checkpoint
from transformer.config import ConfigError, ModelConfig
from transformer.errors import CheckpointError
from transformer.files.safe import parse_json
from transformer.model import Transformer

WEIGHTS, CONFIG, TOKENIZER = "model.safetensors", "config.json", "tokenizer.model"
Damage = Callable[[Path], object]


@pytest.fixture
def folder(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    """A copy of the tiny checkpoint, to be damaged."""
    return Path(shutil.copytree(tiny_checkpoint, tmp_path / "copy"))


class Call:
    """Pickles as a call of any function with any arguments."""

    def __init__(self, function: object, *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[object, ...]:
        return self.call


def write(name: str, data: bytes) -> Damage:
    return lambda folder: (folder / name).write_bytes(data)


def become(name: str, change: Callable[[Path], object]) -> Damage:
    """Replace a file with something else."""

    def damage(folder: Path) -> None:
        (folder / name).unlink()
        change(folder / name)

    return damage


def config(text: str) -> Damage:
    """Append text to the config's object."""

    def damage(folder: Path) -> None:
        old = (folder / CONFIG).read_text().rstrip().removesuffix("}").rstrip()
        (folder / CONFIG).write_text(f"{old}, {text}}}")

    return damage


def header(change: Callable[[dict[str, object]], object]) -> Damage:
    """Edit the header of the weights, not their numbers."""

    def damage(folder: Path) -> None:
        data = (folder / WEIGHTS).read_bytes()
        (size,) = struct.unpack("<Q", data[:8])
        values = json.loads(data[8 : 8 + size])
        change(values)
        head = json.dumps(values).encode()
        (folder / WEIGHTS).write_bytes(struct.pack("<Q", len(head)) + head + data[8 + size :])

    return damage


def cut_to(share: float) -> Damage:
    def damage(folder: Path) -> None:
        data = (folder / WEIGHTS).read_bytes()
        (folder / WEIGHTS).write_bytes(data[: int(share * len(data))])

    return damage


def torch_file(content: object) -> Damage:
    def damage(folder: Path) -> None:
        (folder / WEIGHTS).unlink()
        torch.save(content, folder / "model.pt")

    return damage


def state_of(folder: Path) -> dict[str, torch.Tensor]:
    return safetensors.torch.load_file(folder / WEIGHTS)


def archive(compression: int = zipfile.ZIP_STORED, **more: bytes) -> Damage:
    """The weights as a torch file, zipped again with other members."""

    def damage(folder: Path) -> None:
        torch_file(state_of(folder))(folder)
        path = folder / "model.pt"
        with zipfile.ZipFile(path) as old:
            members = [(each.filename, old.read(each)) for each in old.infolist()]
        members += [(name.replace("__", "/"), data) for name, data in more.items()]
        with zipfile.ZipFile(path, "w", compression) as new:
            for name, data in members:
                new.writestr(name, data)

    return damage


def claim(size: int) -> Damage:
    """Make an archive's directory claim that its first file is very large."""

    def damage(folder: Path) -> None:
        torch_file(state_of(folder))(folder)
        data = bytearray((folder / "model.pt").read_bytes())
        entry = data.index(b"PK\x01\x02")
        data[entry + 20 : entry + 28] = struct.pack("<II", size, size)
        (folder / "model.pt").write_bytes(data)

    return damage


def repeated(folder: Path) -> None:
    """Two billion numbers, all stored as one."""
    values = json.loads((folder / CONFIG).read_text()) | {"d_ff": 8_000_000}
    (folder / CONFIG).write_text(json.dumps(values))
    with torch.device("meta"):
        shapes = {
            k: v.shape for k, v in Transformer(ModelConfig.from_dict(values)).state_dict().items()
        }
    torch_file({name: torch.zeros(1).expand(shape) for name, shape in shapes.items()})(folder)


def first_tensor(values: dict[str, object]) -> dict[str, object]:
    found = next(value for name, value in values.items() if name != "__metadata__")
    assert isinstance(found, dict)
    return found


def doubling(times: int) -> object:
    """Text that each call doubles."""
    import codecs

    text: object = "x"
    for _ in range(times):
        text = Call(codecs.encode, text, "hex")
    return text


#: The fault of a folder, the message, and the file it names.
DAMAGES: dict[str, tuple[Damage, str]] = {
    "a billion layers": (config('"n_encoder_layers": 1000000000'), r"config\.json: .*stands th"),
    "a key twice": (config('"d_model": 24'), r"config\.json: not valid JSON: the key 'd_model'"),
    "deep JSON": (write(CONFIG, b'{"a":' * 200_000), r"config\.json: not valid JSON"),
    "deep lists": (write(CONFIG, b"[" * 5_000 + b"]" * 5_000), r"config\.json: "),
    "a number without end": (write(CONFIG, b'{"d_model": 1' + b"0" * 4_000 + b"}"), r"digits\)"),
    "a text without end": (
        write(CONFIG, b'{"activation": "' + b"x" * 10**6 + b'"}'), r"config\.json: activation=",
    ),
    "a key without end": (write(CONFIG, b'{"' + b"x" * 10**6 + b'": 1}'), r"unknown setting"),
    "line breaks": (write(CONFIG, rb'{"activation": "a\nb\u2028c\u001b[31m"}'), r"activation='a"),
    "infinity": (write(CONFIG, b'{"d_model": Infinity}'), r"config\.json: d_model=inf"),
    "NaN as a setting": (write(CONFIG, b'{"dropout": NaN}'), r"config\.json: dropout=nan"),
    "a huge config": (
        become(CONFIG, lambda path: (path.touch(), os.truncate(path, 10**9))),
        r"config\.json: 1,000,000,000 bytes; at most",
    ),
    "a pipe for a config": (become(CONFIG, os.mkfifo), r"config\.json: a pipe, socket or device"),
    "a pipe for weights": (become(WEIGHTS, os.mkfifo), r"safetensors: a pipe, socket or device"),
    "a pipe for a tokenizer": (become(TOKENIZER, os.mkfifo), r"tokenizer\.model: a pipe"),
    "a device": (become(CONFIG, lambda path: path.symlink_to("/dev/zero")), r"a pipe, socket or"),
    "a folder for a file": (become(WEIGHTS, Path.mkdir), r"safetensors: a folder, not a file"),
    "a link to itself": (
        become(WEIGHTS, lambda path: path.symlink_to(path)), r"safetensors: Too many levels",
    ),
    "a link to nothing": (
        become(TOKENIZER, lambda path: path.symlink_to("nowhere")), r"model: the file is missing",
    ),
    "a header that is longer than the file": (
        write(WEIGHTS, struct.pack("<Q", 2**40) + b"{}"), r"safetensors: not a whole",
    ),
    "a header without end": (
        write(WEIGHTS, struct.pack("<Q", 17 * 2**20) + b" " * (17 * 2**20)), r"a header of 17,",
    ),
    "numbers outside the file": (
        header(lambda values: first_tensor(values).update(data_offsets=[0, 10**12])),
        r"safetensors: not a whole",
    ),
    "numbers on top of each other": (
        header(lambda values: first_tensor(values).update(data_offsets=[0, 4])), r"not a whole",
    ),
    "a shape that its numbers do not fill": (
        header(lambda values: first_tensor(values).update(shape=[2**31, 2**31])), r"not a whole",
    ),
    "a negative shape": (
        header(lambda values: first_tensor(values).update(shape=[-1, 5])), r"not a whole",
    ),
    "an unknown type": (
        header(lambda values: first_tensor(values).update(dtype="F99")), r"not a whole",
    ),
    "a header that is no object": (write(WEIGHTS, struct.pack("<Q", 2) + b"[]"), r"not a whole"),
    "text for a tokenizer": (write(TOKENIZER, b"<html>"), r"tokenizer\.model: not a Sentence"),
    "a piece that is not text": (
        lambda folder: (folder / TOKENIZER).write_bytes(
            (folder / TOKENIZER).read_bytes().replace("▁".encode(), b"\xe2\x96\xff", 1)),
        r"tokenizer\.model: not a SentencePiece",
    ),
    "a compressed archive": (archive(zipfile.ZIP_DEFLATED), r"model\.pt: a compressed archive"),
    "a bomb beside the weights": (
        archive(zipfile.ZIP_DEFLATED, archive__bomb=b"\0" * 10**7), r"a compressed archive",
    ),
    "an archive that claims too much": (claim(2**31), r"pt: an archive whose files are larger"),
    "a call that fills the memory": (
        torch_file({"a": Call(bytearray, 10**13)}), r"more than weights \(\w+\.bytearray",
    ),
    "text that doubles": (torch_file(doubling(60)), r"holds more than weights \(_codecs\.encode"),
    "an empty tensor without end": (
        torch_file({"a": Call(torch.Tensor, 10**7, 10**7)}), r"holds more than weights \(torch",
    ),
    "one number for all": (repeated, r"model\.pt: .* bytes are too few for"),
    "a pickle of another protocol": (
        become(WEIGHTS, lambda path: path.with_name("model.pt").write_bytes(
            pickle.dumps(OrderedDict(a=Path("x")), protocol=4))),
        r"model\.pt: holds more than weights",
    ),
    **{
        f"cut at {share:.0%}": (cut_to(share), r"safetensors: not a whole safetensors file")
        for share in (0, 0.0001, 0.01, 0.1, 0.3, 0.6, 0.99)
    },
}  # fmt: skip


@pytest.fixture(autouse=True)
def _no_bombs() -> object:
    """Make allocating 8 GiB more an error, so that the machine survives.

    More than what is taken already: tests before these leave address space behind (stacks of
    threads, mapped weights), and a limit below that would fail the next allocation of anything.
    """
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + 8 * 2**30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.timeout(60)
def test_one_line_says_what_is_wrong(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same in the library, in the list, and on the command line with exit status 2."""
    damage, reason = DAMAGES[name]
    damage(folder)
    with pytest.raises(CheckpointError, match=reason) as caught:
        load_checkpoint(folder)
    message = str(caught.value)
    assert "\n" not in message and message.isprintable()
    assert len(message) <= 620
    (entry,) = list_entries([folder.parent])
    assert entry.error is not None or name == "one number for all"
    capsys.readouterr()
    where = ["--checkpoint", str(folder), "--device", "cpu"]
    out = ["--src", "a dog", "--out", str(folder.with_name("trace.json"))]
    for command in (["translate", *where, "a dog"], ["trace", *where, *out]):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert message[:40] in said


def test_a_billion_layers(folder: Path) -> None:
    for value in (10**9, 10**14, 10**15, 10**4_000):
        values = json.loads((folder / CONFIG).read_text()) | {"n_decoder_layers": value}
        (folder / CONFIG).write_text(json.dumps(values))
        with pytest.raises(CheckpointError, match=r"config\.json: .*(parameters|digits)"):
            load_checkpoint(folder)


def test_sizes_whose_product_cannot_be_printed() -> None:
    with pytest.raises(ConfigError, match="d_model is far too large"):
        ModelConfig(d_model=10**3_000, d_ff=10**3_000, n_heads=1)


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("kind", ["bare", "archive", "old", "numbers' key"])
def test_a_payload_leaves_no_trace(folder: Path, tmp_path: Path, kind: str, protocol: int) -> None:
    payload = Call(Path.touch, tmp_path / "ran")
    path = folder / "model.pt"
    (folder / WEIGHTS).unlink()
    if kind == "bare":
        path.write_bytes(pickle.dumps(payload, protocol))
    elif kind == "numbers' key":
        torch.save({payload: torch.ones(2)}, path, pickle_protocol=protocol)
    else:
        torch.save(
            {"a": torch.ones(2), "b": payload}, path, pickle_protocol=protocol,
            _use_new_zipfile_serialization=kind == "archive",
        )  # fmt: skip
    with pytest.raises(CheckpointError, match=r"model\.pt: (holds more than weights|not a whole)"):
        load_checkpoint(folder)
    assert main(["translate", "--checkpoint", str(folder), "a dog"]) == 2
    assert not list_entries([folder.parent])[0].ok
    assert not (tmp_path / "ran").exists()
    pickle.loads(pickle.dumps(payload, protocol))  # noqa: S301 - the payload itself does work
    assert (tmp_path / "ran").exists()


def test_names_in_an_archive_lead_nowhere(folder: Path, tmp_path: Path) -> None:
    archive(**{"..__..__escaped": b"x"})(folder)
    with pytest.raises(CheckpointError, match=r"model\.pt: not a whole torch file .*escaped"):
        load_checkpoint(folder)
    assert not (tmp_path / "escaped").exists()
    assert not (tmp_path.parent / "escaped").exists()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["copy"]


def test_an_archive_with_a_second_pickle_of_the_same_name(folder: Path) -> None:
    """Two readers could choose different ones."""
    torch_file(state_of(folder))(folder)
    with zipfile.ZipFile(folder / "model.pt") as old:
        name = next(each for each in old.namelist() if each.endswith("data.pkl"))
    with (
        pytest.warns(UserWarning, match="Duplicate"),
        zipfile.ZipFile(folder / "model.pt", "a") as more,
    ):
        more.writestr(name, pickle.dumps({}))
    with pytest.raises(CheckpointError, match="holds a file twice"):
        load_checkpoint(folder)


@pytest.mark.parametrize(
    "path", ["nowhere", "a\0b", "x" * 5_000, "x/" * 3_000, "\ud800", "/dev/null", "/proc/self/mem"]
)
def test_paths_that_are_no_folders(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CheckpointError, match="no such checkpoint folder") as caught:
        load_checkpoint(path)
    assert str(caught.value).isprintable()
    assert not inspect_entry(path).ok
    assert list_entries([Path(path)]) == []
    assert main(["translate", "--checkpoint", path, "a dog"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_files_that_may_not_be_read(tiny_checkpoint: Path) -> None:
    """As a user without rights, since root may read everything."""
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        root.chmod(0o755)
        for name in (CONFIG, WEIGHTS, TOKENIZER, "all", "pt"):
            folder = Path(shutil.copytree(tiny_checkpoint, root / name))
            if name == "pt":
                torch_file(state_of(folder))(folder)
                (folder / "model.pt").chmod(0)
            else:
                (folder if name == "all" else folder / name).chmod(0)
        me = os.geteuid()
        if me == 0:
            os.seteuid(65_534)
        try:
            listed = list_entries([root])
        finally:
            os.seteuid(me)
        for each in root.iterdir():
            each.chmod(0o755)
    assert len(listed) == 5
    assert all("Permission denied" in str(entry.error) for entry in listed)


@pytest.mark.parametrize("name", [CONFIG, TOKENIZER, WEIGHTS, "model.pt", "metrics.json"])
@given(data=st.data())
@settings(max_examples=30)
def test_cut_and_flipped_files_load_or_are_refused(
    tiny_checkpoint: Path, name: str, data: st.DataObject
) -> None:
    """Never another exception, and never a model that is not whole."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(shutil.copytree(tiny_checkpoint, Path(temporary) / "copy"))
        if name == "model.pt":
            torch_file(state_of(folder))(folder)
        content = bytearray((folder / name).read_bytes())
        if data.draw(st.booleans(), label="cut"):
            del content[data.draw(st.integers(0, len(content) - 1), label="to") :]
        head = data.draw(st.sampled_from([64, 3_000, 10**9]), label="within")
        for _ in range(data.draw(st.integers(0, 4), label="flips") if content else 0):
            index = data.draw(st.integers(0, min(head, len(content)) - 1))
            content[index] ^= 1 << data.draw(st.integers(0, 7))
        (folder / name).write_bytes(content)
        entry, loaded, reason = inspect_entry(folder), None, ""
        try:
            loaded = load_checkpoint(folder)
        except CheckpointError as error:
            reason = str(error)
        if loaded is None:
            assert reason.isprintable()
            assert str(folder) in reason
        else:
            assert entry.ok
            assert all(bool(each.isfinite().all()) for each in loaded.model.parameters())
            tokenized = loaded.tokenizer.tokenize("The animal didn't cross the street, é ﬁ 你.")
            assert all(0 <= index < loaded.config.vocab_size for index in tokenized.ids)
            loaded.tokenizer.decode(tokenized.ids)


def test_json_says_everything_once() -> None:
    assert parse_json('{"a": {"b": 1}, "b": [1, {"b": 2}]}') == {"a": {"b": 1}, "b": [1, {"b": 2}]}
    with pytest.raises(ValueError, match="the key 'b' stands there twice"):
        parse_json('{"a": {"b": 1, "b": 1}}')
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json("[" * 100_000)


def test_a_reason_is_one_line_of_bounded_length() -> None:
    error = CheckpointError("file\n\x1b[31m" + "x" * 10_000 + "\u202eend")
    assert str(error).isprintable()
    assert len(str(error)) <= 620
    assert str(error).startswith("file")
    assert str(error).endswith("end")
