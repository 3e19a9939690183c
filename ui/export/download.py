"""The "Download" popover: a figure as picture, numbers, page or program, and the picture's size.

Nothing is computed before a button is pressed. The figure is then made in its own thread, outside
any session, by a function that may use its arguments and the process's caches, but neither
`st.session_state` nor `st.query_params`. Files are made one at a time, pictures in a separate
queue. A session has one file waiting, on its compute budget, and only while its page is open.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from typing import Any, Self, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from figures.exhibit import MOST_ROWS, Exhibit, to_csv, to_npz
from figures.labels import plain
from figures.paper import DEFAULT, PRESETS, Preset, Say, to_pdf, to_png, to_python, to_svg
from transformer.trace.records import Trace
from transformer.worker.job import UNKNOWN, StoppedError, report
from ui.core.view import View
from ui.core.widgets import filled
from ui.export.html import to_html
from ui.export.programs import Source, called
from ui.platform.session import Session, current_session
from ui.work.results import LONG, REFUSALS, Computation, load, result_of, trace
from ui.work.roots import without_root
from ui.work.visit import Budget, budget_of_visit

T = TypeVar("T")

#: Seconds by which a table yields to computations, for which a page waits.
_BEHIND = 2.0

#: Session state: the picture size, and True for a picture with title and caption, for all figures.
_SIZE, _TITLED = "figure_size", "figure_titled"

__all__ = ["download_below", "download_button", "figure_for", "source_of", "trace_for"]


@dataclass(frozen=True)
class Format:
    """A file format."""

    label: str  # on the button
    help: str  # the button's tooltip
    ending: str  # file extension, without a dot
    mime: str  # media type
    icon: str  # on the button
    write: Callable[..., bytes]  # renders an exhibit
    sized: bool = False  # True if `write` takes a preset
    size: str = ""  # suffix of the file name

    def at(self, preset: Preset) -> Self:
        """Return the format at a picture size."""
        if not self.sized:
            return self
        return replace(self, write=partial(self.write, preset=preset), size=f"-{preset.name}")


#: The formats, in the popover's order.
FORMATS: tuple[Format, ...] = (
    Format("PNG image", "An image at 300 dots per inch.", "png", "image/png",
           ":material/image:", to_png, sized=True),
    Format("SVG drawing", "A drawing for papers and slides; its text stays text.", "svg",
           "image/svg+xml", ":material/draw:", to_svg, sized=True),
    Format("PDF", "For LaTeX: one page, the size of the figure.", "pdf", "application/pdf",
           ":material/picture_as_pdf:", to_pdf, sized=True),
    Format("CSV table", "The numbers for a spreadsheet, one per line.", "csv", "text/csv",
           ":material/table:", to_csv),
    Format("NPZ arrays", "The exact arrays, for numpy.load.", "npz", "application/octet-stream",
           ":material/dataset:", to_npz),
    Format("HTML page", "A page that opens offline, as interactive as the view.", "html",
           "text/html", ":material/web:", to_html),
    Format("Python program", "A program that computes the same numbers.", "py", "text/x-python",
           ":material/code:", to_python),
)  # fmt: skip


def download_button(
    make: Callable[[], Exhibit], *, key: str, name: str = "figure_for", n_numbers: int = 0,
    label: str = "Download",
) -> None:  # fmt: skip
    """Draw the popover.

    Args:
        make: makes the figure when a button is pressed, in another thread and without a session. It
            gets the trace by `trace_for(view)`: a trace in it would stay in memory as long as the
            page is open.
        key: unique on the page.
        name: stem of the file names, equal to the exhibit's name (see `file_stem`).
        n_numbers: how many numbers the figure shows, if known. With too many, the CSV is disabled.
        label: on the button.
    """
    with st.popover(label, type="tertiary", icon=":material/download:", key=f"{key}_popover"):
        _offer(make, key, name, n_numbers)


@st.fragment
def _offer(make: Callable[[], Exhibit], key: str, name: str, n_numbers: int) -> None:
    widget = f"{key}_figure_size"
    st.segmented_control(
        "Figure size", list(PRESETS), required=True,
        format_func=lambda size: PRESETS[size].label,
        **filled(widget, st.session_state.get(_SIZE, DEFAULT.name),
                 partial(st.session_state.__setitem__, _SIZE)),
    )  # fmt: skip
    titled = f"{key}_figure_titled"
    st.toggle("Title and caption in pictures", **filled(
        titled, st.session_state.get(_TITLED, True),
        partial(st.session_state.__setitem__, _TITLED),
    ))  # fmt: skip
    preset = replace(PRESETS[st.session_state[widget]], titled=st.session_state[titled])
    session, place = current_session(), st.empty()

    def say(line: str) -> None:
        if session is not None:
            session.caption(place, plain(line))

    for form in FORMATS:
        form = form.at(preset)
        if form.ending in ("png", "pdf"):
            form = replace(form, write=partial(form.write, say=say))
        _button(make, form, key, name, n_numbers, say)


def _button(
    make: Callable[[], Exhibit], form: Format, key: str, name: str, n_numbers: int, say: Say
) -> None:
    file_name, session = f"{name}{form.size}.{form.ending}", current_session()
    budget = budget_of_visit()

    def data() -> bytes:
        content = _made(lambda: form.write(make()), form.sized, session, budget, say)
        if session is not None:
            session.keep(content, form.mime, f"{key}_{form.ending}", file_name)
        return content

    large = form.ending == "csv" and n_numbers > MOST_ROWS
    st.download_button(
        form.label, data, file_name=file_name, mime=form.mime, key=f"{key}_{form.ending}",
        on_click="ignore", icon=form.icon, disabled=large, type="tertiary", width="stretch",
        help="Too many numbers for a table; use the NPZ." if large else form.help,
    )  # fmt: skip


def _made(
    make: Callable[[], T], drawn: bool, session: Session | None, budget: Budget, say: Say
) -> T:
    """Make a file in its queue and on a session's budget; show an error on its page.

    Args: drawn: True for a picture.

    Raises: `StoppedError` if the visitor has left or asked for another file.
    """

    def in_lane() -> T:
        report(0, 0)
        with LONG.turn(behind=0.0 if drawn else _BEHIND):
            report(*UNKNOWN)
            return make()

    def stay(*_: int) -> None:
        if session and not session.active:
            raise StoppedError

    try:
        return budget.start_file(in_lane).result(stay)
    except REFUSALS as error:
        text = without_root(str(error)) or "There is not enough memory for this file"
        say(f"{text[:1].upper()}{text[1:]}.")
        raise


def trace_for(view: View) -> Trace:
    """Return the view's trace, for figures made without a session."""
    return trace(view.request)


