"""Draw the packages as text: python -m tests.architecture [--rev REVISION] [--write].

Without options it prints the floors of the working tree. `--rev` prints those of a git revision
beside them, and `--write` puts everything into docs/architecture.md.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

from tests.house import ROOT, Graph, Module, arrows, circles, heights, modules, modules_at, reduced
from tests.test_imports import FLOORS, floor

FILE = ROOT / "docs" / "architecture.md"

#: The last revision before modules moved into packages.
BEFORE = "03f7f7c"

House = Mapping[str, Module]

TEXT = """# Architecture

Drawn by `make architecture` from the imports of every file. A floor imports from floors below it
only. [Decision 95](decisions/095-packages-and-floors.md) says why.

## Floors

The list in `tests/test_imports.py`, top first, with files and lines of Python. An arrow leads to
what a package imports, without what one of the others there imports anyway.

```
{floors}
```

## Before and after

Counted by the same command at {before} and now. A floor is here a step on the longest chain of
imports between packages, where a package is a folder inside `transformer/` or `ui/`, or a file that
lies directly in one of them.

```
{numbers}
```

### transformer/ before

```
{transformer_before}
```

### transformer/ now

```
{transformer_now}
```

### ui/ before

```
{ui_before}
```

### ui/ now

```
{ui_now}
```
"""


def main() -> None:
    """Print or write the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rev", help="a git revision to draw beside the working tree")
    parser.add_argument("--write", action="store_true", help=f"write {FILE.relative_to(ROOT)}")
    options = parser.parse_args()
    if options.write:
        FILE.write_text(document(modules_at(options.rev or BEFORE), modules()), "utf-8")
    elif options.rev:
        print(document(modules_at(options.rev), modules(), options.rev))
    else:
        print(floors(modules()))


def document(before: House, now: House, revision: str = BEFORE) -> str:
    """Return docs/architecture.md."""
    return TEXT.format(
        before=revision,
        floors=floors(now),
        numbers=numbers(before, now),
        transformer_before=storeys(before, "transformer"),
        transformer_now=storeys(now, "transformer"),
        ui_before=storeys(before, "ui"),
        ui_now=storeys(now, "ui"),
    )


def floors(house: House) -> str:
    """Every package on its floor of `FLOORS`, with its size and its arrows."""
    graph = grouped(house, lambda name: floor(name)[1])
    files = Counter(floor(name)[1] for name in house)
    lines = sizes(house, lambda name: floor(name)[1])
    arrows_down = reduced(graph)
    rows = [f"{'floor':>5}  {'package':29}{'files':>5}{'lines':>8}  imports"]
    for level in reversed(range(len(FLOORS))):
        for package in FLOORS[level]:
            below = ", ".join(
                sorted(arrows_down[package], key=lambda each: (-floor(each)[0], each))
            )
            rows.append(
                f"{level:5}  {package:29}{files[package]:5}{lines[package]:8,}"
                + (f"  -> {below}" if below else "")
            )
    return "\n".join(rows)


def numbers(before: House, now: House) -> str:
    """Sizes, chains and circles of `transformer` and `ui`, before and now."""
    rows = [f"{'':48}{'before':>8}{'now':>8}"]
    for top in ("transformer", "ui"):
        columns = [list(facts(house, top).items()) for house in (before, now)]
        for (name, old), (_, new) in zip(*columns, strict=True):
            rows.append(f"{top + '/: ' + name:48}{old:8,}{new:8,}")
    return "\n".join(rows)


def facts(house: House, top: str) -> dict[str, int]:
    """What is counted of one top-level package."""
    inside = {name: module for name, module in house.items() if name.split(".")[0] == top}
    files = grouped(inside, lambda name: name)
    packages = grouped(inside, lambda name: package_of(name, inside))
    return {
        "files": len(inside),
        "lines": sum(module.lines for module in inside.values()),
        "files in the largest folder": max(
            Counter(module.path.parent for module in inside.values()).values()
        ),
        "packages": len(packages),
        "floors (longest chain of packages)": max(heights(packages).values()),
        "longest chain of files": max(heights(files).values()),
        "circles of packages": len(circles(packages)),
        "circles of files": len(circles(files)),
    }


def storeys(house: House, top: str) -> str:
    """The packages of one top-level package by their floor, top first, with lines of Python."""
    inside = {name: module for name, module in house.items() if name.split(".")[0] == top}
    height = heights(grouped(inside, lambda name: package_of(name, inside)))
    lines = sizes(inside, lambda name: package_of(name, inside))
    rows = []
    for level in sorted(set(height.values()), reverse=True):
        names = sorted(name for name in height if height[name] == level)
        row = f"{level:3} "
        for name in names:
            word = f" {name.removeprefix(top + '.')}({lines[name]})"
            if len(row) + len(word) > 98:
                rows.append(row)
                row = " " * 4
            row += word
        rows.append(row)
    return "\n".join(rows)


def package_of(name: str, house: House) -> str:
    """The folder directly below the top that a module belongs to, or its own name without one."""
    parts = name.split(".")
    lone = len(parts) <= 2 and house[name].path.name != "__init__.py"
    return name if lone else ".".join(parts[:2])


def grouped(house: House, group: Callable[[str], str]) -> Graph:
    """The arrows between groups of modules."""
    graph: dict[str, set[str]] = defaultdict(set)
    for name in house:
        graph[group(name)]
    for name, other in arrows(house):
        if group(name) != group(other):
            graph[group(name)].add(group(other))
    return graph


def sizes(house: House, group: Callable[[str], str]) -> Counter[str]:
    """Lines of each group of modules."""
    lines: Counter[str] = Counter()
    for name, module in house.items():
        lines[group(name)] += module.lines
    return lines


if __name__ == "__main__":
    main()
