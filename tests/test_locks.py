"""Locks for servers: the versions of `requirements.txt`, each with its hashes."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

#: Files that a lock includes or stands alone with; see docs/decisions/locked-versions.md.
LOCKS = ("common", "cpu", "cuda")


def pinned(*names: str) -> dict[str, str]:
    """Return requirements by name and version, each with the marker that it is installed under."""
    lines = (line for name in names for line in (ROOT / name).read_text("utf-8").splitlines())
    entries = (line.removesuffix(" \\") for line in lines if re.match(r"\w.*==", line))
    parted = (entry.partition(" ; ") for entry in entries)
    return {requirement: marker for requirement, _, marker in parted}


def test_locks_pin_what_development_does() -> None:
    (metrics,) = (each for each in pinned("requirements-dev.txt") if "prometheus" in each)
    wanted = pinned("requirements.txt", "constraints-cuda.txt") | {metrics: ""}
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
    """The Dockerfile copies each name that `.dockerignore` lets through, and no other."""
    copied = re.findall(r"^COPY (?!--from)(\S+) ", (ROOT / "Dockerfile").read_text("utf-8"), re.M)
    rules = (ROOT / ".dockerignore").read_text("utf-8").splitlines()[1:]
    assert (rules[0], rules[-1]) == ("*", "**/__pycache__")
    assert [rule.removeprefix("!") for rule in rules[1:-1]] == copied
    assert all((ROOT / name).exists() for name in copied)
