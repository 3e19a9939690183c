"""Small races against other libraries: both sides run, and the last line has figures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import views
from benchmarks.translate import AIMS

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.timeout(1200)


def test_a_small_race() -> None:
    command = [sys.executable, "benchmarks/views.py", "--tokens", "8", "--layers", "1"]
    command += ["--heads", "2", "--repeats", "1", "--timeout", "240", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode and done.stderr.splitlines()[-1:] == [views.NOT_FETCHED]:
        pytest.skip(views.NOT_FETCHED)
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    for who, result in last["measured"]["8"].items():
        assert not result["failed"], (who, result)
        assert result["change"] > 0 and result["first"] > 0
        assert result["sent"] > 1_000
    assert last["largest_length"] == {"bertviz": 8, "headlight": 8}
    assert set(last["bytes_ratio"]) == set(last["change_ratio"]) == {"8"}
    assert last["change_ratio"]["8"] > 0


def test_a_race_that_runs_out_of_time_still_ends_with_its_numbers() -> None:
    command = [sys.executable, "benchmarks/views.py", "--tokens", "4", "--layers", "1"]
    command += ["--heads", "1", "--repeats", "1", "--minutes", "0", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode and done.stderr.splitlines()[-1:] == [views.NOT_FETCHED]:
        pytest.skip(views.NOT_FETCHED)
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["bytes_ratio"] == last["change_ratio"] == {"4": None}
    assert all(result["failed"] == "> 1 s" for result in last["measured"]["4"].values())


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


def test_training_races_with_what_is_installed() -> None:
    command = [
        sys.executable, "benchmarks/train.py", "--shape", "tiny", "--rounds", "1", "--updates", "2",
        "--threads", "1", "--json",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    speeds = json.loads(done.stdout.splitlines()[-1])["target_tokens_per_second"]
    compiles = "torch.compile does not work here" not in done.stderr
    assert set(speeds) >= {"headlight, eager"} | ({"headlight"} if compiles else set())
    assert all(speed > 0 for speed in speeds.values())
