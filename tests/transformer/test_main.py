import gzip
import io
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.factories import make_trace
from tests.forks import ENVIRONMENT
from tests.random_stacks import random_stack
from tests.servers import free_port
from tests.snapshots import write_snapshots
from tests.tiny_models import SENTENCES
from tests.transformer.conftest import Command, Ran
from tests.waiting import wait_until
from transformer.__main__ import _command, main
from transformer.checkpoint.folder import load_checkpoint, save_checkpoint
from transformer.config import ModelConfig
from transformer.models.arrays.trace_file import save_arrays
from transformer.models.one_stack.model import load_stack, save_stack
from transformer.search.records import Translation
from transformer.search.rules import Sampling
from transformer.text.tokenizer import Tokenizer
from transformer.translator import Translator

ROOT = Path(__file__).parents[2]


class Stdin(io.TextIOWrapper):
    """Standard input with these bytes."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BufferedReader(io.BytesIO(data)), encoding="utf-8")  # type: ignore[arg-type]


@pytest.fixture
def translated(
    tiny_checkpoint: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> Callable[[bytes], Ran]:
    def run(data: bytes) -> Ran:
        monkeypatch.setattr("sys.stdin", Stdin(data))
        return command("translate", "--checkpoint", tiny_checkpoint, "--beam", 2)

    return run


def test_arguments(tiny_checkpoint: Path, tiny_translator: Translator, command: Command) -> None:
    sentences = [SENTENCES[0], "", SENTENCES[4]]
    expected = "".join(f"{done.text}\n" for done in tiny_translator.translate(sentences))
    assert command("translate", "--checkpoint", tiny_checkpoint, *sentences) == (0, expected, "")
    other = tiny_translator.edited("off cross; no positions").translate(sentences[:1])[0].text
    edits = ["--edit", "no positions; off cross"]
    ran = command("translate", "--checkpoint", tiny_checkpoint, *edits, sentences[0])
    assert ran.out == f"{other}\n" and other not in expected


@pytest.mark.parametrize("end", [b"\n", b"", b"\r\n"])
def test_lines(tiny_translator: Translator, translated: Callable[[bytes], Ran], end: bytes) -> None:
    lines = [SENTENCES[6], "", "  ", SENTENCES[0], "A \x0c\u2028\x85 dog", "\x00", SENTENCES[4]]
    data = (b"\r\n" if end == b"\r\n" else b"\n").join(line.encode() for line in lines) + end
    expected = [done.text for done in tiny_translator.translate(lines, beam_size=2)]
    assert translated(data) == (0, "".join(f"{text}\n" for text in expected), "")
    assert expected[1] == expected[2] == expected[5] == ""


@pytest.mark.parametrize(("data", "status", "lines", "comment"), [
    (b"", 0, 0, ""), (b"\xff\xfe\n\n", 0, 2, ""),
    (b"A dog.\n\n" + b"dog " * 1000 + b"\nA cat.\n", 2, 2, r".*: line 3: .* at most 512.*\n"),
    ("A dog.\n漢 Ж\n\n漢\n".encode(), 0, 4, "lines 2, 4: the model does not know '漢', 'Ж'\n"),
], ids=["none", "not UTF-8", "too long", "unknown"])  # fmt: skip
def test_problems_of_a_line_are_reported_beside_the_answers(
    translated: Callable[[bytes], Ran], data: bytes, status: int, lines: int, comment: str
) -> None:
    ran = translated(data)
    assert (ran.status, ran.out.count("\n")) == (status, lines) and re.fullmatch(comment, ran.err)


def test_a_loop_is_named_beside_the_whole_translation(
    translated: Callable[[bytes], Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    looped, real = "Ein Tag" + " und ein Hund" * 4, Translator.translate

    def loop(self: Translator, sentences: Sequence[str], *a: Any, **k: Any) -> list[Translation]:
        pairs = zip(real(self, sentences, *a, **k), sentences, strict=True)
        return [replace(done, text=looped, complete="cat" in text) for done, text in pairs]

    monkeypatch.setattr(Translator, "translate", loop)
    comment = "line 1: the model repeats 'und ein Hund' up to the length limit\n"
    assert translated(b"A dog.\nA cat.\n") == (0, f"{looped}\n" * 2, comment)


def test_streams_that_are_closed(
    tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{name}", None)
    for sentences in ([], ["A dog."]):
        assert main(["translate", "--checkpoint", str(tiny_checkpoint), *sentences]) == 0
    assert capsys.readouterr().err == ""
    for stream in (sys.stdin, sys.stdout):
        stream.close()


#: Commands, with `$` for the tiny checkpoint and `~` for an empty folder, and their errors.
BAD = {
    "translate --checkpoint ~/none x": "none: no such checkpoint",
    "translate --checkpoint $ --beam 0 x": "beam size 0",
    "translate --checkpoint $ --beam x x": "'x'",
    "translate --checkpoint $ --alpha -11 x": "alpha -11.0",
    "translate --checkpoint $ --device tpu x": "device 'tpu'",
    "translate --checkpoint $ --edit 'off cross.4' x": "cross has layers 1 to 3",
    "translate --checkpoint $ --temperature 0.5 x": "--temperature 0.5 needs --sample",
    "translate --checkpoint $ --seed 0 x": "--seed 0 needs --sample",
    "translate --checkpoint $ --sample --top-p 2 x": "top_p 2.0",
    "translate --checkpoint $ --sample --beam 4 x": "a beam size of 1, not 4",
    "translate --checkpoint ~/bad x": "model.safetensors: not a whole",
    "": "COMMAND", "fly": "'fly'", "show": "FILE.npz",
    "trace --checkpoint $ --src A --out ~/no/x.npz": "no/",
    "trace --checkpoint $ --src A --out ~/..": "Is a directory",
    "trace --checkpoint $ --src A --out ''": "out: is empty",
    "trace --checkpoint $ --src A --tgt B --sample --out x": "cannot be combined with --tgt",
    "train tiny --data ~ --out ''": "out: is empty",
    "train huge --data ~ --out ~/run": "huge",
    # Reported before anything is read.
    "evaluate --checkpoint $ --src x --ref y --output ~/nowhere/x": "nowhere/x: No such file",
    "evaluate --checkpoint $ --src ~/no.en --ref ~/no.de": "no.en",
    "info ~/none": "none: no such checkpoint",
    "show ~/none.npz": "none.npz: no such file",
    "show ~/cut.npz --html ~/x.html": "not a whole .npz file",
    "show ~/ok.npz --port 0": "--port 0 is not a port",
    "show ~/ok.npz --port 8000 --html x.html": "--html does not start",
    "import fairseq": "give DIR and --out PATH",
    "import joeynmt x --out y --moses": "--moses is for fairseq",
    "import marian --explain": "marian files need no conversion",
}  # fmt: skip


@pytest.mark.parametrize("case", BAD, ids=lambda case: case[:40])
def test_bad_input_has_status_2(
    tiny_checkpoint: Path, tmp_path: Path, command: Command, case: str
) -> None:
    (shutil.copytree(tiny_checkpoint, tmp_path / "bad") / "model.safetensors").write_bytes(b"short")
    (tmp_path / "cut.npz").write_bytes(b"PK")
    save_arrays(make_trace(S=5, T=4), tmp_path / "ok.npz")
    places = str.maketrans({"$": str(tiny_checkpoint), "~": str(tmp_path)})
    line = command(*(each.translate(places) for each in shlex.split(case))).refused
    assert BAD[case] in line and line.endswith("\n") and not (tmp_path / "x.html").exists()


def test_evaluate_prints_json(tiny_checkpoint: Path, tmp_path: Path, command: Command) -> None:
    src, ref, out = tmp_path / "t.en", tmp_path / "t.de.gz", tmp_path / "out.txt"
    src.write_text("".join(f"{line}\n" for line in SENTENCES[::2]), encoding="utf-8")
    ref.write_bytes(gzip.compress("".join(f"{line}\n" for line in SENTENCES[1::2]).encode()))
    files = ["--src", src, "--ref", ref, "--output", out]
    common = ["evaluate", "--checkpoint", tiny_checkpoint, *files, "--beam", 1]
    values = json.loads(command(*common, "--json", "--protocol", "multi30k-lc-tok").out)
    assert {"bleu", "chrf", "signature", "tokens_per_second", "lc_tok_bleu"} <= set(values)
    assert values["sentences"] == len(out.read_text(encoding="utf-8").splitlines()) == 5
    printed = command(*common).out
    assert "nrefs:1|case:mixed" in printed and "lc_tok_bleu" not in printed


@pytest.mark.parametrize(("options", "asked"), [
    ("", {}), ("--tgt 'Ein Hund rennt.'", {"target": "Ein Hund rennt."}),
    ("--sample --temperature=1.5 --sample-top-k=9 --top-p=0.9 --seed=4 --prefix Das",
     {"beam_size": 1, "prefix": "Das", "sampling": Sampling(1.5, 9, 0.9, 4)}),
])  # fmt: skip
def test_trace_writes_arrays(
    tiny_checkpoint: Path, tiny_translator: Translator, tmp_path: Path, command: Command,
    options: str, asked: dict[str, Any],
) -> None:  # fmt: skip
    where = ["--checkpoint", tiny_checkpoint, "--src", SENTENCES[0], "--out", tmp_path / "trace"]
    assert command("trace", *where, *shlex.split(options)).status == 0
    expected = tiny_translator.trace(SENTENCES[0], **asked)
    with np.load(tmp_path / "trace.npz", allow_pickle=False) as arrays:
        for name in ("encoder_self", "decoder_self", "cross", "log_probs", "top_log_probs"):
            np.testing.assert_allclose(arrays[name], getattr(expected, name), atol=1e-5)
        for name in ("src_tokens", "predicted_tokens", "text", "forced", "n_forced"):
            assert np.array_equal(arrays[name], getattr(expected, name))
        assert arrays["top_tokens"].shape == arrays["top_ids"].shape


@pytest.mark.parametrize("name", ["translate", "trace", "info", "parse", "complete"])
def test_a_command_opens_a_moment_of_training(
    name: str, tiny_checkpoint: Path, tiny_parser: Path, tiny_config: ModelConfig,
    tiny_tokenizer: Tokenizer, tmp_path: Path, command: Command,
) -> None:  # fmt: skip
    folder, ours = tmp_path / "it", name == "complete"
    if ours:
        save_stack(folder, *random_stack("continue", tiny_config, tiny_tokenizer))
    else:
        shutil.copytree(tiny_parser if name == "parse" else tiny_checkpoint, folder)
        (folder / "metrics.json").unlink(missing_ok=True)
    write_snapshots(folder)
    found = (load_stack if ours else load_checkpoint)(f"{folder}@20")
    (save_stack if ours else save_checkpoint)(tmp_path / "same", found.model, found.tokenizer)
    results, out = [], str(tmp_path / "out.npz")
    text = ["--src", "The cat sat.", "--out", out] if name == "trace" else ["The cat sat."]
    for place in ("it@20", "same"):
        path = str(tmp_path / place)
        model = ["--checkpoint", path, "--device", "cpu", *text]
        ran = command(name, *([path, "--json"] if name == "info" else model))
        assert ran.status == 0, ran.err
        results.append(ran.out)
        if name == "trace":
            with np.load(out) as arrays:
                results[-1] = str(arrays["cross"].tolist())
    if name == "info":
        results = [{**json.loads(text), "name": 0, "path": 0} for text in results]
    assert results[0] == results[1]


def test_info(tiny_checkpoint: Path, tmp_path: Path, command: Command) -> None:
    about = json.loads(command("info", tiny_checkpoint, "--json").out)
    assert about["parameters"] == Translator.load(tiny_checkpoint).config.n_parameters
    assert about["config"]["n_heads"] == 3
    taught = Path(shutil.copytree(tiny_checkpoint, tmp_path / "it"))
    write_snapshots(taught)
    assert json.loads(command("info", taught, "--json").out)["config"] == about["config"]
    broken = tiny_checkpoint.parent / "broken"
    broken.mkdir(exist_ok=True)
    (broken / "config.json").write_text("{")
    ran = command("info", tiny_checkpoint.parent)
    assert ran.status == 0 and all(t in ran.out for t in ("tiny", "broken: ", "n_heads: 3"))


def test_a_program_that_waits_for_each_answer(tiny_checkpoint: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "transformer", "translate", "--checkpoint", str(tiny_checkpoint),
         "--beam", "1"],
        cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        # A test run in the background has interrupts ignored, and its children would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    answers = []
    for line in ("A dog runs.", "", "The cat sat."):
        process.stdin.write(line.encode() + b"\n")
        process.stdin.flush()
        answers.append(process.stdout.readline())
    assert [answer[-1:] for answer in answers] == [b"\n"] * 3 and answers[1] == b"\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and b"Traceback" not in err


def test_an_import_that_is_interrupted_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run() -> int:  # as when compiling a module is interrupted
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("initialization failed") from None
        return 0

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        monkeypatch.setattr("transformer.__main__.main", run)
        assert _command() == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize("arguments", [
    "evaluate --checkpoint x --src x --ref x", "publish x --data x --out x",
    "ablations --data x --out x",
])  # fmt: skip
def test_a_command_that_scores_asks_for_its_extra(
    arguments: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(sys.modules):
        if name.startswith(("sacrebleu", "transformer.evaluation.")):
            package, _, module = name.rpartition(".")
            if package in sys.modules:  # which holds the module too, and gets it back
                monkeypatch.delattr(sys.modules[package], module, raising=False)
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    advice = "needs sacrebleu: pip install .[evaluate]\n"
    assert command(*arguments.split()).refused.endswith(advice)


def test_a_reader_that_leaves_early(
    tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stdout:
        monkeypatch.setattr("sys.stdout", stdout)
        monkeypatch.setattr("sys.stdin", Stdin(b"A dog runs.\n" * 50))
        assert main(["translate", "--checkpoint", str(tiny_checkpoint), "--beam", "1"]) == 0
    assert capsys.readouterr().err == ""


def test_the_app_is_started_on_the_file_and_ended(tmp_path: Path) -> None:
    path = save_arrays(make_trace(S=5, T=4), tmp_path / "one sentence.npz")
    port = free_port()
    command = [sys.executable, "-m", "transformer", "show", str(path), "--port", str(port)]
    shown = subprocess.Popen(
        command, cwd=ROOT, env={**ENVIRONMENT, "HEADLIGHT_CHECKPOINTS": str(path.parent / "x")},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert shown.stdout is not None
        line = shown.stdout.readline()
        address = re.search(r"http://\S+", line)
        assert line.startswith("one sentence.npz is shown at ") and address is not None
        parts = urllib.parse.urlsplit(address[0])
        assert parts.path == "/attention" and parts.port == port
        assert urllib.parse.parse_qs(parts.query) == {"checkpoint": ["one sentence.npz"]}
        assert "Ctrl-C" in shown.stdout.readline()
        with urllib.request.urlopen(address[0], timeout=60) as answer:
            assert answer.status == 200
        shown.send_signal(signal.SIGINT)
        assert shown.wait(60) == 0
    finally:
        shown.kill()
        shown.communicate()
    with socket.socket() as tried:
        assert wait_until(lambda: tried.connect_ex(("localhost", port)) != 0)


def test_dask_asks_for_its_extra(
    tiny_checkpoint: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    line = ["translate", "--checkpoint", tiny_checkpoint, "--dask", "tcp://127.0.0.1:9", "A dog."]
    assert command(*line).refused.endswith("needs distributed: pip install .[cluster]\n")
