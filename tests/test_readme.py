"""What the README says is what the project prints."""

from __future__ import annotations

from pathlib import Path

from transformer.checkpoint.folder import list_checkpoints
from transformer.training.card import summary_table

ROOT = Path(__file__).resolve().parent.parent


def test_table_of_checkpoints_is_what_the_command_prints() -> None:
    table = summary_table(list_checkpoints(ROOT / "checkpoints"))
    assert table in (ROOT / "README.md").read_text(encoding="utf-8")


def test_picture_and_linked_files_exist() -> None:
    for name in ("docs/translate.png", "CONTRIBUTING.md", "docs/decisions.md", "LICENSE"):
        assert (ROOT / name).is_file(), name
