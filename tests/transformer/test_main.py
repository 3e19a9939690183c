"""The command line: as a process where that matters, otherwise in-process."""

import gzip
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tiny_models import SENTENCES
from transformer.__main__ import _command, main
from transformer.search.records import Translation
from transformer.translator import Translator

ROOT = Path(__file__).parents[2]


class Stdin(io.TextIOWrapper):
    """Standard input holding these bytes."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BufferedReader(io.BytesIO(data)), encoding="utf-8")  # type: ignore[arg-type]


def translate_stdin(
    data: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.stdin", Stdin(data))
    status = main(["translate", "--checkpoint", str(folder), "--beam", "2"])
    out, err = capsys.readouterr()
    return status, out, err


def test_sentences_as_arguments(
    tiny_checkpoint: Path, tiny_translator: Translator, capsys: pytest.CaptureFixture[str]
) -> None:
    sentences = [SENTENCES[0], "", SENTENCES[4]]
    assert main(["translate", "--checkpoint", str(tiny_checkpoint), *sentences]) == 0
    expected = [each.text for each in tiny_translator.translate(sentences)]
    assert capsys.readouterr().out.split("\n") == [*expected, ""]


@pytest.mark.parametrize("end", [b"\n", b"", b"\r\n"])
def test_lines_in_lines_out(
    tiny_checkpoint: Path,
    tiny_translator: Translator,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    end: bytes,
) -> None:
    lines = [SENTENCES[6], "", "  ", SENTENCES[0], "A \x0c\u2028\x85 dog", "\x00", SENTENCES[4]]
    data = (b"\r\n" if end == b"\r\n" else b"\n").join(line.encode() for line in lines) + end
    status, out, err = translate_stdin(data, tiny_checkpoint, monkeypatch, capsys)
    assert (status, err) == (0, "")
    expected = [each.text for each in tiny_translator.translate(lines, beam_size=2)]
    assert out.split("\n") == [*expected, ""]
    assert expected[1] == expected[2] == expected[5] == ""


@pytest.mark.parametrize(
    ("data", "status", "lines", "said"),
    [
        (b"", 0, 0, ""), (b"\xff\xfe\n\n", 0, 2, ""),
        (b"A dog.\n\n" + b"dog " * 1000 + b"\nA cat.\n", 2, 2, r".*: line 3: .* at most 512.*\n"),
        ("A dog.\n漢 Ж\n\n漢\n".encode(), 0, 4, "lines 2, 4: the model does not know '漢', 'Ж'\n"),
    ],
    ids=["none", "not UTF-8", "too long", "unknown"],
)  # fmt: skip
def test_what_is_wrong_with_a_line_is_said_beside_the_answers(
    tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    data: bytes, status: int, lines: int, said: str,
) -> None:  # fmt: skip
    found, out, err = translate_stdin(data, tiny_checkpoint, monkeypatch, capsys)
    assert (found, out.count("\n")) == (status, lines)
    assert re.fullmatch(said, err)


def test_a_loop_is_named_beside_the_whole_translation(
    tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looped, real = "Ein Tag" + " und ein Hund" * 4, Translator.translate

    def loop(self: Translator, sentences: Sequence[str], *a: Any, **k: Any) -> list[Translation]:
        done = real(self, sentences, *a, **k)
        return [
            replace(each, text=looped, complete="cat" in sentence)
            for each, sentence in zip(done, sentences, strict=True)
        ]

    monkeypatch.setattr(Translator, "translate", loop)
    status, out, err = translate_stdin(b"A dog.\nA cat.\n", tiny_checkpoint, monkeypatch, capsys)
    assert (status, out) == (0, f"{looped}\n" * 2)
    assert err == "line 1: the model repeats 'und ein Hund' up to the length limit\n"


def test_streams_that_are_closed(
    tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    monkeypatch.setattr("sys.stdout", None)
    assert main(["translate", "--checkpoint", str(tiny_checkpoint)]) == 0
    assert main(["translate", "--checkpoint", str(tiny_checkpoint), "A dog."]) == 0
    assert capsys.readouterr().err == ""
    for stream in (sys.stdin, sys.stdout):
        stream.close()


#: A command, `$` for the tiny checkpoint and `~` for an empty folder, and what is said about it.
BAD = {
    "translate --checkpoint ~/none x": "none: no such checkpoint",
    "translate --checkpoint $ --beam 0 x": "beam size 0",
    "translate --checkpoint $ --beam x x": "'x'",
    "translate --checkpoint $ --alpha -1 x": "alpha -1.0",
    "translate --checkpoint $ --alpha nan x": "alpha nan",
    "translate --checkpoint $ --device tpu x": "device 'tpu'",
    "translate --checkpoint $ --temperature 0.5 x": "--temperature 0.5 needs --sample",
    "translate --checkpoint $ --seed 0 x": "--seed 0 needs --sample",
    "translate --checkpoint $ --sample --temperature 0 x": "temperature 0.0",
    "translate --checkpoint $ --sample --sample-top-k -1 x": "top_k -1",
    "translate --checkpoint $ --sample --top-p 2 x": "top_p 2.0",
    "translate --checkpoint $ --sample --beam 4 x": "allowed is 1",
    f"translate --checkpoint $ {'a' * 10_001}": "10,001 characters",
    "translate --checkpoint ~/bad x": "model.safetensors: not a whole",
    "": "COMMAND",
    "fly": "'fly'",
    "trace --checkpoint $ --src ' ' --out ~/x": "blank",
    "trace --checkpoint $ --src A --out ~/no/x.npz": "no/",
    "trace --checkpoint $ --src A --out ~/..": "Is a directory",
    "trace --checkpoint $ --src A --out ''": "out: is empty",
    "trace --checkpoint $ --src A --tgt B --sample --out x": "cannot be combined with --tgt",
    "train tiny --data ~ --out ''": "out: is empty",
    "train huge --data ~ --out ~/run": "huge",
    # Said before anything is read.
    "evaluate --checkpoint $ --src x --ref y --output ~/nowhere/x": "nowhere/x: No such file",
    "evaluate --checkpoint $ --src ~/no.en --ref ~/no.de": "no.en",
    "info ~/none": "none: no such checkpoint",
}


@pytest.mark.parametrize("case", BAD, ids=lambda case: case[:40])
def test_bad_input_is_one_line_and_status_2(
    tiny_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    bad = shutil.copytree(tiny_checkpoint, tmp_path / "bad")
    (bad / "model.safetensors").write_bytes(b"short")
    places = str.maketrans({"$": str(tiny_checkpoint), "~": str(tmp_path)})
    try:
        status: Any = main([each.translate(places) for each in shlex.split(case)])
    except SystemExit as stop:  # how argparse ends
        status = stop.code
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert BAD[case] in err
    assert err.count("\n") == 1 and err.endswith("\n")


def test_evaluate_prints_json(
    tiny_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    src, ref, out = tmp_path / "t.en", tmp_path / "t.de.gz", tmp_path / "out.txt"
    src.write_text("".join(f"{line}\n" for line in SENTENCES[::2]), encoding="utf-8")
    ref.write_bytes(gzip.compress("".join(f"{line}\n" for line in SENTENCES[1::2]).encode()))
    files = ["--src", str(src), "--ref", str(ref), "--output", str(out)]
    common = ["evaluate", "--checkpoint", str(tiny_checkpoint), *files, "--beam", "1"]
    assert main([*common, "--json", "--protocol", "multi30k-lc-tok"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert {"bleu", "chrf", "signature", "tokens_per_second", "lc_tok_bleu"} <= set(values)
    assert values["sentences"] == len(out.read_text(encoding="utf-8").splitlines()) == 5
    assert main(common) == 0
    said = capsys.readouterr().out
    assert "nrefs:1|case:mixed" in said and "lc_tok_bleu" not in said


@pytest.mark.parametrize("target", [None, SENTENCES[1]])
def test_trace_writes_arrays(
    tiny_checkpoint: Path, tiny_translator: Translator, tmp_path: Path, target: str | None
) -> None:
    path = tmp_path / "trace"
    options = ["--tgt", target] if target else []
    checkpoint = ["--checkpoint", str(tiny_checkpoint)]
    status = main(["trace", *checkpoint, "--src", SENTENCES[0], *options, "--out", str(path)])
    assert status == 0
    expected = tiny_translator.trace(SENTENCES[0], target=target)
    with np.load(tmp_path / "trace.npz", allow_pickle=False) as arrays:
        for name in ("encoder_self", "decoder_self", "cross", "log_probs", "top_log_probs"):
            np.testing.assert_allclose(arrays[name], getattr(expected, name), atol=1e-5)
        for name in ("src_tokens", "predicted_tokens", "text", "forced"):
            assert np.array_equal(arrays[name], getattr(expected, name))
        assert arrays["top_tokens"].shape == arrays["top_ids"].shape


def test_info(tiny_checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(tiny_checkpoint), "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    assert about["parameters"] == Translator.load(tiny_checkpoint).config.n_parameters
    assert about["config"]["n_heads"] == 3
    broken = tiny_checkpoint.parent / "broken"
    broken.mkdir(exist_ok=True)
    (broken / "config.json").write_text("{")
    assert main(["info", str(tiny_checkpoint.parent)]) == 0
    out = capsys.readouterr().out
    assert "tiny" in out and "broken: " in out and "n_heads: 3" in out


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
    assert [answer[-1:] for answer in answers] == [b"\n"] * 3
    assert answers[1] == b"\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in err


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
