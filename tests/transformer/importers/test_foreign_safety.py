"""Untrusted fairseq and JoeyNMT models: one line states the fault, nothing is left behind."""

from __future__ import annotations

import argparse
import contextlib
import pickle
import shutil
import subprocess
import sys
import types
import zipfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from tests.transformer.damage import Damage, Evil, content, cut, write
from tests.transformer.importers.foreign import fairseq, joeynmt, written
from transformer.__main__ import main
from transformer.catalogue import list_entries
from transformer.errors import CheckpointError
from transformer.importers.pieces import restrict
from transformer.importers.registry import FORMATS
from transformer.importers.torch_content import explanation
from transformer.text.tokenizer import TokenizerError

KEYS = {"fairseq": "model", "joeynmt": "model_state"}
FILES = {"fairseq": "checkpoint_best.pt", "joeynmt": "7.ckpt"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("foreign")
    fairseq(root / "fairseq", "post-norm, all shared")
    fairseq(root / "fairseq apart", "pre-norm, nothing shared")
    joeynmt(root / "joeynmt", "pre-norm, other ids")
    joeynmt(root / "joeynmt merges", "post-norm, separate")
    return root


def weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Damage:
    return content(lambda values: change(values[KEYS["fairseq" if "cfg" in values else "joeynmt"]]))


def args(**changes: Any) -> Damage:
    """Change settings of a fairseq model; ... removes one."""

    def change(values: dict[str, Any]) -> None:
        settings = vars(values["cfg"]["model"])
        settings |= changes
        for name in [name for name, value in settings.items() if value is ...]:
            del settings[name]

    return content(change)


def config(*where: str, **changes: Any) -> Damage:
    """Change settings of a JoeyNMT model, in a group."""

    def damage(folder: Path) -> None:
        path = folder / "config.yaml"
        values = yaml.safe_load(path.read_text())
        group = values
        for name in where:
            group = group[name]
        group |= changes
        path.write_text(yaml.safe_dump(values))

    return damage


def remove(name: str) -> Damage:
    return lambda folder: (folder / name).unlink()


def append(name: str, text: str) -> Damage:
    return lambda folder: (folder / name).write_text((folder / name).read_text() + text)


F_FC, J_FC = "encoder.layers.0.fc1.weight", "encoder.layers.0.feed_forward.pwff_layer.0.weight"
TINY = {
    f"{stack}_{name}": size
    for stack in ("encoder", "decoder")
    for name, size in (("embed_dim", 4), ("attention_heads", 1), ("ffn_embed_dim", 1))
}
LAUGHS = "a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n" for old, new in pairwise("abcdefg")
)

