"""A view's model, its trace, and results computed from them, for pages.

Results are shared by all sessions (see `ui.work.results`). Missing ones are computed in background
jobs with a progress bar and a Stop button. An error is shown in one line and ends the run.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from operator import attrgetter
from typing import Any, NoReturn, ParamSpec, TypeVar, cast

import streamlit as st
import torch
from plotly.graph_objects import Figure

from figures.charts import grow
from figures.labels import plain
from transformer.errors import CheckpointError, InputError
from transformer.trace.records import Trace
from transformer.trace.tracer import Tracer
from transformer.translator import Translator
from transformer.types import Report
from ui.core import url_state
from ui.core.layout import ReadyChart, ReadyFigure, sized, text_scale
from ui.core.view import Request, View, ask_for, is_blank
from ui.work import results
from ui.work.budget import budget_of_visit
from ui.work.lru import Lru
from ui.work.models import REFUSALS, load_for_visit, translator
from ui.work.progress import (
    DECODING,
    READING,
    Progress,
    attended,
    leave_stopped,
    resume,
    stopped,
    unreported,
)
from ui.work.results import Computation as Computation
from ui.work.roots import without_root

P = ParamSpec("P")
T = TypeVar("T")

PICTURES = Lru(32 * 2**20, attrgetter("nbytes"))


def drawn(make: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Return the chart or figure that `make` returns for these arguments, ready to draw.

    Args: make: a pure function of a module. Its arguments are compared by their content.
    """
    scale = text_scale()
    content = pickle.dumps((make.__module__, make.__qualname__, args, options, scale))

    def ready() -> ReadyChart | ReadyFigure:
        with budget_of_visit().metered(unreported):
            made = make(*args, **options)
            if isinstance(made, Figure):
                return ReadyFigure(grow(made, scale))
            return ReadyChart(sized(made))

    key = blake2b(content, digest_size=16).digest()
    return cast("T", PICTURES.once(key, ready))


_MISSING = object()


def get_translator(view: View) -> Translator:
    """Return the view's model. If it cannot be loaded, the page says why and the run ends."""
    get_tracer(view)
    with errors_on_page():
        return translator(view)


def get_tracer(view: View, where: str = "on the left") -> Tracer:
    """Return the view's model of any kind; otherwise like `get_translator`.

    Args: where: the place on screen where another one can be chosen.
    """
    end_where_stopped((view.entry.ref, view.device), "Load the model")
    with errors_on_page(where):
        return load_for_visit(view.entry, view.device)


def get_trace(view: View) -> Trace:
    """Return the view's trace, showing progress and a way to stop.

    If there is nothing to translate, the sentence is too long, the model cannot be loaded, or the
    user stopped, the page says so in one line and the run ends.
    """
    _end_where_blank(view)
    request = view.request
    end_where_stopped(request, "Translate this sentence")
    trace: Trace = results.CACHE.get(request, _MISSING)
    if trace is _MISSING:
        get_tracer(view)
        with errors_on_page():
            progress = Progress(request, _doing(request))
            trace = attended(partial(results.trace, request), progress)
    return trace


def computed(view: View, wanted: Computation[T]) -> T:
    """Return a result for this view, from the cache or made now with the trace.

    Its arrays are read-only. If there is no trace, `make` raises `InputError`, `CheckpointError` or
    runs out of memory, or the user stopped, the page says so in one line and the run ends.
    """
    result: T = prepare(view, [wanted])[0]
    return result


def prepare(view: View, wanted: Iterable[Computation[Any] | Request]) -> list[Any]:
    """Return several results, computing missing ones in one job. See `computed`.

    Args:
        wanted: computations on the view's trace, and requests for other traces. One that fails is
            None here; the page shows why when it asks for that trace.
    """
    wanted = list(wanted)
    request = view.request
    work = tuple(item if isinstance(item, Request) else item.key(request) for item in wanted)
    end_where_stopped(work, "Continue")
    ready = [results.CACHE.get(key, _MISSING) for key in work]
    if not any(result is _MISSING for result in ready):
        return ready
    _end_where_blank(view)
    get_tracer(view)

    def make(report: Report) -> list[Any]:
        return [_result(request, item, report) for item in wanted]

    with errors_on_page():
        return attended(make, Progress(work, _doing(request)))


def _result(request: Request, wanted: Computation[Any] | Request, report: Report) -> Any:
    if isinstance(wanted, Computation):
        return results.result_of(request, wanted, report)
    try:
        return results.trace(wanted, report)
    except REFUSALS:
        return None


def made_in_turn(
    work: Hashable, make: Callable[[Report], T], doing: str, again: str = "Continue"
) -> T:
    """Return the result of `make` for the key `work`, cached or made now among other computations.

    Args: doing: text of the progress bar.  again: see `end_where_stopped`.
    """
    end_where_stopped(work, again)
    found: T = results.CACHE.get(work, _MISSING)
    if found is not _MISSING:
        return found

    def in_turn(report: Report) -> T:
        with results.in_turn(report) as step:
            return make(step)

    with errors_on_page():
        return attended(
            lambda report: results.once(work, partial(in_turn, report), report),
            Progress(work, doing),
        )


def end_where_stopped(work: Hashable, again: str) -> None:
    """End the run if the user stopped this work, offering to resume it under the label `again`."""
    if stopped(work):
        st.info("Stopped.", icon=":material/stop_circle:")
        st.button(again, on_click=resume, key="resume_work")
        leave_stopped()
        _end()


def _end_where_blank(view: View) -> None:
    if is_blank(view.sentence) and view.kind != "archive":
        st.info(
            f"Nothing to translate yet. Type {view.examples.hint} on the left, or take one of "
            "these.",
            icon=":material/edit:",
        )
        with st.container(horizontal=True, key="examples", gap="small"):
            for item in view.examples.items:
                st.button(
                    plain(item.sentence), key=f"example {item.sentence}", on_click=ask_for,
                    args=(item.sentence,),
                )  # fmt: skip
        _end()


def _doing(request: Request) -> str:
    return DECODING if request.target is None else READING


def _end() -> NoReturn:
    """Write the URL, since the frame cannot any more, and end the run."""
    url_state.write_url()
    st.stop()


@contextmanager
def errors_on_page(where: str = "on the left") -> Iterator[None]:
    """Turn expected errors into one line on the page, and end the run.

    Args: where: see `get_tracer`.
    """
    try:
        yield
        return
    except InputError as error:
        text = str(error)
        st.warning(plain(f"{text[:1].upper()}{text[1:]}."), icon=":material/short_text:")
    except CheckpointError as error:
        st.error(
            plain(f"{without_root(str(error))}. Choose another model {where}."),
            icon=":material/error:",
        )
    except (MemoryError, torch.OutOfMemoryError):
        st.error(
            "There is not enough memory for this sentence on this device. "
            "Try a shorter one, a smaller beam, or the CPU.",
            icon=":material/memory:",
        )
    _end()
