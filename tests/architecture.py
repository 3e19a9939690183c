"""Draw the packages as text: python -m tests.architecture [--write].

Prints the floors of the working tree, or writes them into docs/architecture.md.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Mapping

from tests.house import ROOT, Module, arrows, modules, reduced
from tests.test_imports import FLOORS, floor

FILE = ROOT / "docs" / "architecture.md"

TEXT = """# Architecture

Drawn by `make architecture` from the imports of every file: the list in `tests/test_imports.py`,
top first, with files and lines of Python. A floor imports from floors below it only. An arrow leads
to what a package imports, without what one of the others there imports anyway.

```
{floors}
```
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {FILE.relative_to(ROOT)}")
    if parser.parse_args().write:
        FILE.write_text(TEXT.format(floors=floors(modules())), "utf-8")
    else:
        print(floors(modules()))


def floors(house: Mapping[str, Module]) -> str:
    """Return the packages on each floor of `FLOORS`, with sizes and arrows."""
    graph: dict[str, set[str]] = defaultdict(set)
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for name, module in house.items():
        package = floor(name)[1]
        files[package] += 1
        lines[package] += module.lines
    for name, other in arrows(house):
        if floor(name)[1] != floor(other)[1]:
            graph[floor(name)[1]].add(floor(other)[1])
    for names in FLOORS:
        for package in names:
            graph.setdefault(package, set())
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


if __name__ == "__main__":
    main()
