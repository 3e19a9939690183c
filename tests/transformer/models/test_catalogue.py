import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.factories import make_trace
from tests.transformer.conftest import Command
from transformer.files.safe import fingerprint
from transformer.models.arrays.trace_file import ArchivedTrace, save_arrays
from transformer.models.catalogue import inspect_entry, list_entries, open_tracer, opened, resolve
from transformer.models.huggingface import files
from transformer.trace.tracer import ABILITIES, LACKS, Tracer
from transformer.translator import Translator
from transformer.types import CheckpointError, InputError


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Path:
    root = tmp_path_factory.mktemp("opening")
    shutil.copytree(tiny_checkpoint, root / "ours")
    save_arrays(make_trace(S=5, T=4), root / "one.npz")
    (root / "half.npz").write_bytes((root / "one.npz").read_bytes()[:500])
    foreign = root / "opus"
    foreign.mkdir()
    (foreign / "config.json").write_text(json.dumps({"model_type": "marian"}))
    (root / "fairseq").mkdir()
    for name in ("model.pt", "dict.en.txt", "dict.de.txt"):
        (root / "fairseq" / name).write_bytes(b"")
    (root / "gpt2").mkdir()
    (root / "gpt2" / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    (root / "notes.txt").write_text("nothing")
    (root / "empty").mkdir()
    (root / ".hidden.npz").write_bytes(b"")
    return root


def test_everything_is_listed_with_what_it_is(root: Path, tmp_path: Path) -> None:
    found = {entry.name: entry for entry in list_entries([root, root / "none", root])}
    assert list(found) == ["fairseq", "gpt2", "half.npz", "one.npz", "opus", "ours"]
    assert {name: entry.kind for name, entry in found.items()} == {
        "fairseq": "foreign", "gpt2": "huggingface", "half.npz": "archive", "one.npz": "archive",
        "opus": "foreign", "ours": "checkpoint",
    }  # fmt: skip
    assert [name for name, entry in found.items() if entry.ok] == ["one.npz", "ours"]
    assert found["one.npz"].about == "One recorded sentence: 3 layers, 3 heads; 2 layers, 3 heads."
    assert found["ours"].config is not None
    for name, words in (
        ("opus", f"python -m transformer import marian {root / 'opus'} --out PATH"),
        ("fairseq", f"python -m transformer import fairseq {root / 'fairseq'} --out PATH"),
        ("half.npz", "not a whole .npz file"),
        ("gpt2", "the file is missing"),
    ):
        error = str(found[name].error)
        assert words in error and "\n" not in error, name
        assert str(root / name) in error
    np.savez(tmp_path / "one.npz", attention=np.eye(3))  # a name in two roots is the first's
    listed = {entry.name: entry.path for entry in list_entries([tmp_path, root])}
    assert listed["one.npz"] == tmp_path / "one.npz"


def test_without_the_library(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gpt2").mkdir()
    (tmp_path / "gpt2" / "config.json").write_text('{"model_type": "gpt2"}')
    (tmp_path / "gpt2" / "pytorch_model.bin").touch()
    monkeypatch.setattr(files.importlib.util, "find_spec", lambda name: None)
    assert "pip install .[hf]" in str(inspect_entry(tmp_path / "gpt2").error)
    with pytest.raises(CheckpointError, match=r"gpt2: .*pip install \.\[hf\]"):
        open_tracer(tmp_path / "gpt2")


def test_what_is_opened_follows_the_protocol_and_an_archive_has_one_sentence(root: Path) -> None:
    ours, one = open_tracer(root / "ours", "cpu"), open_tracer(root / "one.npz")
    assert isinstance(ours, Translator) and isinstance(one, ArchivedTrace)
    for each in (ours, one):
        assert isinstance(each, Tracer)
        assert each.device == "cpu" and each.max_tokens == 512 and len(each.kinds) == 3
    assert not any(ours.lacks(ability) for ability in ABILITIES)
    sentences = [one.lacks(ability) for ability in ABILITIES]
    assert sentences == [LACKS["archive"][ability] for ability in ABILITIES]
    assert all(text and text.endswith(".") for text in sentences)
    one = ArchivedTrace.load(root / "one.npz")
    trace = one.trace(one.sentence, beam_size=3, progress=None)
    assert trace is one.record and trace.source == one.sentence
    with pytest.raises(InputError, match="holds one sentence"):
        one.trace("Another one.")
    with pytest.raises(InputError, match="no other can be given"):
        one.trace(one.sentence, target="Eine andere.")


def test_an_edited_model_is_a_model_of_its_own(root: Path) -> None:
    stored = resolve(root / "ours")
    ref = stored.edited("off cross.1; no positions")
    assert ref != stored and ref.name == stored.name and resolve(ref) == ref
    entry = inspect_entry(ref)
    assert entry == replace(inspect_entry(stored), ref=ref) and inspect_entry(stored).ref == stored
    tracer = open_tracer(ref, "cpu")
    assert isinstance(tracer, Translator)
    plain = Translator.load(stored, "cpu")
    assert tracer.edits == plain.edited(ref.edits).edits
    shared = opened(ref, "cpu", plain)
    assert isinstance(shared, Translator)
    assert shared.model.src_embedding.weight is plain.model.src_embedding.weight
    recorded = resolve(root / "one.npz").edited("off cross")
    with pytest.raises(InputError, match="“off cross”: This file holds recorded attention"):
        open_tracer(recorded, "cpu")


def test_a_change_of_a_file_is_seen(root: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(root / "gpt2", tmp_path / "gpt2")
    path = shutil.copy(root / "one.npz", tmp_path / "one.npz")
    before = fingerprint(folder), fingerprint(path)
    (folder / "tokenizer.json").write_text("{}")
    save_arrays(make_trace(S=4, T=3), path)
    assert fingerprint(folder) != before[0] and fingerprint(path) != before[1]
    assert fingerprint(tmp_path / "none") == ""
    folder = shutil.copytree(root / "ours", tmp_path / "x")
    assert resolve(folder).kind == "checkpoint"
    (folder / "config.json").write_text('{"model_type": "bert"}')
    assert resolve(folder).kind == "huggingface"


def test_info_says_what_a_file_of_arrays_is(root: Path, command: Command) -> None:
    about = inspect_entry(root / "one.npz").about
    assert command("info", root / "one.npz") == (0, f"one.npz\n  {about}\n", "")
    assert json.loads(command("info", "--json", root / "one.npz").out)["kind"] == "archive"
    assert "not a whole .npz file" in command("info", root / "half.npz").refused
    assert "ours\n  parameters: " in command("info", root).out
