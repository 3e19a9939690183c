import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.forks import ROOT
from ui.components.files import COMPONENTS

FOLDER = ROOT / "ui/components"
BUNDLES = FOLDER / "bundles"
MODULES = {
    path: path.read_text("utf-8")
    for path in sorted([*FOLDER.rglob("*.js"), *FOLDER.parent.glob("platform/*.js")])
    if path.parent != BUNDLES and path.name != "index.js"
}
EXPORT = re.compile(r"^export (?:async )?(?:function|class|const|let) (\w+)", re.MULTILINE)
IMPORTED = re.compile(r"^import \{(.*?)\}\s+from", re.DOTALL | re.MULTILINE)


def imported(text: str) -> set[str]:
    return set(re.findall(r"\w+", " ".join(IMPORTED.findall(text))))


def test_every_component_has_a_bundle() -> None:
    folders = {path.parent.name for path in MODULES} - {"shared", "platform"}
    assert set(COMPONENTS) == folders == {path.stem for path in BUNDLES.glob("*.css")}


def test_bundles_are_those_of_the_sources(tmp_path: Path) -> None:
    """If this fails, run `make components`."""
    if not shutil.which("npx"):
        pytest.skip("bundling needs npm")
    asked = ["npx", "--yes", "esbuild@0.25.12", "--version"]
    if subprocess.run(asked, capture_output=True, check=False).returncode:
        pytest.skip("npm cannot get esbuild")
    made = tmp_path / "bundles"
    subprocess.run(["make", "-s", "components", f"OUT={made}"], cwd=ROOT, check=True)
    assert {path.name: path.read_bytes() for path in made.iterdir()} == {
        path.name: path.read_bytes() for path in BUNDLES.iterdir()
    }


def test_a_module_imports_what_it_calls() -> None:
    exported = {name for text in MODULES.values() for name in EXPORT.findall(text)}
    for path, text in MODULES.items():
        called = set(re.findall(r"(?:(?<![\w.])|(?<=\.{3}))(\w+)\(", text))
        own = set(re.findall(r"(?:function|class|const|let) (\w+)", text))
        own |= set(re.findall(r"^ *(?:async )?(\w+)\(.*\) \{$", text, re.MULTILINE))  # methods
        own |= set(re.findall(r"(?<![\w.])(\w+)\b(?!\()", text))  # parameters
        assert not (called & exported) - own - imported(text), path.name


def test_every_export_is_imported() -> None:
    used = set.union(*map(imported, MODULES.values()))
    for path, text in MODULES.items():
        assert set(EXPORT.findall(text)) <= used, path.name
