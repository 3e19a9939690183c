"""The race against BertViz, in small: both sides draw, and the last line says how they compare."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import race_report, views

ROOT = Path(__file__).resolve().parents[2]


def test_tensors_are_attention_and_the_same_every_time() -> None:
    made = views.make_tensors(7, layers=2, heads=3)
    again = views.make_tensors(7, layers=2, heads=3)
    for kind in views.KINDS:
        assert made[kind].shape == (2, 3, 7, 7)
        np.testing.assert_array_equal(made[kind], again[kind])
        np.testing.assert_allclose(made[kind].sum(axis=-1), 1, atol=1e-5)
    assert (made["Decoder"][..., ~np.tri(7, dtype=bool)] == 0).all()
    assert len(made["source"]) == len(made["target"]) == 7


def test_ratios_and_what_failed() -> None:
    ours = race_report.Result(sent=100_000, prepared=0.1, first=1.0, change=0.1)
    results = {
        30: {"bertviz": race_report.Result(5_600_000, 2.0, 2.1, 0.6), "headlight": ours},
        512: {
            "bertviz": race_report.Result(9_000_000, 80.0, failed="> 180 s", waited=180),
            "headlight": ours,
        },
        600: {"bertviz": race_report.Result(failed="failed (out of memory)"), "headlight": ours},
    }
    found = race_report.summary(results)
    assert found["bytes_ratio"] == {"30": 56, "512": 90, "600": None}
    assert found["change_ratio"] == {"30": pytest.approx(6), "512": 1800, "600": None}
    assert found["largest_length"] == {"bertviz": 30, "headlight": 600}
    lines = race_report.table(results).splitlines()
    assert lines[2] == "| 30 | BertViz | 5.60 MB | 2.10 s | 0.60 s |"
    assert lines[3] == "|  | Headlight | 0.10 MB | 1.00 s | 0.10 s |"
    assert lines[5] == "| 512 | BertViz | 9.00 MB | > 180 s | > 180 s |"
    assert "**>1800 x**" in lines[7]
    assert lines[-1] == "Largest length that works: BertViz 30, Headlight 600."


@pytest.mark.timeout(1200)
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
