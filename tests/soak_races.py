"""Small races against other libraries: both sides run, and the last line has figures."""

import json
import subprocess
import sys
from typing import Any

import pytest

from benchmarks.translate import AIMS
from tests.forks import ROOT

pytestmark = pytest.mark.timeout(1200)


def race(program: str, options: str) -> tuple[dict[str, Any], str, str]:
    """Run a benchmark. Returns: its figures, and what it wrote to output and to errors."""
    command = [sys.executable, f"benchmarks/{program}.py", *options.split(), "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stdout, done.stderr


def test_all_three_translate_to_the_same_ids() -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("ctranslate2")
    figures, text, _ = race(
        "translate",
        "--shape tiny --rounds 1 --batch-rounds 1 --batch 6 --steps 7 --threads 1 --profile",
    )
    assert all(figures[name] > 0 for name in AIMS) and figures["same_ids"] is True
    for shown in ("beam 4, with all attention", "GB/s", "share of the limit", "share of the time"):
        assert shown in text


def test_training_races_with_what_is_installed() -> None:
    figures, _, said = race("train", "--shape tiny --rounds 1 --updates 2 --threads 1")
    speeds = figures["target_tokens_per_second"]
    compiles = "torch.compile does not work here" not in said
    assert set(speeds) >= {"headlight, eager"} | ({"headlight"} if compiles else set())
    assert all(speed > 0 for speed in speeds.values())
