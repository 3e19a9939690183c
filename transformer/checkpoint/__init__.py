"""A trained model as a folder. May import the model, `text` and `files`."""

from transformer.checkpoint.folder import (
    Checkpoint,
    CheckpointEntry,
    inspect_checkpoint,
    list_checkpoints,
    load_checkpoint,
    save_checkpoint,
)

__all__ = [
    "Checkpoint", "CheckpointEntry", "inspect_checkpoint", "list_checkpoints", "load_checkpoint",
    "save_checkpoint",
]  # fmt: skip
