"""The project's modules, their imports, and the path of a sentence through them."""

import ast
import os
import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType

from tests.forks import ROOT

TOP = ("transformer", "figures", "ui", "headlight", "pages", "recipes", "benchmarks")


@dataclass(frozen=True)
class Module:
    """A Python file with its path from the repository root."""

    path: Path
    text: str

    @property
    def lines(self) -> int:
        return self.text.count("\n")


def modules(root: Path = ROOT) -> dict[str, Module]:
    paths = [root / "app.py", *(path for top in TOP for path in (root / top).rglob("*.py"))]
    return _by_name(Module(path.relative_to(root), path.read_text("utf-8")) for path in paths)


def _by_name(files: Collection[Module] | Iterator[Module]) -> dict[str, Module]:
    names = {}
    for file in files:
        parts = file.path.with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return names


@cache
def imported(module: Module) -> frozenset[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(module.text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module.path}: relative import"
            base = node.module or ""
            names |= {f"{base}.{alias.name}" for alias in node.names} | {base}
    return frozenset(names)


def arrows(house: Mapping[str, Module]) -> Iterator[tuple[str, str]]:
    """Yield (importer, imported) pairs; `from package import module` imports the module."""
    for name, module in house.items():
        others = imported(module) & house.keys()
        for other in others:
            inner = any(each.startswith(other + ".") for each in others)
            if other != name and not (inner and house[other].path.name == "__init__.py"):
                yield name, other


Graph = Mapping[str, Collection[str]]


def reachable(graph: Graph, start: str) -> set[str]:
    found: set[str] = set()
    waiting = list(graph.get(start, ()))
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += graph.get(node, ())
    return found


def reduced(graph: Graph) -> dict[str, set[str]]:
    """Return the transitive reduction of an acyclic graph."""
    return {
        node: {
            other
            for other in others
            if not any(other in reachable(graph, via) for via in others if via != other)
        }
        for node, others in graph.items()
    }


def stays_of_a_sentence() -> list[str]:
    """Return the files that the page's thread enters for one new sentence on Translate.

    A file is listed again when the thread returns to it from another file. Only the first entry of
    each named function with three lines or more counts. The process must be fresh.
    """
    from streamlit.testing.v1 import AppTest

    from ui.hosting.gate import libraries
    from ui.work import desk, results

    # A listing is reused, and no progress is drawn, however slow the machine is.
    results._LONGEST = results._TIMES = desk._MOVING = 1e9
    stays: list[str] = []
    seen: set[CodeType] = set()

    def enter(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or code in seen:
            return
        seen.add(code)
        here = threading.current_thread().name.startswith("ScriptRunner")
        lines = {line for *_, line in code.co_lines() if line}
        path = Path(code.co_filename)
        if here and code.co_name[0] != "<" and len(lines) > 3 and path.is_relative_to(ROOT):
            name = path.relative_to(ROOT).as_posix()
            if name[0] != "." and stays[-1:] != [name]:
                stays.append(name)

    os.environ["HEADLIGHT_CHECKPOINTS"] = str(ROOT / "checkpoints")
    libraries.set()
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=300)
    app.query_params["sentence"] = "A dog runs."
    app.run()
    app.text_area(key="sentence_box").set_value("The cat sleeps.")
    threading.setprofile(enter)
    app.sidebar.button[0].click().run()
    threading.setprofile(None)
    assert not app.exception
    return stays


if __name__ == "__main__":
    walk = stays_of_a_sentence()
    print(len(set(walk)), len(walk) - len(set(walk)))
