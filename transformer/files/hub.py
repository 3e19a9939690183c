"""Fetching a model's files from the Hugging Face hub, where `huggingface_hub` is installed.

The hub says which files there are, how large, and with which checksums, before anything is
fetched. Files come into a folder of the caller's and only under the names that were asked for. One
that is larger than announced, cut short or changed on the way is refused, and nothing is kept.
"""

from __future__ import annotations

import fnmatch
import hashlib
import http.client
import os
import re
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from transformer.errors import CheckpointError
from transformer.files.web import NoDowngrade
from transformer.types import Report

#: owner/name, as the hub allows it: no path outside the hub's own cache can be written so.
NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)

#: A model of `transformer.config.MAX_PARAMETERS` in float32, and its small files.
MAX_BYTES, MAX_FILES = 9_000_000_000, 100

#: Seconds without a byte after which the hub counts as silent; how often to go on after a break.
TIMEOUT, ATTEMPTS = 30.0, 4
CHUNK = 1 << 18


@dataclass(frozen=True)
class HubFile:
    """A file on the hub: its size in bytes, and SHA-256 (of large files) or git's SHA-1 of it."""

    name: str
    size: int
    sha256: str | None
    git_sha1: str | None


@dataclass(frozen=True)
class HubModel:
    """Those files of a model that an import reads, at one commit of its repository."""

    name: str
    revision: str
    files: tuple[HubFile, ...]

    @property
    def size(self) -> int:
        """Bytes to fetch."""
        return sum(each.size for each in self.files)


def is_name(source: str) -> bool:
    """Whether this could be owner/name on the hub."""
    return NAME.fullmatch(source) is not None and ".." not in source


def missing_client() -> str | None:
    """Why nothing can be fetched from the hub, None where the network alone decides."""
    try:
        from huggingface_hub import constants
    except ImportError:
        return "to fetch it from the hub, pip install huggingface_hub"
    if getattr(constants, "HF_HUB_OFFLINE", False):
        return "the hub is switched off by HF_HUB_OFFLINE"
    return None


def look_up(name: str, files: Sequence[str], *, endpoint: str | None = None) -> HubModel:
    """Ask the hub what there is of a model; fetches none of it.

    Args:
        name: owner/name.
        files: patterns of file names. Where there are safetensors, no other weights are taken.
        endpoint: address of the hub; default HF_ENDPOINT, else the public one.

    Raises: `CheckpointError`, one line, where there is nothing to be had.
    """
    if not is_name(name):
        raise CheckpointError(f"{name!r} is not a name on the hub; those are owner/name")
    why = missing_client()
    if why is not None:
        raise CheckpointError(f"{name}: {why}")
    from huggingface_hub import HfApi

    try:
        found = HfApi(endpoint=_endpoint(endpoint)).model_info(
            name, files_metadata=True, timeout=TIMEOUT
        )
        revision = str(found.sha or "")
        described = [_described(each) for each in found.siblings or ()]
    except Exception as error:  # noqa: BLE001 - the network and the hub can fail anyhow
        raise CheckpointError(f"{name}: the hub did not give it ({_reason(error)})") from None
    wanted = [
        each
        for each in described
        if each.name and any(fnmatch.fnmatchcase(each.name, pattern) for pattern in files)
    ]
    if any(each.name.endswith(".safetensors") for each in wanted):
        wanted = [each for each in wanted if not each.name.endswith((".bin", ".pt", ".ckpt"))]
    model = HubModel(name, revision, tuple(wanted[: MAX_FILES + 1]))
    if not re.fullmatch("[0-9a-f]{40,64}", revision) or not wanted:
        raise CheckpointError(f"{name}: holds none of {', '.join(files)}")
    if len(model.files) > MAX_FILES or model.size > MAX_BYTES:
        raise CheckpointError(
            f"{name}: {model.size:,} bytes in {len(wanted)} files; at most {MAX_BYTES:,} bytes "
            f"in {MAX_FILES} files are fetched"
        )
    return model


def _described(sibling: Any) -> HubFile:
    """What the hub says of a file. Its name is taken only where it is no path."""
    name = str(sibling.rfilename)
    plain = re.fullmatch(r"\w[\w.-]{0,200}", name, re.ASCII)
    sha256 = getattr(sibling.lfs, "sha256", None) if sibling.lfs is not None else None
    # The blob's id of a large file is that of the pointer which git keeps in its place.
    git_sha1 = sibling.blob_id if sibling.lfs is None else None
    return HubFile(name if plain else "", int(sibling.size or 0), sha256, git_sha1)


def fetch(
    model: HubModel, folder: Path, report: Report | None = None, *, endpoint: str | None = None
) -> None:
    """Fetch a model's files into a folder, which exists and is empty.

    Args:
        report: called with (bytes, of how many); may raise, which stops.

    Raises: `CheckpointError`, one line.
    """
    free = shutil.disk_usage(folder).free
    if free < model.size:
        raise CheckpointError(
            f"{model.name}: takes {model.size:,} bytes, but only {free:,} are free here"
        )
    done = 0
    for file in model.files:
        path = folder / file.name
        before = done

        def heard(received: int, before: int = before) -> None:
            if report is not None:
                report(before + received, model.size)

        if not _from_cache(model, file, path):
            _stream(model, file, path, heard, endpoint)
        _check(model, file, path)
        done += file.size
        heard(file.size)


