"""The layers of the house: app, pages, then ui and figures, then transformer, never upwards."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

#: What each package does without, itself and in all that it imports.
ABSENT = {
    "transformer": {"streamlit", "plotly", "altair", "figures", "ui", "pages", "app", "headlight"},
    "figures": {"torch", "streamlit", "ui", "pages", "app", "headlight"},
    "ui": {"pages", "app", "headlight"},
    "headlight": {"pages", "app"},
}

#: The same for what is run and not imported. Pages tell a story and draw nothing themselves.
ABSENT_FROM_FILES = {
    **ABSENT,
    "pages": {"torch", "plotly", "altair", "pages", "app", "headlight"},
    "benchmarks": {"pages", "app", "headlight"},
}

IMPORT_ALL = """
import importlib, json, pkgutil, sys
package = importlib.import_module(sys.argv[1])
names = [each.name for each in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
for name in names:
    importlib.import_module(name)
print(json.dumps([len(names), sorted(sys.modules)]))
"""


def loaded(package: str) -> set[str]:
    """All that a fresh process holds after importing every module of a package."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, package],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    count, names = json.loads(done.stdout.splitlines()[-1])
    assert count >= 1
    return set(names)


@pytest.mark.parametrize("package", ABSENT)
def test_a_fresh_process_holds_only_the_layers_below(package: str) -> None:
    names = loaded(package)
    assert not {name.partition(".")[0] for name in names} & ABSENT[package]
    if package == "figures":
        mine = {name for name in names if name.partition(".")[0] == "transformer"}
        assert mine <= {"transformer", "transformer.records"}


def imported(path: Path) -> set[str]:
    """Every module that a file imports, inside functions too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            module = node.module or ""
            names |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("package", ABSENT_FROM_FILES)
def test_no_function_imports_what_its_package_does_without(package: str) -> None:
    paths = list((ROOT / package).rglob("*.py"))
    assert paths
    for path in paths:
        names = imported(path)
        assert not {name.partition(".")[0] for name in names} & ABSENT_FROM_FILES[package], path
        if package == "figures":
            mine = {name for name in names if name.split(".")[0] == "transformer"}
            assert all(
                (name + ".").startswith("transformer.records.") for name in mine - {"transformer"}
            ), path


def test_the_search_knows_no_model() -> None:
    names = imported(ROOT / "transformer" / "search.py")
    assert not {name for name in names if name.startswith(("transformer.model", "transformer.tok"))}
