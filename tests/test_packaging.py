"""An installation: its content, and that it runs outside the repository."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from email.message import Message
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
SOURCES = ("transformer", "headlight", "figures", "ui")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel installed, built from a copy of the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "copy"
    for name in SOURCES:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    build = "from setuptools import build_meta; build_meta.build_wheel('..')"
    subprocess.run([sys.executable, "-c", build], cwd=copy, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


@pytest.fixture(scope="module")
def metadata(site: Path) -> Message:
    (path,) = site.glob("*.dist-info/METADATA")
    return Parser().parsestr(path.read_text("utf-8"))


def test_only_names_of_our_own_are_installed(site: Path) -> None:
    names = {path.name for path in site.iterdir() if not path.name.endswith(".dist-info")}
    assert names == {"headlight", "transformer"}
    (listed,) = site.glob("*.dist-info/top_level.txt")
    assert set(listed.read_text("utf-8").split()) == names


def test_every_file_is_installed(site: Path) -> None:
    def files(root: Path) -> set[Path]:
        return {
            path.relative_to(root)
            for path in root.rglob("*")
            if path.is_file() and path.suffix != ".pyc"
        }

    for source, target in (
        ("transformer", "transformer"),
        ("figures", "headlight/figures"),
        ("ui", "headlight/ui"),
    ):
        assert files(ROOT / source) == files(site / target)


def test_no_import_of_the_old_names_is_left(site: Path) -> None:
    old = re.compile(
        r"\b(?:from|import) (?:ui|figures)\b(?:\.\w+)*(?: import|$| as )", re.MULTILINE
    )
    paths = list(site.rglob("*.py"))
    assert len(paths) > 200
    assert [path for path in paths if old.search(path.read_text("utf-8"))] == []


def test_show_works_beside_modules_of_the_same_names(site: Path, tmp_path: Path) -> None:
    for name in ("ui", "figures", "pages"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('this is the user\\'s')\n", "utf-8")
    maps = np.full((2, 3, 4, 4), 0.25, np.float32)
    np.savez(tmp_path / "s.npz", attention=maps, tokens=np.array(["a", "b", "c", "d"]))
    program = (
        "import runpy, sys; from headlight import show; show('s.npz').save('one.html');"
        "import transformer, headlight;"
        "assert all(m.__file__.startswith(sys.argv[1]) for m in (transformer, headlight));"
        "sys.argv[1:] = ['s.npz', 'two.html']; runpy.run_module('headlight', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(site)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()
    assert b'data-component="grid"' in (tmp_path / "two.html").read_bytes()


def test_the_metadata_hold_ranges_and_the_lock_one_version(metadata: Message) -> None:
    required = {
        re.split(r"[^\w-]", each)[0]: each for each in metadata.get_all("Requires-Dist", [])
    }
    assert required["torch"].startswith("torch>=")
    assert not [each for each in required.values() if "==" in each.partition(";")[0]]
    lock = (ROOT / "requirements.txt").read_text("utf-8").splitlines()
    for name in map(str.lower, (re.split(r"[^\w-]", each)[0] for each in PROJECT["dependencies"])):
        assert any(line.startswith(f"{name}==") for line in lock), name


def test_extras_that_documents_name_exist(metadata: Message) -> None:
    paths = (ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md"))
    texts = [path.read_text("utf-8") for path in paths]
    named = {extra for text in texts for extra in re.findall(r"pip\s+install\s+\.\[(\w+)\]", text)}
    assert named and named <= set(metadata.get_all("Provides-Extra", []))
