"""The race of translating, in a tiny shape: same ids, and the figures that there are aims for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.translate_model import BASE, TINY, sources
from benchmarks.translate_report import AIMS, Times, ratios

ROOT = Path(__file__).parents[1]


def test_all_three_come_to_the_same_ids_and_the_figures_are_there() -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("ctranslate2")
    command = [
        sys.executable, "benchmarks/translate.py", "--shape", "tiny", "--rounds", "1",
        "--batch-rounds", "1", "--batch", "6", "--steps", "7", "--threads", "1",
        "--profile", "--json",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    *lines, last = done.stdout.splitlines()
    found = json.loads(last)
    assert set(AIMS) <= set(found)
    assert all(found[name] > 0 for name in AIMS)
    assert found["same_ids"] is True
    text = "\n".join(lines)
    assert "All came to the same ids." in text
    for shown in ("beam 4, with all attention", "GB/s", "share of the limit", "share of the time"):
        assert shown in text


def test_figures_are_their_median_by_ours() -> None:
    times: Times = {
        ("headlight", "beam 4, recorded"): [0.1, 0.2, 9.0],
        ("transformers", "beam 4, recorded"): [0.7, 0.6, 0.1],
        ("ctranslate2", "beam 4"): [0.3, 0.3, 0.3],
        ("headlight", "trace"): [0.2],
        ("transformers", "trace"): [0.1],
    }
    assert ratios(times) == {
        "recorded_beam4_vs_transformers": 3.0,
        "recorded_beam4_vs_ctranslate2": 1.5,
        "trace_vs_transformers": 0.5,
    }


def test_the_sentences_are_as_they_are_said_to_be() -> None:
    made = sources(TINY, 30, 20)
    assert len(made) == 30 and len(made[0]) == 20
    assert all(10 <= len(sentence) <= 30 for sentence in made)
    for sentence in made:
        assert sentence[-1] == 0 and all(
            2 <= token < TINY.vocab_size - 1 for token in sentence[:-1]
        )
    assert made == sources(TINY, 30, 20)


def test_the_weights_that_a_step_reads() -> None:
    """By hand for the base shape: q, k, v, o; q, o; two of the feed-forward; the output."""
    per_layer = 4 * 512**2 + 2 * 512**2 + 2 * 512 * 2048
    assert BASE.step_weights == 6 * per_layer + 32_000 * 512
