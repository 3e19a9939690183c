"""Models: available checkpoints, their quality, the one in use, and imports."""

import streamlit as st

from figures.labels import plain
from ui.core.view import View, current_entries
from ui.frame.page import Page
from ui.frame.steering import use_checkpoint
from ui.models.import_form import bring, draw_import
from ui.models.rows import draw_rows
from ui.work.roots import checkpoint_roots


def notes() -> tuple[str, ...]:
    """Return a note on the allowed folders."""
    roots = ", ".join(plain(root.name) for root in checkpoint_roots())
    return (f"Folders must be in the configured roots ({roots}, set by HEADLIGHT_CHECKPOINTS).",)


def whole(view: View) -> None:
    """Draw the installed models and the import form."""
    entries = current_entries()
    st.subheader("Installed models", anchor=False)
    if not entries:
        roots = ", ".join(f"{root.name}/" for root in checkpoint_roots())
        st.text(f"There is no model in {roots} yet.")
    draw_rows(entries, view.entry.whole, use_checkpoint, bring)

    st.subheader("Import a model", anchor=False)
    draw_import(use_checkpoint)


PAGE = Page(
    "models", "Models", ":material/deployed_code:", whole=whole, model="absent", notes=notes
)
