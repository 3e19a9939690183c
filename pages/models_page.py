"""Models: the available checkpoints, their quality, the one in use, and imports."""

from __future__ import annotations

import streamlit as st

from figures.markdown import plain
from ui.core.view import current_entries, current_view
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
    st.text(f"There is no checkpoint in {roots} yet.")
draw_rows(entries, current_view().entry.whole, use_checkpoint, bring)

heading, info = st.columns([6, 1], vertical_alignment="center")
heading.subheader("Import a model", anchor=False)
with info.popover("How", icon=":material/info:", type="tertiary"):
    st.markdown(
        "A model from another library becomes a checkpoint of this app: its weights are copied "
        "under other names, and every page can show it. Its files are read as data and never run; "
        "shapes are checked against its config before memory is allocated. An import is complete "
        "or leaves nothing behind, and existing checkpoints are never changed."
    )
    st.caption(
        "Whoever started the server can import, with the link that it printed; others only if it "
        "was started with HEADLIGHT_IMPORT=on, and nobody if that is off or the server is public. "
        "Folders must lie in the configured roots "
        f"({plain(', '.join(root.name for root in checkpoint_roots()))}, "
        "set by HEADLIGHT_CHECKPOINTS). One import runs at a time."
    )
draw_import(use_checkpoint)
