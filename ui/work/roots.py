"""The folders that the app may read: the configured roots of checkpoints, and nothing else.

A path may come from a URL, a symbolic link or a visitor's input. However it is spelt,
it is resolved first and must end below one of the roots.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from transformer.errors import CheckpointError

#: Environment variable that names the folders of checkpoints, separated as in PATH.
VARIABLE = "HEADLIGHT_CHECKPOINTS"

#: No file system takes longer paths.
_LONGEST = 4_096

#: A folder with more files than this is no checkpoint.
_MOST_FILES = 10_000


def checkpoint_roots() -> tuple[Path, ...]:
    """Return the resolved folders of checkpoints, which need not exist."""
    return folders_in(VARIABLE, "checkpoints")


def folders_in(variable: str, default: str) -> tuple[Path, ...]:
    """Return the folders that a variable names, resolved once; by default one beside app.py."""
    return _resolved(os.environ.get(variable, ""), default, os.getcwd())


@lru_cache(maxsize=8)
def _resolved(text: str, default: str, _: str) -> tuple[Path, ...]:
    """Return the folders of a text, from the third argument on, where the process works."""
    named = [each for each in text.split(os.pathsep) if each.strip()]
    if not named:
        return (Path(__file__).resolve().parents[2] / default,)
    return tuple(dict.fromkeys(Path(each).resolve() for each in named))


def checkpoints_root() -> Path:
    """Return the first root, to which models are imported."""
    return checkpoint_roots()[0]


def within_roots(path: str | Path) -> Path:
    """Resolve a file or folder to read; a relative path is looked up in each root.

    Files in a folder that are links must end below a root as well.

    Raises: `CheckpointError`, one line without folders of this machine, if the path leads outside.
    """
    text = os.fspath(path)
    if not text or "\0" in text or len(text) > _LONGEST:
        raise CheckpointError(f"{shown(text)}: not a path; {_allowed()}")
    roots = checkpoint_roots()
    try:
        root = next((each for each in roots if os.path.lexists(each / text)), roots[0])
        found = (root / text).resolve()
        if not any(_below(found, each) for each in roots):
            raise CheckpointError(f"{shown(text)}: outside the checkpoint folders; {_allowed()}")
        if found.is_dir():
            _check_links(found, text, roots)
    except (OSError, RuntimeError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        reason = getattr(error, "strerror", None) or "cannot be followed to a file"
        raise CheckpointError(f"{shown(text)}: {reason}; {_allowed()}") from None
    return found


def without_root(message: str) -> str:
    """Return a message without the folders of this machine."""
    for root in checkpoint_roots():
        message = message.replace(f"{root}{os.sep}", "").replace(str(root), root.name)
    return message


def shown(path: str | Path) -> str:
    """Return a path for a message: one line of bounded length, without this machine's folders."""
    text = without_root(os.fspath(path))
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return text if len(text) <= 100 else f"{text[:99]}…"


def _below(path: Path, root: Path) -> bool:
    return path != root and path.is_relative_to(root)


def _check_links(folder: Path, text: str, roots: tuple[Path, ...]) -> None:
    with os.scandir(folder) as files:
        for count, each in enumerate(files):
            if count == _MOST_FILES:
                raise CheckpointError(f"{shown(text)}: holds more than {_MOST_FILES:,} files")
            if not each.is_symlink():
                continue
            try:
                end = Path(each.path).resolve()
            except (OSError, RuntimeError):
                raise CheckpointError(
                    f"{shown(text)}/{shown(each.name)}: a link to itself"
                ) from None
            if not any(_below(end, root) for root in roots):
                raise CheckpointError(
                    f"{shown(text)}/{shown(each.name)}: a link that leads outside the checkpoint "
                    f"folders; {_allowed()}"
                )


def _allowed() -> str:
    names = ", ".join(f"{root.name}/" for root in checkpoint_roots())
    return f"only what lies in {names} is opened"
