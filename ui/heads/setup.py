"""The study on screen: stored, of a visitor's own sentences, or a form to start one.

One study runs on a server at a time; it continues after its page is left, and resumes after a stop
or a killed server. Studies require the rights to train and import, since results are written in the
checkpoint folder.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import streamlit as st

from figures.labels import plain
from transformer.checkpoint.reference import ModelRef
from transformer.models.catalogue import open_tracer
from transformer.models.one_stack.tracer import StackModel
from transformer.study.corpus import DEFAULT
from transformer.study.importance import importance, whole_study
from transformer.study.records import Study
from transformer.study.run import study
from transformer.translator import Translator
from transformer.types import Report
from transformer.worker.job import Job, Register
from transformer.worker.process import start_alone
from ui.core import public, url_state
from ui.core.view import View
from ui.core.widgets import bound, fill
from ui.frame import import_access
from ui.heads.choice import MOST_OWN, OWN, HeadsChoice, own_lines
from ui.work.desk import get_tracer, run
from ui.work.studies import STUDY, Opened, studies, study_of

_BEGUN = "headlight_study"

#: The study in progress, or the last one.
JOBS: Register[ModelRef, Job[Path]] = Register()


def refusal() -> str | None:
    """Return the reason why this session may not start a study, or None."""
    return public.job_refusal("Studying a model in the app") or import_access.refusal("study")


def begin(ref: ModelRef) -> str | None:
    """Start a study over the default corpus; return a reason if it cannot start, or None."""
    try:
        if JOBS.begin(ref, lambda: start_alone(whole_study, ref, DEFAULT)) is not None:
            return None
    except OSError as error:
        return f"The study cannot start: {error.strerror or error}."
    other = next(iter(JOBS.running()), ref)
    return f"This server is studying {other.name}. You can start yours when it ends."


def study_own(ref: ModelRef, device: str, lines: Sequence[str], report: Report) -> Opened:
    """Study unannotated sentences, with the fast importance measures.

    Args: report: called with (steps done, total steps); may raise to stop.
    """
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / f"{OWN}.txt"
        text.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        result = Study.load(study(ref, text, Path(folder) / OWN, device=device, progress=report))
    tracer = open_tracer(ref, device)
    if isinstance(tracer, Translator | StackModel):
        measures = [*importance(
            tracer, lines, names=("gradient", "removal", "sharpness"), report=report
        )]  # fmt: skip
        about = {"sentences": len(lines), "text": "of your own sentences",
                 "reliability": {name: value for name, _, value in measures}}  # fmt: skip
        result = replace(
            result, importance={name: grids for name, grids, _ in measures},
            notes={"importance": about},
        )  # fmt: skip
    return Opened(result, OWN)


def chosen_study(view: View) -> Opened | None:
    """Return the chosen study, running it first for a visitor's own sentences."""
    lines = own_lines()
    if url_state.get(STUDY) == OWN and lines:
        get_tracer(view)
        work = view.entry.ref, view.device, "study", lines
        make = partial(study_own, view.entry.ref, view.device, lines)
        return run(work, make, "Studying: step {step} of {most}", "Study these sentences")
    return study_of(view.entry.ref, url_state.get(STUDY))


def draw_choice(view: View, opened: Opened) -> None:
    """Draw the study selector if there are several."""
    names = [path.name for path in studies(view.entry.ref)] + [OWN] * bool(own_lines())
    if len(names) > 1:
        st.selectbox(
            "Study", names, width=170,
            format_func=lambda name: "your sentences" if name == OWN else name,
            **bound(STUDY, key="study_box", value=opened.name),
        )  # fmt: skip


def draw_setup(view: View) -> None:
    """Draw a notice that no study exists, with a button or command to start one."""
    st.info(
        f"The heads of **{plain(view.title)}** have not been studied yet. A study finds their "
        "roles: patterns that a head follows in sentence after sentence.",
        icon=":material/query_stats:",
    )
    job, why = JOBS.get(view.entry.ref), refusal()
    if job is not None and job.running:
        _draw_running(view)
    elif why is None and DEFAULT.exists():
        if job is not None and job.error:
            st.warning(plain(job.error), icon=":material/error:")
        st.button(
            "Study its heads" if job is None else "Resume", key="begin_study", type="primary",
            icon=":material/play_arrow:", on_click=_begin, args=(view,),
            help="Reads the GUM corpus; takes a few minutes. You can leave this page.",
        )  # fmt: skip
    else:
        if why is not None:
            st.caption(f":material/lock: {plain(why)}")
        st.caption("These commands run a study on any machine:")
        st.code(
            "python -m transformer data gum --out data\n"
            f"python -m transformer study checkpoints/{view.checkpoint}",
            language="bash",
        )


def _begin(view: View) -> None:
    if (why := begin(view.entry.ref)) is not None:
        st.toast(plain(why), icon=":material/hourglass_top:")
    else:
        st.session_state[_BEGUN] = JOBS.get(view.entry.ref)


@st.fragment(run_every=1.0)
def _draw_running(view: View) -> None:
    """Draw the progress of the study and its Stop button; redraw the page at its end."""
    job = JOBS.get(view.entry.ref)
    if job is None or not job.running:
        st.rerun()
    step, most = job.progress
    st.progress(
        min(1.0, step / most) if most > 0 else 0.0,
        f"Studying: step {step:,} of {most:,}" if most > 0 else "Starting",
    )
    is_own = st.session_state.get(_BEGUN) is job
    if is_own:  # other visitors see only its progress
        st.button("Stop", icon=":material/stop:", key="stop_study", on_click=job.stop,
                  help="Progress is saved; Resume continues from there.")  # fmt: skip


def draw_own() -> None:
    """Draw the form for a visitor's own sentences."""
    with st.expander("Study your own sentences", icon=":material/edit:"):
        st.caption(
            f"One per line, up to {MOST_OWN}. Without syntax labels, a study measures only "
            "positional roles, such as the previous token, and two kinds of importance."
        )
        fill("own_box", url_state.get(HeadsChoice.own))
        st.text_area("Sentences", key="own_box", max_chars=20_000, on_change=_take_own,
                     label_visibility="collapsed", placeholder="A dog runs.")  # fmt: skip
        st.button("Study these", key="study_own", on_click=_take_own, disabled=not own_lines())


def _take_own() -> None:
    url_state.put(HeadsChoice.own, st.session_state["own_box"])
    if own_lines() or url_state.get(STUDY) == OWN:
        url_state.put(STUDY, OWN if own_lines() else "")
