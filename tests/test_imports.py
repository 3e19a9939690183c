import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.house import ROOT, Module, arrows, imported, modules, reachable

#: From the ground up. A module belongs to the longest prefix here, and imports
#: from its own row's package and from rows above in this list, which are floors below.
#: "transformer" is what lies directly in that folder: the paper, and what it stands on.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("transformer",),
    ("transformer.edits", "transformer.execution", "transformer.files", "transformer.text",
     "transformer.trees"),
    ("transformer.checkpoint", "transformer.search"),
    ("transformer.trace",),
    ("transformer.measures", "transformer.translator"),
    ("transformer.attribution",),
    ("transformer.models",),
    ("transformer.training", "transformer.worker"),
    ("transformer.evaluation", "transformer.study"),
    ("transformer.commands",),
    ("transformer.__main__",),
    ("figures",),
    ("ui", "ui.components", "ui.platform"),
    ("ui.core",),
    ("ui.work",),
    ("ui.export", "ui.hosting"),
    ("ui.frame",),
    (
        "ui.alignment", "ui.attention", "ui.beam", "ui.complexity", "ui.family", "ui.head",
        "ui.heads", "ui.models", "ui.parsing", "ui.positions", "ui.removals", "ui.tokens",
        "ui.translate",
    ),
    ("ui.compare", "ui.floor", "ui.tours", "ui.training"),
    ("headlight",),
    ("pages",),
    ("app", "benchmarks", "recipes"),
)  # fmt: skip

#: Libraries that a package must not load, even indirectly.
ABSENT = {
    "transformer": {
        "streamlit", "plotly", "altair", "figures", "ui", "pages", "app", "headlight", "recipes",
    },
    "figures": {"torch", "streamlit", "ui", "pages", "app", "headlight", "recipes"},
    "ui": {"pages", "app", "headlight", "recipes"},
    "headlight": {"pages", "app", "recipes"},
}  # fmt: skip

#: The same for scripts. Pages tell a story and draw nothing themselves.
ABSENT_FROM_FILES = {
    **ABSENT,
    "pages": {"torch", "plotly", "altair", "pages", "app", "headlight", "recipes"},
    "recipes": {"streamlit", "figures", "ui", "pages", "app", "headlight"},
    "benchmarks": {"pages", "app"},
}

#: What figures may import of the model: records and measures, none of which needs PyTorch.
PURE = (
    "transformer.types", "transformer.measures", "transformer.search.records",
    "transformer.search.rules", "transformer.trace.records", "transformer.trees",
)  # fmt: skip

#: Imports each row "MODULES without NAMES" while the names cannot be imported; a top package with
#: all in it.
IMPORT_ALL = """
import importlib, pkgutil, sys
for row in sys.argv[1:]:
    names, absent = (part.split(",") for part in row.split(" without "))
    loaded = [name for name in sys.modules if name.partition(".")[0] in absent]
    hidden = {name: sys.modules.pop(name) for name in loaded}
    sys.modules |= dict.fromkeys(absent)
    for name in names:
        module = importlib.import_module(name)
        for each in pkgutil.walk_packages(() if "." in name else module.__path__, name + "."):
            importlib.import_module(each.name)
    for name in absent:
        del sys.modules[name]
    sys.modules |= hidden
"""


def floor(module: str) -> tuple[int, str]:
    held = [
        (len(name), level, name)
        for level, names in enumerate(FLOORS)
        for name in names
        if module == name or module.startswith(name + ".")
    ]
    _, level, name = max(held)
    # A folder in `transformer/`, and what is in `ui/`, has to be named in the list.
    inside = module.removeprefix(name).count(".")
    assert inside <= (name == "transformer") or name not in ("transformer", "ui"), module
    return level, name


def upward(house: Mapping[str, Module]) -> list[str]:
    return [
        f"{name} (floor {floor(name)[0]}) imports {other} (floor {floor(other)[0]})"
        for name, other in arrows(house)
        if floor(name)[1] != floor(other)[1] and floor(name)[0] <= floor(other)[0]
    ]


def test_arrows_run_down_only() -> None:
    house = modules()
    assert len(house) > 200
    assert upward(house) == []


def test_an_arrow_up_is_found() -> None:
    house = modules()
    low = Module(Path("ui/components/packing.py"), "def f():\n    from ui.compare import choice\n")
    lines = upward({**house, "ui.components.packing": low})
    low_floor, high_floor = floor("ui.components")[0], floor("ui.compare")[0]
    assert low_floor < high_floor
    assert lines == [
        f"ui.components.packing (floor {low_floor}) imports ui.compare.choice (floor {high_floor})"
    ]


def test_no_files_import_each_other_in_a_circle() -> None:
    graph: dict[str, set[str]] = defaultdict(set)
    for name, other in arrows(modules()):
        graph[name].add(other)
    assert len(graph) > 200
    TopologicalSorter(graph).prepare()  # names a circle


@pytest.mark.parametrize("package", ABSENT_FROM_FILES)
def test_no_function_imports_what_its_package_does_without(package: str) -> None:
    files = [each for each in modules().values() if each.path.parts[0] == package]
    assert files
    for file in files:
        names = imported(file)
        assert not {name.partition(".")[0] for name in names} & ABSENT_FROM_FILES[package], (
            file.path
        )


def test_figures_know_records_and_measures_only() -> None:
    house = modules()
    for name, other in arrows(house):
        if name.startswith("figures") and other.startswith("transformer"):
            assert other.startswith(PURE), (name, other)


def test_the_search_knows_no_model() -> None:
    names = imported(modules()["transformer.search.beam"])
    assert not {name for name in names if name.startswith(("transformer.model", "transformer.tex"))}


def test_only_commands_reach_the_extra_evaluate() -> None:
    graph: dict[str, set[str]] = defaultdict(set)
    for name, other in arrows(house := modules()):
        graph[name].add(other)
    extra = {"sacrebleu", "sacremoses"}
    users = {
        name for name in house if extra & {each.split(".")[0] for each in imported(house[name])}
    }
    assert users == {"transformer.evaluation.scores", "transformer.evaluation.tune"}
    shown = [
        name for name in house if name.startswith(("app", "pages", "ui", "headlight", "figures"))
    ]
    assert len(shown) > 150
    assert [name for name in shown if users & reachable(graph, name)] == []


def test_no_package_needs_what_it_does_without() -> None:
    """Figures, messages and offline pages import neither `View` nor Streamlit."""
    house = modules()
    names = [name for name in house if name.startswith("ui.") and name.endswith("exhibits")]
    assert "ui.compare.exhibits" in names
    names += ["ui.export.html", "ui.export.programs"]
    assert len(names) > 9
    for name in names:
        above = ("ui.core", "ui.work", "ui.frame", "ui.export.download")
        assert not [each for each in imported(house[name]) if each.startswith(above)], name
    parts = [name for name in house if name.startswith("ui.components.")]
    messages = [name for name in parts if not name.endswith(".mount")]
    assert len(parts) > len(messages) > 10
    rows: list[tuple[list[str], set[str]]] = [
        (["figures"], ABSENT["figures"]),
        (messages, {"streamlit", "torch"}),
        ([*names, "headlight.page"], {"streamlit"}),
        *(([package], ABSENT[package]) for package in ("transformer", "ui", "headlight")),
    ]
    arguments = [f"{','.join(given)} without {','.join(sorted(absent))}" for given, absent in rows]
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, *arguments], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_picture_shows_every_package_on_its_floor_with_its_size() -> None:
    from tests.architecture import floors

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
