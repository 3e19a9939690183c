"""The files that a build is sent: the repository without what `.dockerignore` leaves out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path


class Context:
    """A folder with its `.dockerignore`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        lines = (folder / ".dockerignore").read_text("utf-8").splitlines()
        rules = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        self._rules = [(_pattern(each.removeprefix("!")), each.startswith("!")) for each in rules]

    def files(self, source: str) -> Iterator[Path]:
        """Yield the files at or below `source` that are sent, relative to the folder."""
        top = self.folder / source
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            relative = path.relative_to(self.folder)
            if path.is_file() and self.holds(relative):
                yield relative

    def holds(self, path: Path) -> bool:
        """Return whether a path is sent: the last rule for it or for a folder above it decides."""
        names = ["/".join(path.parts[: end + 1]) for end in range(len(path.parts))]
        sent = True
        for pattern, exception in self._rules:
            if any(pattern.fullmatch(name) for name in names):
                sent = exception
        return sent


def _pattern(rule: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", rule.strip("/"))
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(known.get(part) or re.escape(part) for part in parts))
