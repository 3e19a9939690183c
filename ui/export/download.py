"""The "Download" popover: a figure as picture, numbers, page or program, and the picture's size.

Nothing is computed until a button is pressed. The figure is then made in a thread of its own,
outside any session, by a function that may use its arguments and the caches of the process, but
neither `st.session_state` nor `st.query_params`. Files are made in turn, pictures in a turn of
their own. One of a session waits at a time, on its budget, and only while somebody is there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from typing import Any, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from figures.exhibit import Exhibit
from figures.labels import plain
from figures.paper import DEFAULT, PRESETS, Preset, Say, to_pdf, to_png, to_python, to_svg
from figures.tables import MOST_ROWS, to_csv, to_npz
from transformer.trace.records import Trace
from transformer.worker.job import UNKNOWN, StoppedError, in_turn, report
from ui.core.view import View
from ui.core.widgets import filled
from ui.export.html import to_html
from ui.export.programs import Source, called
from ui.platform.session import Session, current_session
from ui.work.desk import Budget, budget_of_visit
from ui.work.models import REFUSALS, load
from ui.work.results import LONG, PICTURES, Computation, result_of, trace
from ui.work.roots import without_root

T = TypeVar("T")

#: Seconds by which a table comes late among computations, for which a page waits.
_BEHIND = 2.0

__all__ = ["download_below", "download_button", "figure_for", "source_of", "trace_for"]


@dataclass(frozen=True)
class Format:
    """A file format of downloads."""

    #: label, icon: on the button
    label: str
    help: str  # its tooltip
    ending: str  # of the file name
    mime: str  # media type
    icon: str
    write: Callable[..., bytes]  # renders the file's content
    sized: bool = False  # whether `write` takes a preset
    size: str = ""  # what the file's name says of it

    def at(self, preset: Preset) -> Format:
        """Return the format for a size."""
        if not self.sized:
            return self
        return replace(self, write=partial(self.write, preset=preset), size=f"-{preset.name}")


#: The chosen size, for all figures of a session.
_SIZE = "figure_size"

#: The formats, in the order of the popover.
FORMATS: tuple[Format, ...] = (
    Format(
        "PNG image", "An image, 300 dots per inch.", "png", "image/png",
        ":material/image:", to_png, sized=True,
    ),
    Format(
        "SVG drawing", "A drawing for papers and slides; text stays text.", "svg", "image/svg+xml",
        ":material/draw:", to_svg, sized=True,
    ),
    Format(
        "PDF", "For LaTeX; one page as large as the figure.", "pdf", "application/pdf",
        ":material/picture_as_pdf:", to_pdf, sized=True,
    ),
    Format(
        "CSV table", "The numbers for spreadsheets, one a line.", "csv", "text/csv",
        ":material/table:", to_csv,
    ),
    Format(
        "NPZ arrays", "Exact arrays for numpy.load.", "npz", "application/octet-stream",
        ":material/dataset:", to_npz,
    ),
    Format(
        "HTML page", "A page that opens offline, interactive where the view is.", "html",
        "text/html", ":material/web:", to_html,
    ),
    Format(
        "Python program", "A program that computes the same numbers.", "py", "text/x-python",
        ":material/code:", to_python,
    ),
)  # fmt: skip


def download_button(
    make: Callable[[], Exhibit], *, key: str, name: str = "figure_for", n_numbers: int = 0
) -> None:
    """Draw the popover.

    Args:
        make: makes the figure when a button is pressed, in another thread and without a session,
            from a view and choices; it gets the trace by `trace_for(view)`, since a trace in it
            would stay in memory as long as the page is open.
        key: unique on the page.
        name: stem of the file names; the same as the exhibit's name (see `file_stem`).
        n_numbers: how many numbers the figure shows, if known; no CSV is offered of too many.
    """
    with st.popover("Download", type="tertiary", icon=":material/download:", key=f"{key}_popover"):
        _offer(make, key, name, n_numbers)


@st.fragment
def _offer(make: Callable[[], Exhibit], key: str, name: str, n_numbers: int) -> None:
    widget = f"{key}_figure_size"

    def store(size: str) -> None:
        st.session_state[_SIZE] = size

    st.segmented_control(
        "Figure size", list(PRESETS), required=True,
        format_func=lambda size: PRESETS[size].label,
        **filled(widget, st.session_state.get(_SIZE, DEFAULT.name), store),
    )  # fmt: skip
    preset = PRESETS[st.session_state[widget]]
    session, place = current_session(), st.empty()

    def say(line: str) -> None:
        if session is not None:
            session.caption(place, plain(line))

    for each in (form.at(preset) for form in FORMATS):
        if each.ending in ("png", "pdf"):
            each = replace(each, write=partial(each.write, say=say))
        _button(make, each, key, name, n_numbers, say)


def _button(
    make: Callable[[], Exhibit], each: Format, key: str, name: str, n_numbers: int, say: Say
) -> None:
    file_name, session = f"{name}{each.size}.{each.ending}", current_session()
    budget = budget_of_visit()

    def data() -> bytes:
        content = _made(lambda: each.write(make()), each.sized, session, budget, say)
        if session is not None:
            session.keep(content, each.mime, f"{key}_{each.ending}", file_name)
        return content

    large = each.ending == "csv" and n_numbers > MOST_ROWS
    st.download_button(
        each.label,
        data,
        file_name=file_name,
        mime=each.mime,
        key=f"{key}_{each.ending}",
        on_click="ignore",
        icon=each.icon,
        help="Too many numbers for a table; use the NPZ." if large else each.help,
        disabled=large,
        type="tertiary",
        width="stretch",
    )


def _made(
    make: Callable[[], T], drawn: bool, session: Session | None, budget: Budget, say: Say
) -> T:
    """Make a file in its turn and on a session's budget; errors are shown on its page.

    Args: drawn: whether it is a picture.

    Raises: `StoppedError` once the visitor has left or asked for another file.
    """

    def in_lane() -> T:
        report(0, 0)
        with in_turn(PICTURES) if drawn else in_turn(LONG, behind=_BEHIND):
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
    place: DeltaGenerator,
    view: View | None,
    name: str,
    function: Callable[..., Exhibit],
    n_numbers: int = 0,
    **choice: Any,
) -> None:
    """Draw the popover at the end of a picture's container.

    Args: name, n_numbers: as for `download_button`.  view, function, choice: as for `figure_for`.
    """
    with place.container(horizontal=True, horizontal_alignment="right"):
        download_button(
            lambda: figure_for(view, function, **choice),
            key=f"take_{function.__name__}", name=name, n_numbers=n_numbers,
        )  # fmt: skip


def figure_for(view: View | None, function: Callable[..., Exhibit], **choice: Any) -> Exhibit:
    """Return the figure of a call of `headlight`, with its program; needs no session.

    Args:
        view: None for a function of the choice alone.
        function: of a `trace`, a `model`, or both, and the choice.
        choice: hashable arguments that Python writes as they are.
    """
    if view is None:
        return called(function, **choice)
    known = signature(function).parameters
    if "model" not in known:
        return source_of(view).of(function, trace_for(view), **choice)
    if "trace" not in known:
        made = function(load(view.request), **choice)
    else:
        wanted = Computation(
            f"figure {function.__name__}", tuple(sorted(choice.items())),
            lambda model, trace: function(model, trace, **choice),
        )  # fmt: skip
        made = result_of(view.request, wanted)
    return source_of(view).figure(made, function, **choice)


def source_of(view: View) -> Source:
    """Return the source of the view's trace, for a figure's program."""
    request = view.request
    arguments = tuple(request.arguments().items())
    return Source(
        view.checkpoint, view.kind, view.device, request.sentence, arguments, alpha=view.alpha,
        edits=view.entry.ref.edits,
    )  # fmt: skip