FAIRSEQ: dict[str, tuple[Damage, str]] = {
    "a billion layers": (args(encoder_layers=10**9), "parameters; at most"),
    "many tiny layers": (args(decoder_layers=9_000, **TINY), "at most 200"),
    "a huge table": (args(encoder_learned_pos=True, decoder_learned_pos=True,
                          max_source_positions=10**12, max_target_positions=10**12),
                     "parameters; at most"),
    "a size as text": (args(encoder_embed_dim="24"), "encoder_embed_dim='24'"),
    "a size of nothing": (args(encoder_ffn_embed_dim=0), "encoder_ffn_embed_dim=0"),
    "heads that do not fit": (args(encoder_attention_heads=5), "multiple of"),
    "widths that differ": (args(decoder_embed_dim=48), "is not encoder_embed_dim=24"),
    "an activation": (args(activation_fn="gelu_accurate"), "relu, gelu, swish, silu"),
    "half pre-norm": (args(encoder_normalize_before=True), "as encoder_normalize_before=True"),
    "layer norm on embeddings": (args(layernorm_embedding=True), "layernorm_embedding=True"),
    "an adaptive softmax": (args(adaptive_softmax_cutoff=[5, 9]), "adaptive_softmax_cutoff"),
    "a flag as text": (args(no_scale_embedding="no"), "no_scale_embedding='no'"),
    "dropout": (args(dropout=float("nan")), "dropout=nan"),
    "no settings": (content(lambda c: c.update(cfg=None)), "no settings of a model"),
    "no weights": (content(lambda c: c.pop("model")), "'model' is not a state dict"),
    "weights that are none": (weights(lambda s: s.update(x="y")), "'model' is not a state dict"),
    "a sparse tensor": (weights(lambda s: s.update({F_FC: s[F_FC].to_sparse()})),
                        r"checkpoint_best\.pt: "),
    "a language as a path": (
        content(lambda c: setattr(c["cfg"]["task"], "source_lang", "../../x")), "source_lang="),
    "no file": (remove("checkpoint_best.pt"), r"checkpoint_best\.pt: the file is missing"),
    "several": (lambda f: shutil.copy((f / "checkpoint_best.pt").rename(f / "a.pt"), f / "b.pt"),
                r"several checkpoints \(a\.pt, b\.pt\)"),
    "half copied": (cut("checkpoint_best.pt", 0.5), r"checkpoint_best\.pt: not a whole"),
    "empty": (write("checkpoint_best.pt", b""), r"checkpoint_best\.pt: not a whole"),
    "NaN": (weights(lambda s: s[F_FC].view(-1).__setitem__(3, float("nan"))), f"{F_FC}.* NaN"),
    "another width": (args(encoder_ffn_embed_dim=48), "has shape .* its configuration asks"),
    "a tensor less": (weights(lambda s: s.pop(F_FC)), f"{F_FC}' is missing"),
    "a tensor more": (weights(lambda s: s.update(x=torch.ones(1))), "'x' does not belong"),
    "whole numbers": (weights(lambda s: s.update({F_FC: s[F_FC].int()})), r"stored as torch\.int"),
    "ties that differ": (weights(lambda s: s.update({
        "decoder.output_projection.weight": s["decoder.embed_tokens.weight"] + 1})), "ties them"),
    "no dictionary": (remove("dict.de.txt"), r"dict\.de\.txt: the file is missing"),
    "dictionaries that differ": (append("dict.de.txt", "more 1\n"), "pieces"),
    "another dictionary": (lambda f: [append(f"dict.{each}.txt", "more 1\n")(f)
                                      for each in ("en", "de")], r"dict\.en\.txt: \d+ pieces"),
    "a piece twice": (lambda f: [append(f"dict.{each}.txt", "madeupword0000 1\n")(f)
                                 for each in ("en", "de")], "a piece twice"),
    "a line that is none": (append("dict.en.txt", "nocount\n"), r"line \d+ is not a piece"),
    "a dictionary of bytes": (write("dict.en.txt", b"\xff\xfe 1\n"), r"dict\.en\.txt: not UTF-8"),
    "merges that are none": (write("bpe.codes", b"#version: 0.2\na b c\n"), r"bpe\.codes: line 2"),
    "merges of another model": (write("bpe.codes", b"#version: 0.2\nq x\nqx y\n"),
                                r"bpe\.codes: only 0 of the 2"),
    "two ways to cut": (write("spm.model", b"x"), r"spm\.model and bpe\.codes; keep"),
}  # fmt: skip

