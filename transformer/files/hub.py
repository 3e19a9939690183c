"""Downloads a model from the Hugging Face hub through `huggingface_hub`, an optional dependency.

The file list of one commit, with sizes and checksums, comes first, and limits apply before any
download. Files go into the caller's folder, under plain names that match its patterns. A file that
is larger than announced, truncated or altered is refused, and nothing is kept.
"""

import fnmatch
import hashlib
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from transformer.config import parse_json
from transformer.files.folders import FETCHED, own_prefix, remove_stages
from transformer.files.safe import is_folder
from transformer.files.unread import unread
from transformer.types import CheckpointError, Report, no_report

#: owner/name as the hub allows it, which cannot lead out of the hub's cache.
NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)

#: Maximum download: `transformer.config.MAX_PARAMETERS` in float32, with small files.
MAX_BYTES, MAX_FILES = 9_000_000_000, 100

#: Maximum seconds and bytes for the file list.
TIMEOUT, MAX_LISTING = 30.0, 20_000_000
CHUNK = 1 << 18


@dataclass(frozen=True)
class HubFile:
    """A file on the hub: its size in bytes, and its SHA-256 (if large) or git's SHA-1."""

    name: str
    size: int
    sha256: str | None
    git_sha1: str | None


@dataclass(frozen=True)
class HubModel:
    """A model's files to import, at one commit of its repository."""

    name: str
    revision: str
    files: tuple[HubFile, ...]

    @property
    def size(self) -> int:
        """Total size in bytes."""
        return sum(file.size for file in self.files)


def is_name(source: str) -> bool:
    """Return True for a name of the form owner/name."""
    return NAME.fullmatch(source) is not None and ".." not in source


def missing_client() -> str | None:
    """Return the reason that the hub client cannot be used, or None if it can."""
    try:
        from huggingface_hub import constants
    except ImportError:
        return "to fetch it from the hub, pip install huggingface_hub"
    if getattr(constants, "HF_HUB_OFFLINE", False):
        return "the hub is switched off by HF_HUB_OFFLINE"
    return None


def look_up(name: str, files: Sequence[str]) -> HubModel:
    """List a model's files without fetching them.

    Args:
        name: owner/name.
        files: patterns of file names; other weights are left out if any are safetensors.

    Raises: `CheckpointError`, one line, if the hub cannot be reached or has no such files, or if
        they exceed `MAX_BYTES` or `MAX_FILES`.
    """
    if not is_name(name):
        raise CheckpointError(f"{name!r} is not a hub name of the form owner/name")
    if (reason := missing_client()) is not None:
        raise CheckpointError(f"{name}: {reason}")
    endpoint = _endpoint()
    try:
        listing = _listing(name, endpoint)
        revision = str(listing["sha"])
        described = [_described(sibling) for sibling in listing["siblings"]]
    except Exception as error:  # noqa: BLE001 - the network and the hub can fail in any way
        raise CheckpointError(f"{name}: the hub did not list it ({_reason(error)})") from None
    matching = [
        file for file in described
        if file.name and any(fnmatch.fnmatchcase(file.name, pattern) for pattern in files)
    ]  # fmt: skip
    if any(file.name.endswith(".safetensors") for file in matching):
        matching = [file for file in matching if not file.name.endswith((".bin", ".pt", ".ckpt"))]
    model = HubModel(name, revision, tuple(matching[: MAX_FILES + 1]))
    if not re.fullmatch("[0-9a-f]{40,64}", revision) or not matching:
        raise CheckpointError(f"{name}: holds none of {', '.join(files)}")
    if len(model.files) > MAX_FILES or model.size > MAX_BYTES:
        raise CheckpointError(
            f"{name}: {model.size:,} bytes in {len(matching)} files; at most {MAX_BYTES:,} bytes "
            f"in {MAX_FILES} files are allowed"
        )
    return model


