"""What an installation holds: every package, and the scripts and styles that pages are made of."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
TOP = ("headlight", "transformer", "figures", "ui")


def test_every_package_is_installed() -> None:
    found = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for name in TOP
        for path in (ROOT / name).rglob("__init__.py")
    }
    assert set(SETUPTOOLS["packages"]) == found


def test_every_file_beside_them_is_installed() -> None:
    held = {
        path
        for package in SETUPTOOLS["packages"]
        for owner, patterns in SETUPTOOLS["package-data"].items()
        if owner in ("*", package)
        for pattern in patterns
        for path in (ROOT / Path(*package.split("."))).glob(pattern)
    }
    beside = {
        path
        for name in TOP
        for path in (ROOT / name).rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    assert beside and beside == held
