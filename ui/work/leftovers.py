"""What an earlier server of this machine left when it was killed."""

from __future__ import annotations

import tempfile
from pathlib import Path

from transformer.files.leftovers import clear_away, remove_stages
from ui.work.roots import checkpoint_roots

#: Begins the names of folders with the training jobs of a server, in the folder for such files.
TRAINING = "headlight-training-"


def put_in_order() -> list[str]:
    """Take away or put back what was left; return what was found, a line each."""
    said = clear_away(checkpoint_roots())
    if remove_stages(Path(tempfile.gettempdir()), TRAINING, own=True):
        said.append("took away the training runs of a server that was killed")
    return said
