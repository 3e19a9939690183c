"""Formats that can be imported: the command, refused torch files, restricted pieces."""

import contextlib
import runpy
import sys
import types
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from tests.factories import make_trace
from tests.transformer.conftest import Command
from tests.transformer.huggingface.models import make_folder
from tests.transformer.importers.foreign import MODELS, written
from transformer.arrays.trace_file import save_arrays
from transformer.catalogue import inspect_entry, open_tracer
from transformer.errors import CheckpointError
from transformer.importers.pieces import restrict
from transformer.importers.registry import FORMATS, put_in_place
from transformer.importers.torch_content import explanation
from transformer.text.tokenizer import TokenizerError

pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers


def test_an_import_knows_a_folder_says_how_far_it_is_and_can_be_stopped(tmp_path: Path) -> None:
    make_folder(tmp_path / "theirs", "separate vocabularies")
    assert [each.name for each in FORMATS.values() if each.fits(tmp_path / "theirs")] == ["marian"]
    heard: list[tuple[int, int]] = []
    FORMATS["marian"].convert(
        tmp_path / "theirs", tmp_path / "ours", report=lambda *how_far: heard.append(how_far)
    )
    assert inspect_entry(tmp_path / "ours").ok
    assert heard == sorted(heard)
    assert len({most for _, most in heard}) == 1
    assert all(done < most for done, most in heard)

    class Stopped(BaseException):
        pass

    def stop(done: int, most: int) -> None:
        if done > most // 2:
            raise Stopped

    with pytest.raises(Stopped):
        FORMATS["marian"].convert(tmp_path / "theirs", tmp_path / "again", report=stop)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["ours", "theirs"]
    (tmp_path / "theirs" / "source.spm").unlink()
    for folder in ("theirs", "nowhere"):
        assert not any(each.fits(tmp_path / folder) for each in FORMATS.values())


def test_of_two_imports_with_one_name_one_wins(tmp_path: Path) -> None:
    """The other finds the name taken only at its end, and leaves the folder alone."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "who").write_text(name)
    put_in_place(tmp_path / "first", tmp_path / "ours")
    with pytest.raises(CheckpointError, match="exists already") as caught:
        put_in_place(tmp_path / "second", tmp_path / "ours")
    assert "\n" not in str(caught.value)
    assert (tmp_path / "ours" / "who").read_text() == "first"


MARIAN = (make_folder, "separate vocabularies", "")


@pytest.mark.parametrize("kind", FORMATS)
def test_the_command_line(kind: str, tmp_path: Path, command: Command) -> None:
    out, theirs = tmp_path / "new" / "ours", tmp_path / "theirs"
    make, model, name = {**MODELS, "marian": MARIAN}[kind]
    make(theirs, model)
    assert command("import", kind, theirs / name, "--out", out)[:2] == (0, f"{out}\n")
    ran = command("translate", "--checkpoint", out, "--beam", 1, "A dog", "", "--device", "cpu")
    assert (ran.status, ran.out.count("\n")) == (0, 2)
    for source, to in ((theirs, out), (tmp_path / "nowhere", tmp_path / "x")):
        assert command("import", kind, source, "--out", to).refused


@pytest.mark.parametrize("kind", MODELS)
def test_a_refused_file_can_be_converted_as_the_message_says(
    kind: str, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With classes of a package that is not installed at the conversion."""
    folder = tmp_path / "theirs"
    make, model, name = MODELS[kind]
    make(folder, model)
    path = folder / name
    values = written(path)
    module = types.ModuleType("omegaconf_of_then")

    class DictConfig:
        def __init__(self, content: object) -> None:
            self._content, self._metadata = content, {"ref": self}

    class AnyNode:
        def __init__(self, value: object) -> None:
            self._val = value

    for each in (DictConfig, AnyNode):
        each.__module__, each.__qualname__ = module.__name__, each.__name__
        setattr(module, each.__name__, each)
    sys.modules[module.__name__] = module
    try:
        values["extra_state"] = {"meter": AnyNode(3)}
        if kind == "fairseq":
            values["cfg"] = DictConfig({
                name: DictConfig({key: AnyNode(each) for key, each in vars(group).items()})
                for name, group in values["cfg"].items() if group is not None
            })  # fmt: skip
        torch.save(values, path)
    finally:
        del sys.modules[module.__name__]
    with pytest.raises(CheckpointError, match=r"omegaconf_of_then.* --explain` prints how"):
        FORMATS[kind].convert(folder, tmp_path / "ours")
    printed = command("import", kind, "--explain").out
    assert printed == explanation(kind)
    (tmp_path / "convert.py").write_text(printed)
    monkeypatch.setattr("sys.argv", ["convert.py", str(path), str(tmp_path / "new")])
    runpy.run_path(str(tmp_path / "convert.py"))
    (tmp_path / "new").replace(path)
    assert FORMATS[kind].convert(folder, tmp_path / "ours").is_dir()


@given(st.binary(max_size=200))
def test_bytes_that_are_no_model_are_refused_or_kept(data: bytes) -> None:
    """Whatever the bytes, restricting a model ends, with an error if they are no message."""
    with contextlib.suppress(TokenizerError):
        assert isinstance(restrict(data, ()), bytes)


def test_only_ordinary_pieces_outside_the_vocabulary_become_unused() -> None:
    model = ModelProto()
    for text, kind in (("<unk>", 2), ("▁known", 1), ("▁other", 1), ("x", 1), ("<user>", 4)):
        model.pieces.add(piece=text, score=-1.5, type=kind)
    model.trainer_spec.vocab_size = 5
    unknown_field = b"\xd0\x3e\x07"  # number 1002, as a later version might add
    data = restrict(model.SerializeToString() + unknown_field, {"▁known"})
    model.pieces[2].type = 5
    assert data == model.SerializeToString() + unknown_field


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (("adapter_config.json", "adapter_model.safetensors"), "merge_and_unload"),
        (("config.json", "adapter_config.json", "adapter_model.bin"), "merge_and_unload"),
        (("model.npz", "decoder.yml", "vocab.spm"), "convert_marian_to_pytorch"),
        (("m.npz", "m.npz.decoder.yml"), "convert_marian_to_pytorch --src DIR"),
        (("model.bin", "config.json", "shared_vocabulary.json"), "CTranslate2"),
        (("config.json", "tf_model.h5"), "from_tf=True"),
        (("q4.gguf",), "llama.cpp"),
        (("config.json", "encoder_model.onnx"), "ONNX"),
    ],
)
def test_files_that_are_no_model_yet_say_how_to_make_one(
    tmp_path: Path, files: tuple[str, ...], reason: str
) -> None:
    for name in files:
        (tmp_path / name).write_text("{}")
    for path in (tmp_path, *tmp_path.glob("*.npz")):
        with pytest.raises(CheckpointError, match=reason):
            open_tracer(path)
    if "convert_marian" not in reason:  # a file of maps beside them opens
        assert open_tracer(save_arrays(make_trace(), tmp_path / "maps.npz")).kinds
    with pytest.raises(CheckpointError, match=reason):
        FORMATS["marian"].convert(tmp_path, tmp_path / "out")