def _listing(name: str, endpoint: str | None) -> Any:
    """Return the hub's description of a model, within limits of time and size."""
    from huggingface_hub import constants, utils

    client: Any = utils
    url = f"{endpoint or constants.ENDPOINT}/api/models/{name}?blobs=true"
    listing: Future[Any] = Future()
    end = time.monotonic() + TIMEOUT

    def ask() -> None:
        text = bytearray()
        try:
            headers, session = _headers(), client.get_session()
            with session.stream("GET", url, headers=headers, timeout=TIMEOUT) as answer:
                if answer.is_error:
                    answer.close()  # otherwise the client reads all of its text
                client.hf_raise_for_status(answer)
                for part in answer.iter_raw():  # unpacked, a few bytes could be gigabytes
                    text += part
                    if len(text) > MAX_LISTING or time.monotonic() > end:
                        raise ValueError("its file list has no end")
            listing.set_result(parse_json(bytes(text)))
        except Exception as error:  # noqa: BLE001 - raised by `result`
            listing.set_exception(error)

    # The client's timeout applies between two bytes, so a slow hub could take forever.
    threading.Thread(target=ask, daemon=True).start()
    try:
        return listing.result(TIMEOUT)
    except TimeoutError:
        raise ValueError(f"no complete file list in {TIMEOUT:.0f} s") from None


def _described(sibling: Any) -> HubFile:
    """Read the hub's description of a file; a path becomes an empty name."""
    name, large = str(sibling["rfilename"]), sibling.get("lfs")
    plain = re.fullmatch(r"\w[\w.-]{0,200}", name, re.ASCII)
    # A large file's blob id is of its Git LFS pointer.
    sha256, git_sha1 = (large["sha256"], None) if large else (None, sibling.get("blobId"))
    return HubFile(name if plain else "", int(sibling.get("size") or 0), sha256, git_sha1)


def fetch(model: HubModel, folder: Path, report: Report = no_report) -> None:
    """Fetch a model's files into an existing, empty folder.

    Args: report: called with (bytes so far, total bytes); stops the download by raising.

    Raises: `CheckpointError`, one line.
    """
    free = shutil.disk_usage(folder).free
    if free < model.size:
        raise CheckpointError(
            f"{model.name}: {model.size:,} bytes, but only {free:,} are free here"
        )
    done = 0
    for file in model.files:
        path = folder / file.name

        def progress(received: int, before: int = done) -> None:
            report(before + received, model.size)

        if not _copy_cached(model, file, path):
            _download(model, file, path, progress)
        _check(model, file, path)
        done += file.size
        progress(file.size)


def _copy_cached(model: HubModel, file: HubFile, path: Path) -> bool:
    """Copy a file from the shared cache of `huggingface_hub`; return False if it is not there."""
    from huggingface_hub import try_to_load_from_cache

    try:
        cached = try_to_load_from_cache(model.name, file.name, revision=model.revision)
        if not isinstance(cached, str) or os.path.getsize(cached) != file.size:
            return False
        shutil.copyfile(cached, path)
    except (OSError, ValueError):
        return False
    return True


def _download(model: HubModel, file: HubFile, path: Path, progress: Callable[[int], None]) -> None:
    """Fetch a file with the client's `http_get`, which resumes and guards the token.

    `hf_hub_download`, one level up, cannot be stopped: huggingface_hub 2.4.0 hands large files to
    hf_xet, which swallows exceptions of the progress bar. `http_get` reports every 10 MiB.
    """
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get

    where = f"{model.name}/{file.name}"
    received, reporting = 0, False

    class Progress(AbstractContextManager["Progress"]):
        """The interface of tqdm that `http_get` uses."""

        def __init__(self, **_: object) -> None: ...

        def __exit__(self, *_: object) -> None: ...

        def update(self, count: int) -> None:
            nonlocal received, reporting
            received += count
            reporting = True
            if received > file.size:
                raise CheckpointError(
                    f"{where}: larger than the {file.size:,} bytes that the hub announced"
                )
            progress(received)
            reporting = False

    url = hf_hub_url(model.name, file.name, revision=model.revision, endpoint=_endpoint())
    try:
        with path.open("wb") as written:
            bar = cast(Any, Progress)
            http_get(url, written, headers=_headers(), expected_size=file.size, tqdm_class=bar)
    except Exception as error:
        if reporting:  # stopped by the caller, or too large
            raise
        cut = f"broke off after {received:,} of {file.size:,} bytes"
        reason = cut if 0 < received < file.size else _reason(error)
        raise CheckpointError(f"{where}: {reason}; nothing was kept, try again") from None


