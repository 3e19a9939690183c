"""The picture of the architecture is drawn from the floors and imports that other tests check."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.architecture import document, floors, storeys
from tests.house import Module, heights, modules, modules_at
from tests.test_imports import FLOORS, floor


def test_the_picture_shows_every_package_on_its_floor_with_its_size() -> None:
    house = modules()
    rows = re.findall(r"^ *(\d+)  (\S+) +(\d+) +([\d,]+)", floors(house), re.MULTILINE)
    drawn = {(int(level), name): int(files) for level, name, files, _ in rows}
    assert drawn.keys() == {(i, name) for i, names in enumerate(FLOORS) for name in names}
    assert sum(drawn.values()) == len(house)
    assert sum(int(lines.replace(",", "")) for *_, lines in rows) == sum(
        module.lines for module in house.values()
    )
    for level, name, rest in re.findall(
        r"^ *(\d+)  (\S+).*  -> (.+)$", floors(house), re.MULTILINE
    ):
        assert all(floor(other)[0] < int(level) for other in rest.split(", ")), (name, rest)


def test_heights_count_a_circle_once() -> None:
    graph = {"top": {"left", "right"}, "left": {"right"}, "right": {"left", "low"}, "low": set()}
    assert heights(graph) == {"top": 3, "left": 2, "right": 2, "low": 1}


def test_a_revision_is_read_from_git(tmp_path: Path) -> None:
    texts = {"app.py": "import ui.a\n", "ui/__init__.py": "", "ui/a.py": "import ui.b.c\n"}
    texts |= {"ui/b/__init__.py": "", "ui/b/c.py": '"""ä"""\n\nX = 1\n'}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "One"],
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    (tmp_path / "ui" / "a.py").unlink()
    house = modules_at("HEAD", tmp_path)
    assert house["ui.b.c"] == Module(Path("ui/b/c.py"), texts["ui/b/c.py"])
    assert storeys(house, "ui").split() == ["2", "a(1)", "1", "ui(0)", "b(3)"]
    before = {"transformer.x": Module(Path("transformer/x.py"), "")}
    assert "longest chain" in document(house | before, modules(), "HEAD")
