"""The Floor plan: its URL parameters, the picture, and what its parts change and open."""

from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Any

import streamlit as st

from transformer.config import ModelConfig
from transformer.edits.language import PLACES, Edit, parse_edits
from transformer.trace.records import Trace, Whole
from transformer.trace.whole import record_whole
from ui.attention.choice import AttentionSettings
from ui.components import plan
from ui.components.mount import show
from ui.components.player import alternatives
from ui.core import url_state
from ui.core.url_state import STEP, Param
from ui.core.view import View
from ui.core.widgets import Choice
from ui.frame import editing
from ui.frame.page import page_at, streamlit_page
from ui.frame.steering import begin_with
from ui.head.views import HeadSettings, default_query
from ui.work.desk import get_trace
from ui.work.results import Computation


@dataclass(frozen=True)
class FloorChoice(Choice):
    """The URL parameters: source token, translation step, and the part in focus."""

    source: Param[int | None] = url_state.position("source")
    step: Param[int | None] = STEP
    #: such as `decoder.2.cross.3`, see `ui.components.plan.foci`
    focus: Param[str] = Param("focus", url_state.text(40), "")


def choice_now(view: View, trace: Trace) -> plan.PlanChoice:
    """Return the stored choice, with defaults for what is not set or not in this trace.

    The default layer is the decoder's last, whose neurons add directly to the logits.
    """
    focus = url_state.get(FloorChoice.focus)
    source, row = default_query(view, trace, "encoder_self"), default_query(view, trace, "cross")
    return plan.PlanChoice(
        url_state.index(FloorChoice.source, len(trace.src_tokens), source),
        url_state.index(STEP, len(trace.tgt_tokens), row),
        focus if focus in plan.foci(trace) else f"decoder.{len(trace.cross)}",
    )


def keep(chosen: plan.PlanChoice) -> None:
    """Store a choice."""
    FloorChoice(chosen.source + 1, chosen.row + 1, chosen.focus).put()
    st.session_state[_SEEN][2] = chosen.row  # a change may come with it


#: All values of a view's model for its sentence.
WHOLE: Computation[Whole] = Computation(
    "whole", (), lambda model, trace: record_whole(model.model, model.tokenizer.target, trace)
)


_OPEN = "headlight_floor_open"
#: Session key of what was drawn last: sentence, model, edits and steering; steps as tokens read and
#: written, and `alternatives`; the step followed, from 0; those written before the last edit;
#: and the view and ids of a translation that was not steered.
_SEEN = "headlight_floor_seen"


def choose_again(view: View, trace: Trace) -> None:
    """After an edit or steer, choose the nearest step that reads and writes the same."""
    ref = view.entry.ref
    now = (view.sentence, ref.edited(""), ref.edits, view.prefix, view.target)
    steps = [*zip(trace.tgt_tokens, trace.predicted_tokens, alternatives(trace, 10), strict=True)]
    last, old, row, before, own = st.session_state.get(_SEEN, (now, steps, 0, (), (None, ())))
    if free := not view.prefix and view.target is None:
        own = (view, trace.predicted_ids)
    if last[:2] != now[:2] or _SEEN not in st.session_state:  # a link's edits are compared, too
        whole = get_trace(view.original)
        unedited = zip(whole.predicted_tokens, alternatives(whole, 10), strict=True)
        before = [*unedited] if ref.edits else []
    elif last != now:
        was = old[row][:2]
        ranks = [(new[:2] != was, new[0] != was[0], abs(at - row)) for at, new in enumerate(steps)]
        back = free and (last[3:] != now[3:] or not ref.edits)  # the model's own words: no marks
        before, row = [] if back else [step[1:] for step in old], ranks.index(min(ranks))
        url_state.put_index(STEP, row)
    st.session_state[_SEEN] = [now, steps, row, before, own]


def draw_plan(
    view: View, trace: Trace, whole: Whole, config: ModelConfig, chosen: plan.PlanChoice
) -> None:
    """Mount the picture, which opens the page of a part and changes the model."""

    def opened() -> None:
        part = plan.parse_opened(st.session_state["plan"].get("open"), trace)
        if part is None:
            return
        view_of_translate = part.page in ("layers", "why")
        st.session_state[_OPEN] = "translate" if view_of_translate else part.page
        if view_of_translate:
            url_state.put(url_state.VIEW, part.page)
        if not part.kind:
            return
        url_state.put_head(part.kind, part.layer, part.head)
        if part.page == "attention":
            url_state.put(AttentionSettings.display, "grid")
        else:
            query = chosen.source if part.stack == "encoder" else chosen.row
            url_state.put_index(HeadSettings.query, query)

    def touched() -> None:
        change = plan.parse_touched(st.session_state["plan"].get("touch"), trace)
        if change is not None and view.kind == "checkpoint":
            _change(change, view, trace)

    if (page := st.session_state.pop(_OPEN, None)) is not None:
        st.switch_page(streamlit_page(page_at(page)))
    st.session_state[_SEEN][2] = chosen.row
    edits = parse_edits(view.entry.ref.edits)
    edges = chain(*(_edges(edit, trace) for edit in edits if edit.verb == "cut"))
    edited = plan.Edited(
        editing.heads_taken(view, trace), [*edges], st.session_state[_SEEN][3],
        view.kind == "checkpoint", (config.pad_id, config.bos_id),
    )  # fmt: skip
    picture = plan.plan_component(whole, trace, config, chosen, edited)
    show(picture, key="plan", on_choose=keep, on_open_change=opened, on_touch_change=touched)


def _change(change: plan.Touched, view: View, trace: Trace) -> None:
    """Make a change with the edits and steering of every page."""
    if change.what == "switch":
        heads = editing.head_of(trace, change.kind, change.layer, change.head)
        editing.switch(change.kind, heads)
    elif change.what == "cut":
        place = (PLACES[change.kind], change.layer, change.head)
        editing.toggle(Edit("cut", *place, query=change.query, key=change.key))
    else:
        ids = (*trace.predicted_ids[: change.query], change.key)
        whose, own = st.session_state[_SEEN][4]
        free = whose == replace(view, prefix=(), target=None) and own[: len(ids)] == ids
        begin_with(() if free else ids)  # the model's own words need no prefix


def _edges(edit: Edit, trace: Trace) -> list[tuple[Any, ...]]:
    """Return the edges that an edit cuts: kind, layer, head, query and key."""
    places = (edit.layer, edit.index, edit.query, edit.key)
    shape = trace.attention(edit.kind).shape
    ranges = [range(n) if at is None else [at] for at, n in zip(places, shape, strict=True)]
    return [(edit.kind, *place) for place in product(*ranges)]