JOEYNMT: dict[str, tuple[Damage, str]] = {
    "a billion layers": (config("model", "encoder", num_layers=10**9), "parameters; at most"),
    "a recurrent model": (config("model", "encoder", type="recurrent"), "type='recurrent'"),
    "a size as text": (config("model", "decoder", ff_size="40"), r"model\.decoder\.ff_size='40'"),
    "an activation": (config("model", "encoder", activation="tanh"), "relu, gelu, swish, silu"),
    "activations that differ": (config("model", "decoder", activation="gelu"), "the encoder's"),
    "norms that differ": (config("model", "decoder", layer_norm="post"), "the encoder's 'pre'"),
    "a weighted sum": (config("model", "encoder", alpha=1.4), "alpha=1.4"),
    "widths that differ": (config("model", "decoder", hidden_size=48), "hidden_size=24"),
    "scales that differ": (config("model", "decoder", "embeddings", scale=False), "scale=False"),
    "heads that do not fit": (config("model", "encoder", num_heads=5), "multiple of"),
    "no model": (config(model=3), "model=3 is not a group"),
    "ids twice": (config("data", "special_symbols", pad_id=2), "different from the other"),
    "an id elsewhere": (config("data", "special_symbols", eos_id=40), "is not piece"),
    "a language as a path": (config("data", "src", lang="../en",
                                    tokenizer_cfg={"model_file": "x", "pretokenizer": "moses"}),
                             "lang='../en'"),
    "a cutter": (config("data", "src", tokenizer_type="wordpiece"), "sentencepiece, subword-nmt"),
    "a cutter without a file": (config("data", "src", tokenizer_cfg={"alpha": 1}), "model_file="),
    "a path that is none": (config("data", "src", tokenizer_cfg={"model_file": "a/.."}),
                            "names no file"),
    "a model elsewhere": (config("data", "src", tokenizer_cfg={"model_file": "/etc/passwd"}),
                          r"passwd: the file is missing"),
    "a level": (config("data", "src", level="byte"), "word, bpe, char"),
    "tags that are none": (config("data", "special_symbols", lang_tags=3), "lang_tags"),
    "no config": (remove("config.yaml"), r"config\.yaml: the file is missing"),
    "not YAML": (write("config.yaml", b"a: [1,"), r"config\.yaml: not valid YAML"),
    "YAML with code": (write("config.yaml", b"a: !!python/object/apply:os.getcwd []"), "not valid"),
    "YAML nested": (write("config.yaml", b"[" * 5_000), r"config\.yaml: "),
    "YAML that unfolds": (write("config.yaml", LAUGHS.encode()), "more than 20,000 values"),
    "YAML within itself": (write("config.yaml", b"a: &a\n  b: *a\n"), "more than 20,000 values"),
    "a list": (write("config.yaml", b"- 1"), "expected groups"),
    "bytes": (write("config.yaml", b"\xff"), "not UTF-8"),
    "no file": (remove("7.ckpt"), r"best\.ckpt: the file is missing"),
    "half copied": (cut("7.ckpt", 0.5), r"7\.ckpt: not a whole"),
    "NaN": (weights(lambda s: s[J_FC].view(-1).__setitem__(3, float("inf"))), f"{J_FC}.* NaN"),
    "another width": (config("model", "encoder", ff_size=48), r"has shape .*config\.yaml asks"),
    "a tensor less": (weights(lambda s: s.pop(J_FC)), f"{J_FC}' is missing"),
    "a tensor more": (weights(lambda s: s.update(x=torch.ones(1))), "'x' does not belong"),
    "no last norm": (weights(lambda s: [s.pop(f"encoder.layer_norm.{each}")
                                        for each in ("weight", "bias")]), "layer_norm='pre'"),
    "positions": (weights(lambda s: s["encoder.pe.pe"].fill_(torch.nan)), "pe' holds NaN"),
    "positions of whole numbers": (
        weights(lambda s: s.update({"encoder.pe.pe": s["encoder.pe.pe"].int()})),
        "pe' is stored as torch.int32",
    ),
    "positions of a shape": (weights(lambda s: s.update({"encoder.pe.pe": torch.ones(3)})),
                             r"asks for \[1, 1, 24\]"),
    "no vocabulary": (remove("trg_vocab.txt"), r"trg_vocab\.txt: the file is missing"),
    "another vocabulary": (append("trg_vocab.txt", "more\n"), r"trg_vocab\.txt: \d+ pieces"),
    "no special tokens": (write("src_vocab.txt", b"x\ny\n"), r"src_vocab\.txt: 6 pieces"),
    "a model of another": (lambda f: (f / "sp.en.model").write_bytes(
        (f / "sp.de.model").read_bytes()[:200]), r"sp\.en\.model: "),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "name"),
    [*(("fairseq", each) for each in FAIRSEQ), *(("joeynmt", each) for each in JOEYNMT)],
)
def test_what_is_wrong_is_said_in_one_line(
    kind: str, name: str, whole: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(whole / kind, tmp_path / "theirs"))
    damage, reason = {"fairseq": FAIRSEQ, "joeynmt": JOEYNMT}[kind][name]
    damage(folder)
    with pytest.raises(CheckpointError, match=reason) as caught:
        FORMATS[kind].convert(folder, tmp_path / "ours")
    assert "\n" not in str(caught.value)
    assert str(caught.value).count(str(folder)) == 1
    assert [each.name for each in tmp_path.iterdir()] == ["theirs"]


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("where", ["bare", "weights", "settings"])
def test_a_pickle_cannot_run_code(kind: str, where: str, whole: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(whole / kind, tmp_path / "theirs"))
    path, trace = folder / FILES[kind], tmp_path / "ran"
    if where == "bare":
        path.write_bytes(pickle.dumps(Evil(trace)))
    elif where == "weights":
        torch.save({KEYS[kind]: {F_FC: Evil(trace)}}, path)
    else:
        torch.save({"args": argparse.Namespace(x=Evil(trace)), KEYS[kind]: {}}, path)
    with pytest.raises(CheckpointError, match=FILES[kind]) as caught:
        FORMATS[kind].convert(folder, tmp_path / "ours")
    assert "\n" not in str(caught.value)
    if where != "bare":
        assert f"import {kind} --explain` prints how to convert it" in str(caught.value)
    assert not trace.exists()
    pickle.loads(pickle.dumps(Evil(trace)))  # noqa: S301 - the payload itself does work
    assert trace.exists()


