"""Headlight: see an encoder-decoder Transformer think. Start with `streamlit run app.py`."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from ui import state
from ui.controls import checkpoints_root, draw_sidebar
from ui.frame import PAGES, frame

HERE = Path(__file__).resolve().parent

st.set_page_config(page_title="Headlight", page_icon=str(HERE / "ui/logo/mark.svg"), layout="wide")
st.logo(str(HERE / "ui/logo/headlight.svg"), size="large")
st.html(HERE / "ui/style.css")

pages = {
    spec.url_path: st.Page(
        spec.file,
        title=spec.title,
        icon=spec.icon,
        url_path=spec.url_path,
        default=spec is PAGES[0],
    )
    for spec in PAGES
    if (HERE / spec.file).exists()
}
page = st.navigation(list(pages.values()), position="top")
spec = next(spec for spec in PAGES if pages.get(spec.url_path) is page)

state.read_url()
state.enter("" if spec is PAGES[0] else spec.url_path)
view = draw_sidebar()
if spec.needs_model and not view.checkpoint:
    st.header("No checkpoint to look into")
    st.text(
        f"Nothing in {checkpoints_root()} can be loaded.\n"
        "Train a model (python -m transformer train --help), "
        "or set HEADLIGHT_CHECKPOINTS to a folder of checkpoints."
    )
else:
    with frame():
        page.run()
state.write_url()
