"""Training, publishing, importing: killed or out of disk, they leave nothing torn."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forks import ROOT
from tests.soaking import SEED, note, trials

pytestmark = pytest.mark.timeout(7200)


@pytest.mark.parametrize("fault", ["kill", "disk"])
def test_nothing_is_torn_and_the_next_start_goes_on(fault: str, tmp_path: Path) -> None:
    count = str(trials(6))
    command = [sys.executable, "-m", "tests.faults.trials", fault, str(tmp_path), count, str(SEED)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stderr is not None
        found = []
        for line in process.stdout:
            found.append(json.loads(line))
            note(**found[-1])
        said = process.stderr.read()
    assert process.returncode == 0, said[-4000:]
    assert len(found) == 4 and all(each["trials"] == int(count) for each in found)
    ended = sum(each.get("killed", 0) + each.get("full", 0) for each in found)
    assert ended > int(count)
