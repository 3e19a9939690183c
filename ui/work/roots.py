"""The checkpoint roots, the only folders that the app reads.

Every path, whether from a URL, a symbolic link or a visitor's input, is resolved and must end below
a root.
"""

import os
from functools import lru_cache
from pathlib import Path

from transformer.types import CheckpointError

#: Environment variable with the checkpoint folders, separated as in PATH.
VARIABLE = "HEADLIGHT_CHECKPOINTS"

#: Longest path of any file system.
_LONGEST = 4_096

#: Maximum number of files in a checkpoint folder.
_MOST_FILES = 10_000


def checkpoint_roots() -> tuple[Path, ...]:
    """Return the resolved checkpoint folders, which need not exist."""
    return folders_in(VARIABLE, "checkpoints")


def folders_in(variable: str, default: str) -> tuple[Path, ...]:
    """Return the resolved folders in a variable, by default a folder beside app.py."""
    return _resolved(os.environ.get(variable, ""), default, os.getcwd())


@lru_cache(maxsize=8)
def _resolved(text: str, default: str, _: str) -> tuple[Path, ...]:
    paths = [path for path in text.split(os.pathsep) if path.strip()]
    if not paths:
        return (Path(__file__).resolve().parents[2] / default,)
    return tuple(dict.fromkeys(Path(path).resolve() for path in paths))


def checkpoints_root() -> Path:
    """Return the first root, where imported models go."""
    return checkpoint_roots()[0]


def within_roots(path: str | Path) -> Path:
    """Resolve a path to read; relative paths are searched for in every root.

    Links inside a folder must end below a root too.

    Raises: `CheckpointError`, without this machine's folders, if the path leads outside.
    """
    text = os.fspath(path)
    if not text or "\0" in text or len(text) > _LONGEST:
        raise CheckpointError(f"{shown(text)}: not a path; {_allowed()}")
    roots = checkpoint_roots()
    try:
        root = next((root for root in roots if os.path.lexists(root / text)), roots[0])
        resolved = (root / text).resolve()
        if not any(_below(resolved, root) for root in roots):
            raise CheckpointError(f"{shown(text)}: outside the checkpoint folders; {_allowed()}")
        if resolved.is_dir():
            _check_links(resolved, text, roots)
    except (OSError, RuntimeError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        reason = getattr(error, "strerror", None) or "cannot be followed to a file"
        raise CheckpointError(f"{shown(text)}: {reason}; {_allowed()}") from None
    return resolved


def without_root(message: str) -> str:
    """Remove this machine's folders from a message."""
    for root in checkpoint_roots():
        message = message.replace(f"{root}{os.sep}", "").replace(str(root), root.name)
    return message


def shown(path: str | Path) -> str:
    """Format a path for a message: one short line without this machine's folders."""
    text = without_root(os.fspath(path))
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return text if len(text) <= 100 else f"{text[:99]}…"


def _below(path: Path, root: Path) -> bool:
    return path != root and path.is_relative_to(root)


def _check_links(folder: Path, text: str, roots: tuple[Path, ...]) -> None:
    with os.scandir(folder) as files:
        for count, file in enumerate(files):
            if count == _MOST_FILES:
                raise CheckpointError(f"{shown(text)}: holds more than {_MOST_FILES:,} files")
            if not file.is_symlink():
                continue
            try:
                end = Path(file.path).resolve()
            except (OSError, RuntimeError):
                raise CheckpointError(
                    f"{shown(text)}/{shown(file.name)}: a link to itself"
                ) from None
            if not any(_below(end, root) for root in roots):
                raise CheckpointError(
                    f"{shown(text)}/{shown(file.name)}: a link that leads outside the checkpoint "
                    f"folders; {_allowed()}"
                )


def _allowed() -> str:
    names = ", ".join(f"{root.name}/" for root in checkpoint_roots())
    return f"allowed: paths in {names}"
