"""An import's cost, and the import, which runs in the background.

Imports run one at a time, each complete or not at all. An import outlives the page run that started
it, and its name is taken for all sessions.
"""

import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal

from figures.labels import in_bytes
from transformer.files.folders import STAGE, own_prefix, remove_stages
from transformer.files.hub import MAX_BYTES, HubModel, fetch
from transformer.files.safe import check_file
from transformer.files.unread import unread
from transformer.models.importers.registry import FORMATS, Format, put_in_place
from transformer.types import CheckpointError
from transformer.worker.job import Job, Register, Scheduler, StoppedError
from transformer.worker.limits import free_memory
from transformer.worker.process import LostError, Process
from ui.work.roots import checkpoint_roots, checkpoints_root, shown, within_roots, without_root

log = logging.getLogger(__name__)

#: Bytes of memory per byte of weights: the file's pages, the values (half precision becomes
#: float32), and the copies for writing. Imports of 25 million values took 6.7 in float16 and 4.0
#: in float32.
MEMORY_PER_BYTE = 7

#: Maximum number of folders searched in each root and in each of its folders.
_MOST_FOLDERS = 300

#: Maximum number of imports that wait for the running one.
_MOST_WAITING = 4

_WEIGHTS = (".safetensors", ".bin", ".pt", ".ckpt", ".npz")

#: The temporary folders of an import, before a file's name.
_HIDDEN = re.compile(r"(?:\.[^/\s:]+/)+")


@dataclass(frozen=True)
class Plan:
    """An import before it starts."""

    format: str  # a key of `FORMATS`
    name: str  # the new checkpoint's name
    called: str  # the source, for display
    source: Path | HubModel  # a folder in a root, or a model on the hub
    read: int  # bytes to read or download
    disk: int  # bytes needed on disk
    memory: int  # bytes needed in memory


def cannot_write() -> str | None:
    """Return why no checkpoint can be added, or None if one can."""
    folder = _disk()
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        return f"The app cannot write to the folder {checkpoints_root().name}/."
    return None


def _disk() -> Path:
    """Return the folder for new checkpoints, or its nearest existing parent."""
    root = checkpoints_root()
    return next((folder for folder in (root, *root.parents) if folder.exists()), root)


def folders_for(kind: Format) -> list[str]:
    """Return the folders of this format, at most two levels down, relative to their root."""
    names = set()
    for root in checkpoint_roots():
        for outer in _folders(root):
            for folder in filter(kind.fits, (outer, *_folders(outer))):
                with suppress(CheckpointError):
                    within_roots(folder)
                    names.add(str(folder.relative_to(root)))
    return sorted(names)


def _folders(folder: Path) -> Iterator[Path]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in islice(entries, _MOST_FOLDERS):
            if not entry.name.startswith(".") and entry.is_dir():
                yield Path(entry.path)


def check_name(name: str) -> str:
    """Check a new checkpoint's name and return it. Raises `CheckpointError`, one line."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name) is None or name.endswith("."):
        raise CheckpointError(
            f"{shown(name) or 'An empty name'} is not a valid name; use 1 to 64 letters, digits, "
            "dots, dashes and underscores, starting with a letter or digit"
        )
    if _is_taken(name):
        raise CheckpointError(f"{name} already exists; choose another name")
    return name


def free_name(folder: str) -> str:
    """Return a free checkpoint name derived from a folder name, or "" if there is none."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", folder).strip("._-")[:50] or "model"
    names = [f"{plain}-imported", *(f"{plain}-imported-{count}" for count in range(2, 100))]
    return next((name for name in names if not _is_taken(name)), "")


def _is_taken(name: str) -> bool:
    return any(os.path.lexists(root / name) for root in checkpoint_roots())


@contextmanager
def adding(name: str) -> Iterator[Path]:
    """Yield a folder; at the end of the block, `name` in it becomes a checkpoint.

    Raises: `CheckpointError` if the name has since been taken; `OSError`.
    """
    root = checkpoints_root()
    root.mkdir(parents=True, exist_ok=True)
    remove_stages(root, STAGE)
    stage = Path(tempfile.mkdtemp(prefix=own_prefix(STAGE), dir=root))
    try:
        yield stage
        put_in_place(stage / name, root / check_name(name))
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def plan_folder(kind: Format, folder: str, name: str) -> Plan:
    """Plan an import from a folder in a root. Raises `CheckpointError`, one line."""
    path, called = within_roots(folder), shown(folder)
    if not path.is_dir():
        raise CheckpointError(f"{called}: {unread(path) or 'no such folder'}")
    if reason := unread(path, kind.name):
        raise CheckpointError(f"{called}: {reason}")
    if (missing := kind.lacks(path)) is not None:
        raise CheckpointError(
            f"{called}: not a {kind.title} model: {missing} is missing; it needs {kind.holds}"
        )
    files = {file for pattern in kind.files for file in path.glob(pattern)}
    return _plan(kind, name, called, path, {file.name: check_file(file) for file in files})