def _check(model: HubModel, file: HubFile, path: Path) -> None:
    """Compare a file with the size and checksum announced. Raises `CheckpointError`."""
    size, digest, announced = path.stat().st_size, hashlib.sha256(), file.sha256
    if not announced:
        blob = f"blob {size}\0".encode()
        digest, announced = hashlib.sha1(blob, usedforsecurity=False), file.git_sha1
    with path.open("rb") as read:
        while chunk := read.read(CHUNK):
            digest.update(chunk)
    if size != file.size or announced not in (None, digest.hexdigest()):
        raise CheckpointError(
            f"{model.name}/{file.name}: wrong checksum (damaged or replaced); nothing was kept"
        )


@contextmanager
def opened(
    source: str, files: Sequence[str], beside: Path, report: Report = no_report
) -> Iterator[Path]:
    """Yield the folder `source`, or a temporary folder with that hub model's files.

    Args:
        source: a folder, or owner/name on the hub.
        files: patterns of the files to fetch.
        beside: parent of the temporary folder.
        report: see `fetch`.

    Raises: `CheckpointError` if there is neither such a folder nor such a model.
    """
    if source and is_folder(Path(source)):
        yield Path(source)
        return
    if not is_name(source) or Path(source).is_file():
        reason = unread(Path(source)) or "no such folder"
        raise CheckpointError(f"{source}: {reason}")
    try:
        model = look_up(source, files)
    except CheckpointError as error:
        cached = _cached(source, files)
        if cached is None:
            reason = str(error).removeprefix(f"{source}: ")
            raise CheckpointError(f"{source}: no such folder; {reason}") from None
        yield cached
        return
    with fetched(model, beside, report) as folder:
        yield folder


@contextmanager
def fetched(model: HubModel, beside: Path, report: Report = no_report) -> Iterator[Path]:
    """Yield a temporary folder in `beside` with a model's files."""
    beside.mkdir(parents=True, exist_ok=True)
    remove_stages(beside, FETCHED)
    folder = Path(tempfile.mkdtemp(prefix=own_prefix(FETCHED), dir=beside))
    try:
        fetch(model, folder, report)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _cached(name: str, files: Sequence[str]) -> Path | None:
    """Return a model's folder in the cache of `huggingface_hub`, or None; for use offline."""
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(name, allow_patterns=list(files), local_files_only=True))
    except Exception:  # noqa: BLE001 - no client, not cached, or damaged
        return None


def _headers() -> dict[str, str]:
    """Return request headers that forbid compression, which could not be resumed or bounded."""
    from huggingface_hub import constants, utils

    constants.HF_HUB_DISABLE_TELEMETRY = True  # it would report this server
    headers: dict[str, str] = cast(Any, utils).build_hf_headers(
        headers={"Accept-Encoding": "identity"}
    )
    return headers


def _endpoint() -> str | None:
    """Return the hub's address, or None for the public hub."""
    endpoint = os.environ.get("HF_ENDPOINT") or None
    if endpoint is not None and not endpoint.startswith(("https://", "http://")):
        raise CheckpointError(f"HF_ENDPOINT={endpoint!r} is not the address of a web server")
    return endpoint


def _reason(error: object) -> str:
    if type(error).__name__ == "RepositoryNotFoundError":
        return "there is no such model, or it is private"
    if type(error).__name__ == "GatedRepoError":
        return "its owner must grant you access, see its page"
    if (response := getattr(error, "response", None)) is not None:
        return f"the hub answered {response.status_code} {response.reason_phrase}"
    text = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
    return " ".join(str(text).split())[:300] or type(error).__name__
