import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests import forks
from tests.forks import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")

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
    marked = lines.splitlines(keepends=True)
    old = "".join(line[1:] for line in marked if line[0] != "+")
    assert old and text.count(old) == 1, f"{text.count(old)} places for:\n{old}"
    return text.replace(old, "".join(line[1:] for line in marked if line[0] != "-"))


#: Tests that read what is declared: by pages, packages and documents. Long ones run for the new
#: page alone.
DECLARED = (
    "tests/test_docs.py", "tests/test_imports.py", "tests/test_spelling.py",
    "tests/ui/core/test_glossary.py",
    "tests/test_calls.py::test_every_call_is_documented_and_tried",
    "tests/test_calls.py::test_the_program_of_a_figure_is_its_call[weight_nearby]",
    "tests/pages/test_pages.py::test_every_page_has_an_address_of_its_own_and_a_place",
    "tests/pages/test_pages.py::test_text_is_never_code_and_nonsense_is_dropped[locality]",
    "tests/pages/test_round_trip.py::"
    "test_every_control_of_a_page_comes_back_from_its_link[locality]",
    "tests/pages/test_takeaway.py::"
    "test_every_figure_can_be_taken_away_at_a_moment_of_training[locality0]",
)  # fmt: skip

#: Left out of a copy.
_IGNORED = (
    ".git", ".venv*", ".*_cache", ".hypothesis", "__pycache__", "checkpoints", "build",
    "*.egg-info", "runs", "data", "tmp", "cache",
)  # fmt: skip


def cooked(folder: Path, blocks: Sequence[tuple[str, str, str]] = BLOCKS) -> list[str]:
    """Copy the repository, apply recipes to the copy, and return their tests."""
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*_IGNORED), symlinks=True)
    (folder / "checkpoints").symlink_to(ROOT / "checkpoints")
    for kind, path, lines in blocks:
        file = folder / path
        assert file.exists() == (kind == "diff"), path
        file.write_text(changed(file.read_text("utf-8"), lines) if kind == "diff" else lines)
    return [path for kind, path, _ in blocks if kind == "python" and "/test_" in path]


def page_blocks() -> list[tuple[str, str, str]]:
    start, end = TEXT.index("### A page\n"), TEXT.index("### A tour stop")
    return [block for block in BLOCKS if block[2] in TEXT[start:end]]


def test_a_page_is_two_files() -> None:
    assert [kind for kind, *_ in page_blocks()] == ["python", "python"]


def test_every_recipe_works_in_a_copy_and_turns_nothing_red(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    new = cooked(copy)
    (tmp_path / "run.py").write_text(RUN)
    options = ("-p", "no:cacheprovider", "--basetemp", "temp", "-W", "ignore:Module already")
    run = [str(tmp_path / "run.py"), *options, *new, *DECLARED]
    written = forks.run(run, {}, tmp_path / "log.txt", copy)
    assert len(new) == 4 and " passed" in written and "failed" not in written
    style = [sys.executable, "-m", "ruff"]
    for command in (["check", "-q"], ["format", "-q", "--check"]):
        paths = [path for _, path, _ in BLOCKS if path.endswith(".py")]
        ran = subprocess.run([*style, *command, *paths], cwd=copy, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout
