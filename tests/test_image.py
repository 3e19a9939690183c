"""The Dockerfile and its context, read as `tests/soak_image.py` does, without running anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.forks import ROOT
from tests.image.build import Build
from tests.image.context import Context
from tests.image.dockerfile import DockerfileError, Instruction, read

OURS = read((ROOT / "Dockerfile").read_text("utf-8"))


def test_everything_that_is_copied_is_sent_and_nothing_else() -> None:
    context = Context(ROOT)
    copied = [
        source
        for each in OURS
        if each.name == "COPY" and "from" not in each.flags
        for source in each.words()[:-1]
    ]
    sent = {source: list(context.files(source)) for source in copied}
    assert len(sent) == 9 and all(sent.values()), sent
    assert Path("checkpoints/reverse-toy/config.json") in sent["checkpoints"]
    files = [str(path) for paths in sent.values() for path in paths]
    assert not [path for path in files if "__pycache__" in path]
    tops = {path.relative_to(ROOT) for path in ROOT.iterdir()} - {Path(".streamlit")}
    assert {str(top) for top in tops if context.holds(top)} == {
        source for source in copied if "/" not in source
    }


def test_the_last_stage_runs_as_a_user_of_its_own() -> None:
    start = max(index for index, each in enumerate(OURS) if each.name == "FROM")
    users = [each.rest for each in OURS[start:] if each.name == "USER"]
    assert users == ["1000:1000"]
    assert [each.name for each in OURS[start:]].count("HEALTHCHECK") == 1


@pytest.mark.parametrize(
    ("rules", "sent", "left_out"),
    [
        ("*\n!ui\n!.streamlit/config.toml", ["ui/a/b.py", ".streamlit/config.toml"],
         ["tests/a.py", ".streamlit/secrets.toml", "uis"]),
        ("*\n!ui\n**/__pycache__", ["ui/a.py"], ["ui/__pycache__/a.pyc", "ui/b/__pycache__/a"]),
        ("# a comment\n\n*.log\n!keep.log", ["keep.log", "a/b.log"], ["b.log"]),
        ("a?c", ["abbc"], ["abc", "abc/d"]),
    ],
)  # fmt: skip
def test_the_last_rule_decides(
    rules: str, sent: list[str], left_out: list[str], tmp_path: Path
) -> None:
    (tmp_path / ".dockerignore").write_text(rules, "utf-8")
    context = Context(tmp_path)
    assert [name for name in sent + left_out if context.holds(Path(name))] == sent


def test_lines_are_joined_and_flags_set_apart() -> None:
    text = 'COPY --from=build /a \\\n# between\n  /b\nCMD ["x", "y z"]\nRUN a "$B" && \\\n    c\n'
    copy, command, run = read(text)
    assert copy == Instruction("COPY", {"from": "build"}, "/a   /b")
    assert (copy.words(), command.command()) == (["/a", "/b"], ["x", "y z"])
    assert run.command() == ["/bin/sh", "-c", 'a "$B" &&     c']


@pytest.mark.parametrize("line", ["ONBUILD RUN x", "COPY --chown=1 a b", "RUN a \\", "run a"])
def test_what_is_not_known_is_an_error(line: str) -> None:
    with pytest.raises(DockerfileError):
        read(line)


@pytest.fixture
def build(tmp_path: Path) -> Build:
    files = {
        ".dockerignore": "b/x", "ours/a": "1", "ours/b/c": "2", "one": "3",
        "base/etc/passwd": "root:x:0:0::/root:/bin/sh\nus:x:7:7::/home/us:/bin/sh\n",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    return Build(Context(tmp_path), tmp_path / "base", tmp_path, {"A": "given"}, tmp_path / "log")


def test_instructions_are_followed_in_order(build: Build) -> None:
    image = build.follow(
        read(
            "FROM x AS first\nWORKDIR /made\nCOPY ours ./\nFROM y\nARG A=1\nARG B=2\nWORKDIR in\n"
            "COPY one ours/a ./\nCOPY one two\nCOPY ours sub\nCOPY --from=first /made there\n"
            'USER us\nENV P=$PATH:/$A Q="${B} $C"\nENTRYPOINT ["e"]\nCMD ["c"]\nEXPOSE 1\n'
        )
    )
    found = {
        str(path.relative_to(image.root / "in")): path.read_text()
        for path in (image.root / "in").rglob("*")
        if path.is_file()
    }
    assert found == {
        "one": "3", "a": "1", "two": "3", "sub/a": "1", "sub/b/c": "2",
        "there/a": "1", "there/b/c": "2",
    }  # fmt: skip
    variables = image.environment()
    assert (variables["HOME"], variables["Q"]) == ("/home/us", "2 ")
    assert variables["P"].endswith("/bin:/given")
    assert (image.folder, image.user, image.entrypoint, image.command) == (
        "/in",
        "us",
        ["e"],
        ["c"],
    )
    assert [step.instruction for step in build.steps][:3] == [
        "FROM x AS first", "WORKDIR /made", "COPY ours ./",
    ]  # fmt: skip
    assert "not run" in build.steps[0].done


def test_copying_nothing_is_an_error(build: Build) -> None:
    with pytest.raises(DockerfileError, match="nothing to copy"):
        build.follow(read("FROM x\nCOPY missing /"))
