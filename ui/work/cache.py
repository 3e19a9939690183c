"""A view's model, its trace, and results computed from them, for pages.

Results are shared by all sessions (see `ui.work.results`). Each is made in one background job with
a progress bar and a button to stop it. If it cannot be made, the page says why and the run ends.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, NoReturn, TypeVar

import streamlit as st
import torch

from figures.markdown import plain
from transformer.errors import CheckpointError, InputError
from transformer.trace.records import Trace
from transformer.trace.tracer import Tracer
from transformer.translator import Translator
from ui.core import url_state
from ui.core.request import Request
from ui.core.view import View, ask_for, is_blank
from ui.work import results
from ui.work.models import in_memory, tracer, translator
from ui.work.progress import DECODING, READING, Job, Progress, attended, resume, stopped
from ui.work.results import Computation, trace
from ui.work.roots import without_root

__all__ = [
    "Computation", "Plan", "computed", "end_where_stopped", "errors_on_page", "get_trace",
    "get_tracer", "get_translator", "prepare",
]  # fmt: skip

T = TypeVar("T")

#: Yields what a page is about to ask for, and is sent the results: computations on the trace, and
#: requests for other traces (None is sent for one that fails; the page says why when it asks).
Plan = Generator[Computation[Any] | Request, Any, None]

_MISSING = object()

#: Errors of loading a model or reading a sentence; the page shows one line.
_REFUSALS = (InputError, CheckpointError, MemoryError, torch.OutOfMemoryError)


def get_translator(view: View) -> Translator:
    """Return the view's model. If it cannot be loaded, the page says why and the run ends."""
    with _loading(view):
        return translator(view)


def get_tracer(view: View) -> Tracer:
    """Return the view's model of any kind; otherwise like `get_translator`."""
    with _loading(view):
        return tracer(view)


@contextmanager
def _loading(view: View) -> Iterator[None]:
    # A spinner costs a timer's thread, even where it is never seen.
    waits = nullcontext() if in_memory(view) else st.spinner(f"Loading {plain(view.checkpoint)}")
    with errors_on_page(), waits:
        yield


def get_trace(view: View, then: Callable[[Trace], Plan] | None = None) -> Trace:
    """Return the view's trace, showing progress and a way to stop.

    Args:
        then: what the page is about to ask for. It runs once, in this session, as soon as there is
            a trace; what it yields is made in the same job, and sent back to it.

    If there is nothing to translate, the sentence is too long, the model cannot be loaded, or the
    user stopped, the page says so in one line and the run ends.
    """
    _end_where_blank(view)
    request = view.request
    end_where_stopped(request, "Translate this sentence")
    found: Trace | None = results.CACHE.get(request)
    plan = None if found is None or then is None else then(found)
    wanted = None if plan is None else _first_missing(plan, request)
    if found is not None and wanted is None:
        return found
    get_tracer(view)
    progress = Progress(request, _doing(request))

    def make(job: Job[Trace]) -> Trace:
        made, steps, step = trace(request, job), plan, wanted
        if found is None:
            job.budget.charge(tokens=len(made.src_tokens) + len(made.tgt_tokens))
        if steps is None and then is not None:
            steps = job.ask(lambda: then(made))
            step = job.ask(lambda: _advance(steps, None))
        while steps is not None and step is not None:
            if isinstance(step, Request):
                progress.turn_to(step, _doing(step))
                result = _trace_or_none(step, job)
            else:
                result = results.result_of(request, step, job)
            step = job.ask(lambda: _advance(steps, result))  # noqa: B023 - answered at once
        return made

    with errors_on_page():
        return attended(make, progress)


def _trace_or_none(request: Request, job: Job[Trace]) -> Trace | None:
    with suppress(*_REFUSALS):
        return trace(request, job)
    return None


def _advance(plan: Plan, result: Any) -> Computation[Any] | Request | None:
    """Send a result to a plan; return what it wants next, None at its end."""
    try:
        return plan.send(result)
    except StopIteration:
        return None


def _first_missing(plan: Plan, request: Request) -> Computation[Any] | Request | None:
    """Run a plan on cached results; return the first that is missing, None if none is."""
    wanted = _advance(plan, None)
    while wanted is not None:
        key = wanted if isinstance(wanted, Request) else wanted.key(request)
        result = results.CACHE.get(key, _MISSING)
        if result is _MISSING:
            break
        wanted = _advance(plan, result)
    return wanted


def computed(view: View, name: str, args: Hashable, make: Callable[[Any, Trace], T]) -> T:
    """Return the result of `make` for this view, from the cache or made now with the trace.

    Args:
        name, args, make: see `Computation`.

    Returns: what `make` returned; its arrays are read-only.

    If there is no trace, `make` raises `InputError`, `CheckpointError` or runs out of memory, or
    the user stopped, the page says so in one line and the run ends.
    """
    result: T = prepare(view, [Computation(name, args, make)])[0]
    return result


def prepare(view: View, wanted: Iterable[Computation[Any]]) -> list[Any]:
    """Return several results, making those that are missing in one job. See `computed`."""
    wanted = list(wanted)
    request = view.request
    work = tuple(each.key(request) for each in wanted)
    end_where_stopped(work, "Go on")
    found = [results.CACHE.get(key, _MISSING) for key in work]
    if not any(each is _MISSING for each in found):
        return found
    _end_where_blank(view)
    get_tracer(view)

    def make(job: Job[list[Any]]) -> list[Any]:
        return [results.result_of(request, each, job) for each in wanted]

    with errors_on_page():
        return attended(make, Progress(work, _doing(request)))


def end_where_stopped(work: Hashable, again: str) -> None:
    """End the run if the user stopped this work, offering to resume it under the label `again`."""
    if stopped(work):
        st.info("Stopped.", icon=":material/stop_circle:")
        st.button(again, on_click=resume, key="resume_work")
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
def errors_on_page() -> Iterator[None]:
    """Turn expected errors into one line on the page, and end the run."""
    try:
        yield
        return
    except InputError as error:
        text = str(error)
        st.warning(plain(f"{text[:1].upper()}{text[1:]}."), icon=":material/short_text:")
    except CheckpointError as error:
        st.error(
            plain(without_root(str(error))) + ". Choose another checkpoint on the left.",
            icon=":material/error:",
        )
    except (MemoryError, torch.OutOfMemoryError):
        st.error(
            "There is not enough memory for this sentence on this device. "
            "Try a shorter one, a smaller beam, or the CPU.",
            icon=":material/memory:",
        )
    _end()
