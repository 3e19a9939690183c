"""Fetching a model's files from the Hugging Face hub, where `huggingface_hub` is installed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from transformer.weights import CheckpointError

#: owner/name, as the hub allows it: no path outside the hub's own cache can be written so.
NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)


def folder_of(source: str, files: Sequence[str]) -> Path:
    """The folder called `source`, or the one that `source`'s files are fetched to.

    Args:
        source: a folder, or owner/name on the hub.
        files: names of the files to fetch, as far as the hub has them.

    Raises: `CheckpointError` where there is neither.
    """
    folder = Path(source)
    if folder.is_dir():
        return folder
    if not NAME.fullmatch(source) or ".." in source:
        raise CheckpointError(f"{source}: no such folder")
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise CheckpointError(
            f"{source}: no such folder; to fetch it from the hub, pip install huggingface_hub"
        ) from None
    try:
        return Path(snapshot_download(source, allow_patterns=list(files)))
    except Exception as error:  # noqa: BLE001 - the network, the hub or its cache can fail anyhow
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise CheckpointError(
            f"{source}: no such folder, and the hub did not give it ({reason})"
        ) from None
