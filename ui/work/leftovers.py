"""Leftovers of a killed server."""

from __future__ import annotations

import tempfile
from pathlib import Path

from transformer.files.leftovers import clear_away, remove_stages
from ui.work.roots import checkpoint_roots

#: Prefix of the folders of training runs among the system's temporary files.
TRAINING = "headlight-training-"


def put_in_order() -> list[str]:
    """Remove or restore leftovers; return one line for each."""
    found = clear_away(checkpoint_roots())
    if remove_stages(Path(tempfile.gettempdir()), TRAINING, own=True):
        found.append("Removed training runs of a killed process")
    return found
