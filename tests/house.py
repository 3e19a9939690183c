"""The modules of the project and their imports."""

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.forks import ROOT

TOP = ("transformer", "figures", "ui", "headlight", "pages", "recipes", "benchmarks")


@dataclass(frozen=True)
class Module:
    """One Python file; `path` starts at the repository's root."""

    path: Path
    text: str

    @property
    def lines(self) -> int:
        return self.text.count("\n")


def modules(root: Path = ROOT) -> dict[str, Module]:
    """Every module of the working tree by its dotted name."""
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
    """The names of everything that a module imports, inside functions too."""
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
    """Yield (importer, imported); `from package import module` imports the module."""
    for name, module in house.items():
        others = imported(module) & house.keys()
        for other in others:
            inner = any(each.startswith(other + ".") for each in others)
            if other != name and not (inner and house[other].path.name == "__init__.py"):
                yield name, other


Graph = Mapping[str, Collection[str]]


def reachable(graph: Graph, start: str) -> set[str]:
    """Return the nodes that a chain of one or more arrows reaches."""
    found: set[str] = set()
    waiting = list(graph.get(start, ()))
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += graph.get(node, ())
    return found


def reduced(graph: Graph) -> dict[str, set[str]]:
    """Return the transitive reduction of a graph without circles."""
    return {
        node: {
            other
            for other in others
            if not any(other in reachable(graph, via) for via in others if via != other)
        }
        for node, others in graph.items()
    }
