"""What this machine remembers of its races: a small file for every shape, in the user's cache.

So every process computes in the same way, to the last bit, from the first undisturbed race on.
Deleting the folder has the machine race again. Without a folder to write to, each process races for
itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

#: Bytes of a file; a longer one is none of ours.
MOST = 10_000


class Kept:
    """Choices by their circumstances."""

    def __init__(self, folder: Path, machine: Mapping[str, Any]) -> None:
        """Args: machine: what tells it from others; part of every choice's circumstances."""
        self.folder, self._machine = folder, dict(machine)

    @classmethod
    def of_this_machine(cls) -> Kept | None:
        """Return what this machine remembers; None for a user without a home."""
        try:
            base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        except RuntimeError:
            return None
        machine = {
            "processor": _processor(),
            "processors": os.cpu_count(),
            "torch": torch.__version__,
            "capability": torch.backends.cpu.get_cpu_capability(),
        }
        return cls(Path(base) / "headlight" / "products", machine)

    def read(self, circumstances: Mapping[str, Any]) -> list[str] | None:
        """Return what was kept, the names of three ways, or None."""
        key = self._key(circumstances)
        try:
            with self._path(key).open("rb") as file:
                content = json.loads(file.read(MOST))
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(content, dict) or json.dumps(content.get("key")) != key:
            return None
        names = content.get("names")
        if not isinstance(names, list) or len(names) != 3:
            return None
        return names if all(isinstance(each, str) for each in names) else None

    def write(self, circumstances: Mapping[str, Any], names: Sequence[str]) -> Sequence[str]:
        """Keep the names of three ways; return those that count, which another may have kept.

        Nothing is kept where nothing can be written.
        """
        key = self._key(circumstances)
        path = self._path(key)
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self.folder, suffix=".new") as file:
                json.dump({"key": json.loads(key), "names": list(names)}, file)
                file.flush()
                if path.exists() and self.read(circumstances) is None:
                    path.unlink(missing_ok=True)  # damaged: files appear whole
                with suppress(FileExistsError):
                    os.link(file.name, path)
        return self.read(circumstances) or names

    def _key(self, circumstances: Mapping[str, Any]) -> str:
        return json.dumps(self._machine | dict(circumstances))

    def _path(self, key: str) -> Path:
        return self.folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"


def _processor() -> str:
    """Return the processor's name."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
