"""The recipes in CONTRIBUTING.md work: applied to a copy, they pass their own tests."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests import forks
from tests.forks import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")

#: Added to the recipes' own tests: make every download of the figure, and run its program.
DOWNLOADS = """
import numpy as np
from figures.locality import locality_exhibit
from tests.views import make_view
from ui.export.download import FORMATS, source_of
from ui.export.programs import header
from ui.work.results import trace


def test_downloads(random_checkpoints, monkeypatch):
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(random_checkpoints))
    view = make_view(random_checkpoints / "alpha")
    exhibit = locality_exhibit(trace(view.request), header(source_of(view)))
    files = {each.ending: each.write(exhibit) for each in FORMATS}
    assert len(files) == 7 and all(files.values())
    names = {}
    exec(files["py"].decode(), names)
    np.testing.assert_array_equal(names["shares"], exhibit.arrays["shares"])
"""

#: Runs pytest in the copy, in a process that has imported libraries, and this repository's modules.
RUN = """
import os, sys
for name in list(sys.modules):
    if name.partition(".")[0] in {"figures", "headlight", "tests", "transformer", "ui"}:
        del sys.modules[name]
sys.path[:] = [os.getcwd(), *(each for each in sys.path if not os.path.exists(f"{each}/app.py"))]
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""

#: Language of a recipe's block, its file, and its lines.
BLOCKS = re.findall(r"^```(\w+) (\S+)\n(.*?)^```$", TEXT, re.M | re.S)


def changed(text: str, lines: str) -> str:
    """Apply a change at the one occurrence of its old lines."""
    marked = lines.splitlines(keepends=True)
    old = "".join(line[1:] for line in marked if line[0] != "+")
    assert old and text.count(old) == 1, f"{text.count(old)} places for:\n{old}"
    return text.replace(old, "".join(line[1:] for line in marked if line[0] != "-"))


def test_every_recipe_works_in_a_copy(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    ignored = shutil.ignore_patterns(
        ".*", "checkpoints", "build", "*.egg-info", "runs", "data", "tmp", "cache"
    )
    shutil.copytree(ROOT, copy, ignore=ignored, symlinks=True)
    (copy / "checkpoints").symlink_to(ROOT / "checkpoints")
    for kind, path, lines in BLOCKS:
        file = copy / path
        assert file.exists() == (kind == "diff"), path
        file.write_text(changed(file.read_text("utf-8"), lines) if kind == "diff" else lines)
    (copy / "tests/pages/test_downloads.py").write_text(DOWNLOADS, "utf-8")
    new = [path for kind, path, _ in BLOCKS if kind == "python" and "/test_" in path]
    named = (
        "tests/test_imports.py::test_arrows_run_down_only",
        "tests/pages/test_pages.py::test_text_is_never_code_and_nonsense_is_dropped[locality]",
    )
    (tmp_path / "run.py").write_text(RUN)
    options = ("-p", "no:cacheprovider", "--basetemp", "temp", "-W", "ignore:Module already")
    run = [str(tmp_path / "run.py"), *options, *new, *named, "tests/pages/test_downloads.py"]
    written = forks.run(run, {}, tmp_path / "log.txt", copy)
    assert len(new) == 5 and f"{len(new) + 3} passed" in written
    style = [sys.executable, "-m", "ruff"]
    for command in (["check", "-q"], ["format", "-q", "--check"]):
        paths = [path for _, path, _ in BLOCKS if path.endswith(".py")]
        ran = subprocess.run([*style, *command, *paths], cwd=copy, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout
