"""The picture of the architecture is drawn from the floors and imports that other tests check."""

import re

from tests.architecture import floors
from tests.house import modules
from tests.test_imports import FLOORS, floor


def test_the_picture_shows_every_package_on_its_floor_with_its_size() -> None:
    house = modules()
    text = floors(house)
    rows = re.findall(r"^ *(\d+)  (\S+) +(\d+) +([\d,]+)", text, re.MULTILINE)
    drawn = {(int(level), name): int(files) for level, name, files, _ in rows}
    assert drawn.keys() == {(i, name) for i, names in enumerate(FLOORS) for name in names}
    assert sum(drawn.values()) == len(house)
    assert sum(int(lines.replace(",", "")) for *_, lines in rows) == sum(
        module.lines for module in house.values()
    )
    for level, name, rest in re.findall(r"^ *(\d+)  (\S+).*  -> (.+)$", text, re.MULTILINE):
        assert all(floor(other)[0] < int(level) for other in rest.split(", ")), (name, rest)