def _from_cache(model: HubModel, file: HubFile, path: Path) -> bool:
    """Copy what another program fetched already."""
    from huggingface_hub import try_to_load_from_cache

    try:
        cached = try_to_load_from_cache(model.name, file.name, revision=model.revision)
        if not isinstance(cached, str) or os.path.getsize(cached) != file.size:
            return False
        shutil.copyfile(cached, path)
    except (OSError, ValueError):
        return False
    return True


def _stream(model: HubModel, file: HubFile, path: Path, heard: Any, endpoint: str | None) -> None:
    """Fetch one file, going on from where it broke off, a few times."""
    from huggingface_hub import get_token, hf_hub_url

    url = hf_hub_url(model.name, file.name, revision=model.revision, endpoint=_endpoint(endpoint))
    opener = urllib.request.build_opener(_KeepsSecret)
    broke = ""
    with path.open("wb") as written:
        for _ in range(ATTEMPTS):
            request = urllib.request.Request(url)  # noqa: S310 - the hub's address
            if token := get_token():
                request.add_unredirected_header("Authorization", f"Bearer {token}")
            if start := written.tell():
                request.add_header("Range", f"bytes={start}-")
            try:
                with opener.open(request, timeout=TIMEOUT) as response:
                    if start and response.status != http.client.PARTIAL_CONTENT:
                        written.seek(0)
                        written.truncate()
                    while chunk := response.read(CHUNK):
                        written.write(chunk)
                        if written.tell() > file.size:
                            raise CheckpointError(
                                f"{model.name}/{file.name}: larger than the {file.size:,} bytes "
                                "that the hub announced"
                            )
                        heard(written.tell())
                if written.tell() == file.size:
                    return
                broke = f"broke off after {written.tell():,} of {file.size:,} bytes"
            except urllib.error.HTTPError as error:
                broke = f"the hub answered {error.code} {error.reason}"
                if error.code < 500:
                    break
            except (http.client.HTTPException, OSError) as error:
                broke = _reason(error)
    raise CheckpointError(f"{model.name}/{file.name}: {broke}; nothing was kept, so try again")


def _check(model: HubModel, file: HubFile, path: Path) -> None:
    """Compare size and checksum with what the hub said."""
    size = path.stat().st_size
    digests = []
    if file.sha256:
        digests.append((file.sha256, hashlib.sha256()))
    if file.git_sha1:
        known = hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
        digests.append((file.git_sha1, known))
    with path.open("rb") as read:
        while chunk := read.read(CHUNK):
            for _, digest in digests:
                digest.update(chunk)
    if size != file.size or any(said != digest.hexdigest() for said, digest in digests):
        raise CheckpointError(
            f"{model.name}/{file.name}: wrong checksum, so damaged on the way or replaced; "
            "nothing was kept"
        )


@contextmanager
def opened(
    source: str,
    files: Sequence[str],
    beside: Path,
    report: Report | None = None,
    *,
    endpoint: str | None = None,
) -> Iterator[Path]:
    """The folder called `source`, or one with `source`'s files, gone again afterwards.

    Args:
        source: a folder, or owner/name on the hub.
        files: patterns of the files to fetch.
        beside: where there is room for them.
        report: see `fetch`.

    Raises: `CheckpointError` where there is neither.
    """
    if _is_folder(source):
        yield Path(source)
        return
    if not is_name(source):
        raise CheckpointError(f"{source}: no such folder")
    try:
        model = look_up(source, files, endpoint=endpoint)
    except CheckpointError as error:
        cached = _cached(source, files)
        if cached is None:
            reason = str(error).removeprefix(f"{source}: ")
            raise CheckpointError(f"{source}: no such folder; {reason}") from None
        yield cached
        return
    with fetched(model, beside, report, endpoint=endpoint) as folder:
        yield folder


@contextmanager
def fetched(
    model: HubModel, beside: Path, report: Report | None = None, *, endpoint: str | None = None
) -> Iterator[Path]:
    """A folder with a model's files, made in `beside` and gone afterwards."""
    beside.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".fetched.", dir=beside))
    try:
        fetch(model, folder, report, endpoint=endpoint)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _cached(name: str, files: Sequence[str]) -> Path | None:
    """Where the hub's own client keeps this model, for those who are offline."""
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(name, allow_patterns=list(files), local_files_only=True))
    except Exception:  # noqa: BLE001 - no client, nothing there, or damaged: all the same
        return None


def _is_folder(source: str) -> bool:
    try:
        return bool(source) and Path(source).is_dir()
    except (OSError, ValueError):
        return False


def _endpoint(given: str | None) -> str | None:
    endpoint = given or os.environ.get("HF_ENDPOINT") or None
    if endpoint is not None and not endpoint.startswith(("https://", "http://")):
        raise CheckpointError(f"HF_ENDPOINT={endpoint!r} is not the address of a web server")
    return endpoint


def _reason(error: object) -> str:
    if type(error).__name__ == "RepositoryNotFoundError":
        return "there is no model of that name, or it is not public"
    if type(error).__name__ == "GatedRepoError":
        return "its owner has to allow you first, see its page"
    text = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
    return " ".join(str(text).split())[:300] or type(error).__name__


class _KeepsSecret(NoDowngrade):
    """Follows redirects; only the same server is told who asks."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """The next request."""
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        secret = req.unredirected_hdrs.get("Authorization")
        if new is not None and secret and (new.type, new.host) == (req.type, req.host):
            new.add_unredirected_header("Authorization", secret)
        return new
