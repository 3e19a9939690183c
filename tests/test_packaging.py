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
import yaml

from tests.forks import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
SOURCES = ("transformer", "headlight", "figures", "ui")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
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


def test_every_file_is_installed_under_our_own_names(site: Path) -> None:
    names = {path.name for path in site.iterdir() if not path.name.endswith(".dist-info")}
    assert names == {"headlight", "transformer"}
    (listed,) = site.glob("*.dist-info/top_level.txt")
    assert set(listed.read_text("utf-8").split()) == names

    def files(root: Path) -> set[Path]:
        found = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc")
        return {path.relative_to(root) for path in found}

    for source in ("transformer", "figures", "ui"):
        target = source if source == "transformer" else f"headlight/{source}"
        assert files(ROOT / source) == files(site / target)
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
        [sys.executable, "-c", program, str(site)], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(site)},
    )  # fmt: skip
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


#: Files that a lock includes or stands alone with; see docs/decisions/locked-versions.md.
LOCKS = ("common", "cpu", "cuda")


def pinned(*names: str) -> dict[str, str]:
    lines = (line for name in names for line in (ROOT / name).read_text("utf-8").splitlines())
    entries = (line.removesuffix(" \\") for line in lines if re.match(r"\w.*==", line))
    parted = (entry.partition(" ; ") for entry in entries)
    return {requirement: marker for requirement, _, marker in parted}


def test_locks_pin_what_development_does() -> None:
    wanted = pinned("requirements.txt", "constraints-cuda.txt")
    assert len(wanted) > 70
    assert pinned("locks/common.txt", "locks/cuda.txt") == wanted
    (torch,) = (each for each in wanted if each.startswith("torch=="))
    assert pinned("locks/cpu.txt") == {f"{torch}+cpu": ""}


@pytest.mark.parametrize("name", LOCKS)
def test_every_line_has_hashes_and_no_address(name: str) -> None:
    text = (ROOT / "locks" / f"{name}.txt").read_text("utf-8")
    include, entries = re.subn(r"\A-r common\.txt\n", "", text), text.replace("\\\n", "")
    assert include[1] == (name != "common")
    for entry in entries.splitlines()[include[1] :]:
        requirement, *hashes = re.split(r" +--hash=", entry)
        assert re.fullmatch(r"[a-z0-9-]+==[\w.+]+( ; [\w\s.'<>=!()]+)?", requirement.strip()), entry
        assert hashes, requirement
        assert [each for each in hashes if not re.fullmatch(r"sha256:[0-9a-f]{64} ?", each)] == []


def test_the_image_copies_what_its_build_is_sent() -> None:
    copied = re.findall(r"^COPY (?!--from)(\S+) ", (ROOT / "Dockerfile").read_text("utf-8"), re.M)
    rules = (ROOT / ".dockerignore").read_text("utf-8").splitlines()[1:]
    assert (rules[0], rules[-1]) == ("*", "**/__pycache__")
    assert [rule.removeprefix("!") for rule in rules[1:-1]] == copied
    assert all((ROOT / name).exists() for name in copied)


def test_images_are_named_by_content_and_containers_may_do_little() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text("utf-8")
    services = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text("utf-8"))["services"]
    bases = re.findall(r"^FROM (\S+)", dockerfile, re.M)
    assert len(bases) == 2 and len(set(bases)) == 1
    for image in (bases[0], services["caddy"]["image"]):
        assert re.fullmatch(r"\w+:\d+\.\d+\.\d+-[\w-]+@sha256:[0-9a-f]{64}", image)
    for service in services.values():
        assert service["read_only"] and service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert {"max-size", "max-file"} == service["logging"]["options"].keys()
    app = services["headlight"]
    assert int(app["environment"]["HEADLIGHT_WORKERS"]) < app["cpus"]


@pytest.mark.parametrize(("system", "started"), [("Darwin x86_64", False), ("Darwin arm64", True)])
def test_make_names_a_way_out_on_an_intel_mac_before_pip_starts(
    tmp_path: Path, system: str, started: bool
) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "requirements.txt").touch()
    (tmp_path / "constraints-cuda.txt").touch()
    (tmp_path / "bin").mkdir()
    python = 'case "$1" in -c) ;; *) touch started; exit 1; esac'
    for name, command in {"uname": f"echo {system}", "python3": python}.items():
        program = tmp_path / "bin" / name
        program.write_text(f"#!/bin/sh\n{command}\n")
        program.chmod(0o755)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    made = subprocess.run(
        ["make", "app"], cwd=tmp_path, env={"PATH": path}, capture_output=True, text=True
    )
    assert made.returncode == 2 and (tmp_path / "started").exists() == started
    assert ("Intel Macs" in made.stderr and "docker build" in made.stderr) != started


def test_the_gallerys_workflow_and_space_are_read() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/gallery.yml").read_text("utf-8"))
    steps = workflow["jobs"]["publish"]["steps"]
    assert workflow[True] == "workflow_dispatch"  # YAML 1.1 reads "on" as a truth value
    (command,) = (step["run"] for step in steps if "run" in step)
    made = subprocess.run(
        ["make", "-n", *command.split()[1:], "PYTHON=python"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    (folder,) = (step["with"]["path"] for step in steps if "path" in step.get("with", {}))
    assert f"-m headlight gallery --out {folder}\n" in made and "http.server" not in made
    text = (ROOT / "docs/hosting.md").read_text("utf-8")
    front = [yaml.safe_load(part) for part in re.findall(r"^---\n(.+?)^---$", text, re.M | re.S)]
    assert [each["sdk"] for each in front] == ["static", "docker"]
    assert front[0]["app_file"] == "index.html"
