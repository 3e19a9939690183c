"""The examples of docs/notebook.md run as they stand, and give what they say."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.forks import ROOT
from transformer.arrays.trace_file import save_arrays
from transformer.measures import registered

TEXT = (ROOT / "docs" / "notebook.md").read_text("utf-8")
START, *EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
TITLES = re.findall(r"^## (.+)$", TEXT, re.MULTILINE)


@pytest.fixture(scope="module")
def start() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(START.replace('"checkpoints/', f'"{ROOT}/checkpoints/'), "start", "exec"), names)  # noqa: S102
    return names


def test_there_are_ten_of_at_most_ten_lines() -> None:
    assert len(EXAMPLES) == len(TITLES) == 10
    for example in EXAMPLES:
        assert sum(bool(line.strip()) for line in example.splitlines()) <= 10


@pytest.mark.parametrize("title", TITLES)
def test_an_example_runs_and_gives_what_it_says(
    title: str, start: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registered, "MEASURES", {})
    names, translator, sentences = dict(start), start["translator"], start["sentences"]
    example = EXAMPLES[TITLES.index(title)]
    exec(compile(example, title, "exec"), names)  # noqa: S102 - our own program
    said, config = capsys.readouterr().out, translator.config
    shape = (config.n_decoder_layers, config.decoder_heads)
    checks = {
        "Entropy": lambda: names["entropy"].shape == shape and (names["entropy"] > 0).all(),
        "Log-prob": lambda: said.count("\n") == 3 and said.startswith("-") and "▁Hund" in said,
        "Every head": lambda: len(names["table"]) == len(names["heads"]) == 96
        and names["table"]["change"].is_monotonic_increasing and names["table"]["change"].min() < 0,
        "A figure": lambda: "<svg" in (tmp_path / "head.svg").read_text(),
        "A hook": lambda: said.count(" | ") == 3,
        "Several": lambda: save_arrays(names["second"], "x").read_bytes()
        == (tmp_path / "1.npz").read_bytes() and names["second"].source == sentences[1],
        "A library": lambda: len(names["page"].html) > 10_000,
        "A measure": lambda: np.array_equal(
            names["figure"].arrays["values"],
            (translator.trace(sentences[0]).cross > 0.1).sum(-1).mean(-1).astype("f4"),
        ),
        "An edited": lambda: said.count(" nats\n") == 3 and said.count(" | ") == 6,
        "Hidden": lambda: names["moved"].shape == (shape[0], len(names["trace"].tgt_ids)),
    }  # fmt: skip
    (check,) = [each for start_of, each in checks.items() if title.startswith(start_of)]
    assert check()