def download_below(
    place: DeltaGenerator, view: View | None, name: str, function: Callable[..., Exhibit],
    n_numbers: int = 0, **choice: Any,
) -> None:  # fmt: skip
    """Draw the popover of `figure_for(view, function, **choice)` at the right of a container.

    Args: name, n_numbers: as for `download_button`.
    """
    with place.container(horizontal=True, horizontal_alignment="right"):
        download_button(
            lambda: figure_for(view, function, **choice),
            key=f"take_{function.__name__}", name=name, n_numbers=n_numbers,
        )  # fmt: skip


def figure_for(view: View | None, function: Callable[..., Exhibit], **choice: Any) -> Exhibit:
    """Return the figure of a `headlight` call, with its program; needs no session.

    Args:
        view: None for a function of `choice` alone.
        function: of a `trace`, a `model`, or both, and `choice`.
        choice: hashable arguments whose `repr` is Python code.
    """
    if view is None:
        return called(function, **choice)
    parameters = signature(function).parameters
    if "model" not in parameters:
        figure = function(trace_for(view), **choice)
    elif "trace" not in parameters:
        figure = function(load(view.request), **choice)
    else:
        figure = result_of(view.request, Computation(
            f"figure {function.__name__}", tuple(sorted(choice.items())),
            lambda model, trace: function(model, trace, **choice),
        ))  # fmt: skip
    return source_of(view).figure(figure, function, **choice)


def source_of(view: View) -> Source:
    """Return the source of the view's trace, for a figure's program."""
    request = view.request
    arguments = tuple(request.arguments().items())
    return Source(
        view.checkpoint, view.kind, view.device, request.sentence, arguments,
        edits=view.entry.ref.edits, cells=view.cells,
    )  # fmt: skip
