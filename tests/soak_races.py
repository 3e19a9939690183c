"""A small race against other libraries: all sides run, and the last line has figures."""

import json
import subprocess
import sys

import pytest

from benchmarks.translate import AIMS
from tests.forks import ROOT

pytestmark = pytest.mark.timeout(1200)


def test_all_three_translate_to_the_same_ids() -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("ctranslate2")
    options = "--shape tiny --rounds 1 --batch-rounds 1 --batch 6 --steps 7 --threads 1 --json"
    command = [sys.executable, "benchmarks/translate.py", *options.split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert all(figures[name] > 0 for name in AIMS) and figures["same_ids"] is True
    for shown in ("beam 4, with all attention", "GB/s", "share of the limit"):
        assert shown in done.stdout
