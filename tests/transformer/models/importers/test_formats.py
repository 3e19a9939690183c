import contextlib
import itertools
import json
import os
import runpy
import shutil
import sys
import threading
import types
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from tests.factories import make_trace
from tests.forks import forked
from tests.tiny_models import random_model
from tests.transformer.conftest import Command
from tests.transformer.damage import torch_file
from tests.transformer.models.huggingface import models as huggingface
from tests.transformer.models.huggingface.models import make_folder
from tests.transformer.models.importers.foreign import MODELS, fairseq, written
from transformer.checkpoint.folder import save_checkpoint
from transformer.config import ModelConfig
from transformer.models.arrays.trace_file import save_arrays
from transformer.models.catalogue import inspect_entry, open_tracer
from transformer.models.importers.pieces import restrict
from transformer.models.importers.registry import FORMATS, put_in_place
from transformer.models.importers.torch_content import explanation
from transformer.text.tokenizer import Tokenizer, TokenizerError
from transformer.types import CheckpointError

pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers


def test_an_import_knows_a_folder_says_how_far_it_is_and_can_be_stopped(tmp_path: Path) -> None:
    make_folder(tmp_path / "theirs", "separate vocabularies")
    assert [each.name for each in FORMATS.values() if each.fits(tmp_path / "theirs")] == ["marian"]
    heard: list[tuple[int, int]] = []
    FORMATS["marian"].convert(
        tmp_path / "theirs", tmp_path / "ours", report=lambda *how_far: heard.append(how_far)
    )
    assert inspect_entry(tmp_path / "ours").ok
    assert heard == sorted(heard) and len({most for _, most in heard}) == 1
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


@pytest.mark.parametrize(("files", "reason"), [
    (("adapter_config.json", "adapter_model.safetensors"), "merge_and_unload"),
    (("config.json", "adapter_config.json", "adapter_model.bin"), "merge_and_unload"),
    (("model.npz", "decoder.yml", "vocab.spm"), "convert_marian_to_pytorch"),
    (("m.npz", "m.npz.decoder.yml"), "convert_marian_to_pytorch --src DIR"),
    (("model.bin", "config.json", "shared_vocabulary.json"), "CTranslate2"),
    (("config.json", "tf_model.h5"), "from_tf=True"),
    (("q4.gguf",), "llama.cpp"),
    (("config.json", "encoder_model.onnx"), "ONNX"),
])  # fmt: skip
def test_files_to_convert_say_how(tmp_path: Path, files: tuple[str, ...], reason: str) -> None:
    for name in files:
        (tmp_path / name).write_text("{}")
    for path in (tmp_path, *tmp_path.glob("*.npz")):
        with pytest.raises(CheckpointError, match=reason):
            open_tracer(path)
    if "convert_marian" not in reason:  # a file of maps beside them opens
        assert open_tracer(save_arrays(make_trace(), tmp_path / "maps.npz")).kinds
    with pytest.raises(CheckpointError, match=reason):
        FORMATS["marian"].convert(tmp_path, tmp_path / "out")


WEIGHTS = {
    "own": "model.safetensors", "own-torch": "model.pt", "marian": "model.safetensors",
    "marian-torch": "pytorch_model.bin", "hf": "model.safetensors", "hf-torch": "pytorch_model.bin",
    "fairseq": "checkpoint_best.pt",
}  # fmt: skip
#: Kinds whose tensors are all read into memory before the first is used.
AT_ONCE = {kind for kind, name in WEIGHTS.items() if not name.endswith(".safetensors")} | {"marian"}


def make(kind: str, folder: Path, tokenizer: Tokenizer) -> None:
    if kind.startswith("own"):
        config = ModelConfig(
            vocab_size=tokenizer.vocab_size, d_model=128, n_heads=4, d_ff=256, n_encoder_layers=3,
            n_decoder_layers=2,
        )  # fmt: skip
        save_checkpoint(folder, random_model(config), tokenizer)
    elif kind.startswith("marian"):
        huggingface.make_folder(folder, "separate vocabularies", d_model=96)
    elif kind.startswith("hf"):
        huggingface.make("t5", folder)
    else:
        fairseq(folder, "pre-norm, nothing shared")
    if kind.endswith("torch"):
        torch_file(lambda state: state, WEIGHTS[kind])(folder)


def load(kind: str, path: Path) -> str:
    made = path.parent.parent / "made"
    try:
        if kind in FORMATS:
            FORMATS[kind].convert(path.parent, made)
        else:
            open_tracer(path.parent, "cpu")
    except CheckpointError as error:
        if path.name not in str(error) and "changes while it is read" not in str(error):
            raise
        return "refused"
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return "whole"


def survive(kind: str, path: Path, trials: int) -> None:
    """Load a folder while its weights are truncated at each tensor in turn, then overwritten."""
    torch.set_num_threads(1)
    whole, real = path.read_bytes(), torch.isfinite  # looks at each tensor that is read
    ends: Counter[str] = Counter()
    for cut_at in (1, 2, 7):
        calls = itertools.count(1)

        def finite(tensor: torch.Tensor, at: int = cut_at, calls: Any = calls) -> torch.Tensor:
            if next(calls) == at:
                os.truncate(path, 0)
            return real(tensor)

        torch.isfinite = finite
        ends[load(kind, path)] += 1
        torch.isfinite = real
        path.write_bytes(whole)
    over = threading.Event()

    def overwrite() -> None:
        while not over.is_set():
            with open(path, "wb", buffering=0) as file:
                for begin in range(0, len(whole), 65536):
                    file.write(whole[begin : begin + 65536])
            over.wait(0.02)

    writer = threading.Thread(target=overwrite)
    writer.start()
    try:
        ends.update(load(kind, path) for _ in range(trials))
    finally:
        over.set()
        writer.join()
    ends[load(kind, path)] += 1
    os.write(1, json.dumps(ends).encode())


def check_survival(
    kinds: Sequence[str], trials: int, tmp_path: Path, tiny_tokenizer: Tokenizer
) -> None:
    """Load models in a child process while their weights change."""
    for kind in kinds:
        folder = tmp_path / kind / "model"
        folder.parent.mkdir()
        make(kind, folder, tiny_tokenizer)
        work = partial(survive, kind.partition("-")[0], folder / WEIGHTS[kind], trials)
        status, said = forked(work, tmp_path / "log")
        assert status == 0, f"{status}: {said[-2000:]}"
        counts = json.loads(said)
        assert sum(counts.values()) == 3 + trials + 1 and counts["whole"] >= 1
        assert counts.get("refused", 0) >= (0 if kind in AT_ONCE else 3)


def test_the_process_survives(tmp_path: Path, tiny_tokenizer: Tokenizer) -> None:
    check_survival(("own",), 1, tmp_path, tiny_tokenizer)
