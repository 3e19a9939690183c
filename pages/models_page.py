"""Models: the available checkpoints, their quality, the one in use, and imports."""

from __future__ import annotations

import streamlit as st

from figures.labels import plain
from ui.core.view import current_entries, current_view
from ui.core.widgets import draw_explained
from ui.frame.pages import require_frame
from ui.frame.steering import use_checkpoint
from ui.models.import_form import bring, draw_import
from ui.models.rows import draw_rows
from ui.work.roots import checkpoint_roots

require_frame()


entries = current_entries()
st.subheader("Installed models", anchor=False)
if not entries:
    roots = ", ".join(f"{root.name}/" for root in checkpoint_roots())
    st.text(f"There is no model in {roots} yet.")
draw_rows(entries, current_view().entry.whole, use_checkpoint, bring)

st.subheader("Import a model", anchor=False)
roots = ", ".join(plain(root.name) for root in checkpoint_roots())
draw_explained(
    "models", f"Folders must lie in the configured roots ({roots}, set by HEADLIGHT_CHECKPOINTS)."
)
draw_import(use_checkpoint)
