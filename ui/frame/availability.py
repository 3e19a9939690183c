"""Page availability per model."""

from __future__ import annotations

import streamlit as st

from figures.markdown import code, plain
from transformer.types import AttentionKind
from ui.core.view import View
from ui.frame.pages import PAGES, PageSpec
from ui.work.cache import get_tracer

_NAMES: dict[AttentionKind, str] = {
    "encoder_self": "an encoder's self-attention",
    "decoder_self": "a decoder's self-attention",
    "cross": "cross-attention",
}


def why_not(view: View, spec: PageSpec) -> str | None:
    """Return the reason why a page cannot show the view's model; None if it can.

    If the model cannot be loaded, the page says so and the run ends: see
    `ui.work.cache.get_tracer`.
    """
    if view.kind == "checkpoint" or not (spec.needs or spec.maps):
        return None
    tracer = get_tracer(view)
    missing = [kind for kind in spec.maps if kind not in tracer.kinds]
    if missing:
        return (
            f"This page needs {_listed(missing)}, and {tracer.name} has only "
            f"{_listed(tracer.kinds)}."
        )
    reasons = (tracer.lacks(ability) for ability in spec.needs)
    return next((reason for reason in reasons if reason is not None), None)


def draw_not_offered(view: View, spec: PageSpec, why: str) -> None:
    """Draw the page's title, why it does not work, and the pages that do."""
    st.header(spec.title)
    st.info(plain(why), icon=spec.icon)
    st.markdown(f"These pages work with {code(view.checkpoint)}:")
    with st.container(key="offered", gap="xsmall"):
        for each in PAGES:
            if why_not(view, each) is None:
                st.page_link(each.file, label=each.title, icon=each.icon)
    st.caption("Or choose another checkpoint on the left.")


def _listed(kinds: tuple[AttentionKind, ...] | list[AttentionKind]) -> str:
    return " and ".join(_NAMES[kind] for kind in kinds)
