"""The recipes in CONTRIBUTING.md work: applied to a copy, they pass their own tests."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
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

#: Heading of a recipe, language of a block, its file, and its lines.
BLOCKS = [
    (recipe, kind, path, lines)
    for recipe, body in re.findall(r"^### (.+)\n((?:(?!^### ).*\n)*)", TEXT, re.MULTILINE)
    for kind, path, lines in re.findall(r"^```(\w+) (\S+)\n(.*?)^```$", body, re.M | re.S)
]


def changed(text: str, lines: str) -> str:
    """Apply a change at the one occurrence of its old lines."""
    marked = lines.splitlines(keepends=True)
    old = "".join(line[1:] for line in marked if line[0] != "+")
    assert old and text.count(old) == 1, f"{text.count(old)} places for:\n{old}"
    return text.replace(old, "".join(line[1:] for line in marked if line[0] != "-"))


def added(recipe: str) -> dict[str, int]:
    """Return the lines that a recipe adds to each file."""
    counts: dict[str, int] = {}
    for name, kind, path, lines in BLOCKS:
        if name == recipe:
            new = [line for line in lines.splitlines() if kind != "diff" or line[0] == "+"]
            counts[path] = counts.get(path, 0) + len(new)
    return counts


def test_a_page_costs_few_files_and_lines_and_a_measure_one_file_and_a_test() -> None:
    measure, figure = added("A measure"), added("A figure")
    page = added("A page with one picture and its download") | figure
    assert len(measure) == 2 and len(figure) == 1
    assert len(page) <= 5 and sum(page.values()) <= 60, page


def test_every_recipe_works_in_a_copy(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    ignored = shutil.ignore_patterns(
        ".*", "checkpoints", "build", "*.egg-info", "runs", "data", "tmp", "cache"
    )
    shutil.copytree(ROOT, copy, ignore=ignored, symlinks=True)
    (copy / "checkpoints").symlink_to(ROOT / "checkpoints")
    for _, kind, path, lines in BLOCKS:
        file = copy / path
        assert file.exists() == (kind == "diff"), path
        file.write_text(changed(file.read_text("utf-8"), lines) if kind == "diff" else lines)
    (copy / "tests/pages/test_downloads.py").write_text(DOWNLOADS, "utf-8")
    new = [path for _, kind, path, _ in BLOCKS if kind == "python" and "/test_" in path]
    run = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--basetemp", "temp"]
    done = subprocess.run(
        [
            *run, *new, "tests/pages/test_downloads.py",
            "tests/test_imports.py::test_arrows_run_down_only",
            "tests/pages/test_pages.py::test_text_is_never_code_and_nonsense_in_a_link_is_dropped"
            "[locality]",
        ],
        cwd=copy, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(new) == 5 and f"{len(new) + 3} passed" in done.stdout
    style = [sys.executable, "-m", "ruff"]
    for command in (["check", "-q"], ["format", "-q", "--check"]):
        paths = [path for _, _, path, _ in BLOCKS if path.endswith(".py")]
        ran = subprocess.run([*style, *command, *paths], cwd=copy, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout
