"""Compare: two checkpoints on one sentence, or two sentences through one checkpoint."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from transformer.trace.records import Trace
from ui.attention.settings import settle_tokens
from ui.compare.choice import PARAMS, TOPIC, TOPICS, Setup, begin, opened, settle
from ui.compare.languages import warning
from ui.compare.rooms import beam, inside, positions, tokens
from ui.compare.rooms.attention import draw_attention, draw_figures, draw_matched
from ui.compare.rooms.beam import draw_beams
from ui.compare.rooms.inside import draw_inside, settle_inside
from ui.compare.rooms.positions import draw_positions
from ui.compare.rooms.steps import draw_steps
from ui.compare.rooms.tokens import draw_tokens
from ui.compare.setup import draw_choice, read_right
from ui.compare.sides import Bar
from ui.compare.texts import draw_texts
from ui.core import url_state
from ui.core.view import current_view
from ui.core.widgets import bound
from ui.frame.pages import require_frame
from ui.work.cache import get_trace
from ui.work.progress import fragment

require_frame()

#: The views: those of single models under the names of their pages, then what only two have.
VIEWS: dict[str, tuple[str, Callable[[Setup, Trace, Trace, Bar], object]]] = {
    "steps": ("Translate", draw_steps),
    "beam": ("Beam search", draw_beams),
    "maps": ("Attention", draw_attention),
    "head": ("Inside a head", draw_inside),
    "tokens": ("Tokens", draw_tokens),
    "positions": ("Positions", draw_positions),
    "heads": ("Heads matched", draw_matched),
    "numbers": ("Numbers", draw_figures),
}

#: Views in which B follows A's translation whether or not that is switched on.
_FOLLOWING = ("heads", "numbers")


@fragment
def story(setup: Setup) -> None:
    """Everything below the translations. Runs again by itself when something here is chosen."""
    left, right = get_trace(setup.left), get_trace(setup.right)
    row = st.container(key="compare_views", horizontal=True, vertical_alignment="center")
    row.segmented_control(
        "View", TOPICS, format_func=lambda topic: VIEWS[topic][0], required=True, wrap=True,
        label_visibility="collapsed", **bound(TOPIC),
    )  # fmt: skip
    aside = row.container(horizontal=True, horizontal_alignment="right")
    topic = url_state.get(TOPIC)
    anew = opened(topic)
    said = warning(setup) if setup.follow or topic in _FOLLOWING else ""
    if said:
        st.warning(said, icon=":material/translate:")
    VIEWS[topic][1](setup, left, right, Bar(st.container(), aside, anew))
    url_state.write_url()


shown = (
    *PARAMS, *beam.PARAMS, *inside.PARAMS, *tokens.PARAMS,
    *positions.PARAMS,
)  # fmt: skip
url_state.show(*shown)
begin(*shown)
now = current_view()
first = get_trace(now)
settle_tokens(first)
chosen = settle(now)
draw_choice(chosen)
chosen, second = read_right(chosen, first)
settle_inside(chosen)
draw_texts(chosen, first, second)
story(chosen)