def test_a_namespace_cannot_be_made_to_call_anything(whole: Path, tmp_path: Path) -> None:
    """A namespace's values stay attributes, even under names that pickle calls."""
    folder = Path(shutil.copytree(whole / "fairseq", tmp_path / "theirs"))
    path = folder / "checkpoint_best.pt"
    values = written(path)
    settings = values["cfg"]["model"]
    settings.__dict__["__setstate__"] = "called"
    settings.__dict__["__reduce__"] = "called"
    torch.save(values, path)
    assert FORMATS["fairseq"].convert(folder, tmp_path / "ours").is_dir()


def test_an_archive_that_would_grow_is_refused(whole: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(whole / "joeynmt", tmp_path / "theirs"))
    plain = folder / "7.ckpt"
    with (
        zipfile.ZipFile(plain) as old,
        zipfile.ZipFile(tmp_path / "packed", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for each in old.infolist():
            packed.writestr(each.filename, old.read(each))
    (tmp_path / "packed").rename(plain)
    with pytest.raises(CheckpointError, match="compressed archive"):
        FORMATS["joeynmt"].convert(folder, tmp_path / "ours")


def test_merges_and_dictionaries_of_two_models(whole: Path, tmp_path: Path) -> None:
    """Files of another model beside the weights are noticed, however they differ."""
    folder = Path(shutil.copytree(whole / "joeynmt merges", tmp_path / "theirs"))
    (folder / "codes.de").write_text("#version: 0.2\nq x\nqx y\n")
    with pytest.raises(CheckpointError, match=r"codes\.de: only 0 of the 2 pieces"):
        FORMATS["joeynmt"].convert(folder, tmp_path / "ours")
    folder = Path(shutil.copytree(whole / "fairseq apart", tmp_path / "others"))
    for language in ("en", "de"):
        (folder / f"spm.{language}.model").unlink()
    with pytest.raises(CheckpointError, match=r"dict\.de\.txt: its pieces are SentencePiece's"):
        FORMATS["fairseq"].convert(folder, tmp_path / "ours")


def test_an_existing_folder_is_left_alone(whole: Path, tmp_path: Path) -> None:
    for kind in KEYS:
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "mine.txt").write_text("mine")
        with pytest.raises(CheckpointError, match="exists already"):
            FORMATS[kind].convert(whole / kind, tmp_path / kind)
        assert (tmp_path / kind / "mine.txt").read_text() == "mine"


def test_what_was_imported_is_checked_when_it_is_opened(whole: Path, tmp_path: Path) -> None:
    path = FORMATS["fairseq"].convert(whole / "fairseq", tmp_path / "root" / "ours")
    (path / "tokenizer_rules.json").write_text('{"unit": "merges", "merges": [["a"]]}')
    (entry,) = list_entries([tmp_path / "root"])
    assert entry.error is not None
    assert "tokenizer_rules.json: merges are pairs of texts" in entry.error


@pytest.mark.parametrize("kind", KEYS)
def test_the_command_line(
    kind: str, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "ours"
    assert main(["import", kind, str(whole / kind / FILES[kind]), "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    arguments = ["translate", "--checkpoint", str(out), "--beam", "1", "A dog", "--device", "cpu"]
    assert main(arguments) == 0
    capsys.readouterr()
    assert main(["import", kind, str(whole / kind), "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "exists already" in error
    assert main(["import", kind, str(tmp_path / "nowhere"), "--out", str(tmp_path / "x")]) == 2
    for wrong in (["import", kind], ["import", "joeynmt", "x", "--out", "y", "--moses"],
                  ["import", "marian", "--explain"]):  # fmt: skip
        with pytest.raises(SystemExit) as stopped:
            main(wrong)
        assert stopped.value.code == 2


@pytest.mark.parametrize("kind", KEYS)
def test_a_refused_file_can_be_converted_as_the_message_says(
    kind: str, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With classes of a package that is not installed at the conversion."""
    folder = Path(shutil.copytree(whole / kind, tmp_path / "theirs"))
    path = folder / FILES[kind]
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
    assert main(["import", kind, "--explain"]) == 0
    printed = capsys.readouterr().out
    assert printed == explanation(kind)
    (tmp_path / "convert.py").write_text(printed)
    subprocess.run(
        [sys.executable, tmp_path / "convert.py", path, tmp_path / "new"], check=True, timeout=280
    )
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
