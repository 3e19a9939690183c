"""The whole suite stays green in a copy with a page added by the recipe of CONTRIBUTING.md."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forks import ROOT
from tests.soaking import LONG
from tests.test_recipes import cooked, page_blocks

#: As many processes as those of `make test`.
WORKERS = ("-n", "auto", "--maxprocesses", "4")


@pytest.mark.skipif(not LONG, reason="make soak LONG=1 runs the whole suite again")
@pytest.mark.timeout(7_200)
def test_a_new_page_turns_nothing_red(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    cooked(copy, page_blocks())
    (copy / "checkpoints").unlink()  # a server opens nothing behind a link out of its folder
    shutil.copytree(ROOT / "checkpoints", copy / "checkpoints")
    command = [sys.executable, "-m", "pytest", "-q", *WORKERS, "-p", "no:cacheprovider"]
    command.append("--ignore=tests/test_recipes.py")  # it would add the page again
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(copy)}
    ran = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-20_000:]
