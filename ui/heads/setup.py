"""The study on screen: the chosen one, a visitor's own sentences, or the way to make one."""

from __future__ import annotations

from functools import partial

import streamlit as st

from figures.labels import count, plain
from transformer.study.corpus import DEFAULT
from ui.core import url_state
from ui.core.view import View
from ui.core.widgets import fill, filled
from ui.heads import jobs
from ui.heads.choice import MOST_OWN, OWN, HeadsChoice, own_lines
from ui.work.cache import get_tracer, made_in_turn
from ui.work.studies import STUDY, Opened, studies, study_of

#: Seconds between two looks at a running study.
_EVERY = 1.0


def chosen_study(view: View) -> Opened | None:
    """Return the study to show; one of the visitor's own sentences is made here."""
    lines = own_lines()
    if url_state.get(STUDY) == OWN and lines:
        get_tracer(view)
        work = view.entry.ref, view.device, "study", lines
        make = partial(jobs.study_own, view.entry.ref, view.device, lines)
        return made_in_turn(work, make, "Studying: step {step} of {most}", "Study these sentences")
    return study_of(view.entry.ref, url_state.get(STUDY))


def draw_source(view: View, opened: Opened) -> None:
    """Say what was read, and draw the choice of a study if there are several."""
    study, names = opened.study, [path.name for path in studies(view.entry.ref)]
    if own_lines():
        names.append(OWN)
    corpus = f"the {study.source.partition(',')[0]}" if study.source else study.corpus
    said = (
        f"Measured on {plain(corpus)}: {count(study.n_sentences, 'sentence')}, {study.n_words:,} "
        f"words, {count(study.n_documents, 'document')}. A head has a role if it scores above "
        "every control: the best distance, one word, the head's usual word, and "
        f"{plain(study.control)}."
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        if len(names) > 1:
            st.selectbox(
                "Study", names, label_visibility="collapsed", width=240,
                format_func=lambda name: "your sentences" if name == OWN else name,
                **filled("study_box", opened.name, partial(url_state.put, STUDY)),
            )  # fmt: skip
        st.caption(said)


def draw_setup(view: View) -> None:
    """Say that there is no study, and offer to make one: a button, or the command."""
    st.info(
        f"The heads of **{plain(view.title)}** have not been studied yet.",
        icon=":material/query_stats:",
    )
    running, why = jobs.last(), jobs.refusal()
    mine = running is not None and running.ref == view.entry.ref
    if running is not None and mine and running.job.running:
        _draw_running()
        return
    if why is None and DEFAULT.exists():
        if running is not None and mine and running.job.error:
            st.warning(plain(running.job.error), icon=":material/error:")
        st.button(
            "Study its heads" if not mine else "Go on", key="begin_study", type="primary",
            icon=":material/play_arrow:", on_click=_begin, args=(view,),
            help="It reads the GUM corpus and takes minutes. You can leave this page.",
        )  # fmt: skip
        return
    if why is not None:
        st.caption(f":material/lock: {plain(why)}")
    st.caption("These commands do it, on any machine:")
    st.code(
        "python -m transformer data gum --out data\n"
        f"python -m transformer study checkpoints/{view.checkpoint}",
        language="bash",
    )


def _begin(view: View) -> None:
    if (why := jobs.begin(view.entry.ref)) is not None:
        st.toast(plain(why), icon=":material/hourglass_top:")


@st.fragment(run_every=_EVERY)
def _draw_running() -> None:
    """Draw the progress of the study and its Stop button; the page is drawn anew when it ends."""
    running = jobs.last()
    if running is None or not running.job.running:
        st.rerun()
    step, most = running.job.progress
    st.progress(min(1.0, step / most) if most > 0 else 0.0, f"Studying: step {step:,} of {most:,}"
                if most > 0 else "Starting")  # fmt: skip
    st.button("Stop", icon=":material/stop:", key="stop_study", on_click=running.job.stop,
              help="What is done is kept; Go on continues there.")  # fmt: skip


def draw_own(view: View) -> None:
    """Draw the box for a visitor's own sentences."""
    with st.expander("Your own sentences", icon=":material/edit:", expanded=False):
        st.caption(
            f"One a line, up to {MOST_OWN}. Without annotation there are the roles of place and of "
            "marks, and two measures of importance."
        )
        fill("own_box", url_state.get(HeadsChoice.own))
        st.text_area("Sentences", key="own_box", max_chars=20_000, on_change=_take_own,
                     label_visibility="collapsed", placeholder="A dog runs.")  # fmt: skip
        st.button("Study these", key="study_own", on_click=_take_own, disabled=not own_lines())


def _take_own() -> None:
    url_state.put(HeadsChoice.own, st.session_state["own_box"])
    if own_lines():
        url_state.put(STUDY, OWN)
    elif url_state.get(STUDY) == OWN:
        url_state.forget(STUDY)