def plan_hub(kind: Format, model: HubModel, name: str) -> Plan:
    """Plan an import from the hub. Raises `CheckpointError`, one line."""
    return _plan(kind, name, model.name, model, {file.name: file.size for file in model.files})


def _plan(
    kind: Format, name: str, called: str, source: Path | HubModel, sizes: dict[str, int]
) -> Plan:
    total = sum(sizes.values())
    if total > MAX_BYTES:
        raise CheckpointError(f"{called}: {total:,} bytes; at most {MAX_BYTES:,} are allowed")
    weights = sum(size for name, size in sizes.items() if name.endswith(_WEIGHTS))
    copies = 2 if isinstance(source, HubModel) else 1  # a download is stored too
    memory = MEMORY_PER_BYTE * weights
    return Plan(kind.name, check_name(name), called, source, total, copies * total, memory)


def check_room(plan: Plan) -> None:
    """Check that the import fits on disk and in memory. Raises `CheckpointError`, one line."""
    for what, needed, free in (
        ("on disk", plan.disk, free_disk()),
        ("of memory", plan.memory, free_memory()),
    ):
        if free is not None and needed > free:
            raise CheckpointError(
                f"{plan.called}: takes up to {in_bytes(needed)} {what}, but only {in_bytes(free)} "
                "are free on the server"
            )


def free_disk() -> int | None:
    """Return the free bytes on the checkpoints' disk, or None if unknown."""
    try:
        return shutil.disk_usage(_disk()).free
    except OSError:
        return None


class Import(Job[None]):
    """An import of a `plan`; `progress` counts within the current `step`."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan
        self.step: Literal["waiting", "fetching", "reading"] = "waiting"

    def _run_plan(self) -> None:
        """Import in turn. Raises: `StoppedError`; `CheckpointError`, which names no server path."""
        called = self.plan.called
        try:
            with _TURNS.turn():
                check_room(self.plan)
                with adding(self.plan.name) as stage:
                    self._import(stage)
        except StoppedError:
            raise
        except CheckpointError as error:
            raise CheckpointError(_HIDDEN.sub("", without_root(str(error)))) from None
        except (MemoryError, LostError):
            raise CheckpointError(f"{called}: not enough memory") from None
        except OSError as error:  # such as a full disk
            raise CheckpointError(f"{called}: {error.strerror or error}") from None
        except Exception:
            log.exception("the import of %s failed", called)
            raise CheckpointError(f"{called}: the import failed, see the log") from None

    def _enter(self, step: Literal["fetching", "reading"]) -> None:
        self(0, 0)
        self.step = step

    def _import(self, stage: Path) -> None:
        """Import to a folder in a process that can be stopped at once."""
        plan, process = self.plan, Process()

        def do(work: Callable[..., object], *arguments: object) -> None:
            process.start(work, *arguments).result(lambda *now: self(*max(now, (0, 0))))

        try:
            if isinstance(plan.source, HubModel):
                self._enter("fetching")
                folder = stage / ".fetched"
                folder.mkdir()
                do(fetch, plan.source, folder)
            else:
                folder = within_roots(plan.source)
            self._enter("reading")
            convert = partial(FORMATS[plan.format].convert, name=plan.called)
            do(convert, folder, stage / plan.name)
            self(1, 1)
        finally:
            process.close()


#: Imports by checkpoint name, and their queue.
JOBS, _TURNS = Register[str, Import](kept=0, most=_MOST_WAITING + 1), Scheduler()


def begin(plan: Plan) -> Import:
    """Start an import. Raises `CheckpointError`, one line, if its name is in use."""
    check_name(plan.name)
    job = Import(plan)
    if JOBS.begin(plan.name, lambda: job.start(lambda _: job._run_plan())) is not None:
        return job
    if plan.name in JOBS.running():
        raise CheckpointError(f"{plan.name} is already being imported; choose another name")
    raise CheckpointError("too many imports are waiting; try again later")
