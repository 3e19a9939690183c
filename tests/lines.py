"""Print the size of the project: python -m tests.lines.

Counts the lines of the files that git tracks, so a build folder or an editor's copy never counts.
"""

import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

from tests.house import ROOT, arrows, modules

SUFFIXES = (".py", ".js", ".css")
#: Largest sizes that the project allows itself; `tests/test_house.py` holds them. They only fall.
LIMITS = {
    "source lines": 72_600,
    "lines of tests": 40_000,
    "files on the way of a sentence": 27,
    "returns on the way of a sentence": 23,
    "decisions, files": 50,
    "README, bytes": 9_216,
    "modules under 50 lines with one importer": 0,
}


def main() -> None:
    """Print lines by folder, then every limit with its value."""
    for name, lines in sorted(by_folder().items(), key=lambda item: -item[1]):
        print(f"{lines:8,}  {name}")
    print()
    for name, value in sizes().items():
        limit = LIMITS.get(name)
        print(f"{value:8,}  {name}" + (f" (at most {limit:,})" if limit is not None else ""))


def by_folder() -> dict[str, int]:
    """Return lines by top-level folder, and by folder inside `transformer`, `ui` and `tests`."""
    lines: Counter[str] = Counter()
    for path in tracked():
        parts = Path(path).parts
        if path.endswith(SUFFIXES):
            deep = parts[0] in ("transformer", "ui", "tests") and len(parts) > 2
            lines["/".join(parts[: 1 + deep]) + "/" * (len(parts) > 1)] += count(path)
    return lines


def sizes() -> dict[str, int]:
    """Return what `LIMITS` bounds, and the words of decisions.

    Benchmarks, data tools and generated scripts are no source lines.
    """
    code = [path for path in tracked() if path.endswith(SUFFIXES)]
    apart = ("tests/", "benchmarks/", "recipes/", "ui/components/bundles/")
    way = [sys.executable, "-W", "ignore", "-m", "tests.house"]
    printed = subprocess.run(way, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files, returns = map(int, printed.split()[-2:])
    decisions = [
        path
        for path in tracked()
        if path.startswith("docs/decisions/") and not path.endswith("README.md")
    ]
    return {
        "source lines": sum(count(path) for path in code if not path.startswith(apart)),
        "lines of tests": sum(count(path) for path in code if path.startswith("tests/")),
        "files on the way of a sentence": files,
        "returns on the way of a sentence": returns,
        "decisions, files": len(decisions),
        "decisions, words": sum(len(read(path).split()) for path in decisions),
        "README, bytes": (ROOT / "README.md").stat().st_size,
        "modules under 50 lines with one importer": len(small_modules()),
    }


def small_modules() -> list[str]:
    """Return modules under 50 lines that one other module imports; packages do not count."""
    house = modules()
    importers: dict[str, set[str]] = defaultdict(set)
    for name, other in arrows(house):
        importers[other].add(name)
    return sorted(
        name
        for name, module in house.items()
        if module.path.name != "__init__.py" and module.lines < 50 and len(importers[name]) == 1
    )


def tracked() -> list[str]:
    """Return the tracked files that exist, as paths from the root."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    return [path for path in listed.stdout.decode().split("\0") if path and (ROOT / path).is_file()]


def count(path: str) -> int:
    return read(path).count("\n")


def read(path: str) -> str:
    return (ROOT / path).read_text("utf-8")


if __name__ == "__main__":
    main()
