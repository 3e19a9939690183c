"""The desk, where pages request models, traces and results.

Results are shared by all sessions (see `ui.work.results`). Background jobs compute missing results
with a progress bar and a Stop button, within the session's compute quota. An error ends the run
with a one-line message.
"""

import functools
import pickle
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from operator import attrgetter
from typing import Any, NoReturn, ParamSpec, TypeVar, cast

import streamlit as st
import torch
from plotly.graph_objects import Figure
from streamlit.delta_generator import DeltaGenerator

from figures.charts import grow
from figures.labels import count, plain
from transformer.models.catalogue import Entry
from transformer.trace.records import Trace
from transformer.trace.tracer import Tracer
from transformer.translator import Translator
from transformer.types import BlankError, CheckpointError, InputError, Report
from transformer.worker.job import offer_turn, paused, report, this_turn
from ui.core import url_state
from ui.core.layout import ReadyChart, ReadyFigure, sized, text_scale
from ui.core.view import Request, View, ask_for
from ui.platform.session import OutsideFragmentError
from ui.work import results
from ui.work.lru import Lru
from ui.work.results import REFUSALS, Computation, load
from ui.work.roots import without_root
from ui.work.visit import BEHIND, budget_of_visit, run_in_turn

P = ParamSpec("P")
T = TypeVar("T")

DECODING = "Decoding: step {step} of at most {most}"
READING = "Reading: layer {step} of {most}"
MEASURING = "Measuring: {step} of {most}"
LOADING = "Loading the model: {seconds:.0f} s so far"
WORKING = "Working: {seconds:.0f} s so far"
WAITING = "Waiting for other work to finish"

PICTURES = Lru(32 * 2**20, attrgetter("nbytes"))

#: Seconds before the bar appears.
_PATIENCE = 0.4
#: Seconds between redraws of a moving and a standing bar. Each redraw is a message; a full
#: classroom would send hundreds per second.
_MOVING, _STANDING = 0.25, 1.0

_STOPPED = "headlight_stopped"
_WORKING = "headlight_working"
_SLOT = "headlight_progress"
_LEFT = "headlight_left_stopped"

_MISSING = object()


def fragment(draw: Callable[P, None]) -> Callable[P, None]:
    """`st.fragment` for functions with long computations, which yield to other runs first.

    A fragment rerun may only draw in an outside container that it used in the last full run, so it
    always empties the frame's progress container.
    """

    @st.fragment
    @functools.wraps(draw)
    def run(*args: P.args, **options: P.kwargs) -> None:
        with run_in_turn():
            offer_turn()
            _resume_elsewhere()
            _frames_place()
            draw(*args, **options)

    return run


# Progress and Stop, drawn by the frame: a button in a fragment would wait for the run it should end


def place_for_progress() -> None:
    """Draw the bar's container, invisible while empty, and the Stop button."""
    _resume_elsewhere()
    with st.container(key="work"):
        st.session_state[_SLOT] = st.empty()
        st.button("Stop", icon=":material/stop:", key="stop_work", on_click=_mark)


class Progress:
    """Progress bar, called with (step, maximum).

    A call does not return if the visitor has started another run, for example by the Stop button:
    Streamlit ends this run there.
    """

    def __init__(self, work: Hashable, doing: str = DECODING) -> None:
        """Create a bar without drawing it.

        Args:
            work: key that Stop marks, see `stopped`.
            doing: bar text with {step}, {most} and {seconds}.
        """
        self._work, self._doing = work, doing
        self._slot: DeltaGenerator | None = None
        self._started = time.monotonic()
        self._drawn = 0.0
        self._shown: tuple[int, int] | None = None

    def __call__(self, step: int, most: int) -> None:
        """Report progress; see `Report`."""
        now = time.monotonic()
        seconds = now - self._started
        if seconds < _PATIENCE:
            return
        st.session_state[_WORKING] = self._work  # this access may end the run
        if now - self._drawn < (_STANDING if self._shown == (step, most) else _MOVING):
            return
        self._drawn, self._shown = now, (step, most)
        if self._slot is None:
            self._slot = _frames_place() or st.empty()  # without a Stop button
        if most:
            doing = self._doing if most > 0 else WORKING
            text = doing.format(step=step, most=most, seconds=seconds)
            self._slot.progress(min(1.0, max(0.0, step / most)), text)
        else:
            first = f"; {count(step, 'other')} first" if step else ""
            self._slot.progress(0.0, WAITING + first)

    def close(self) -> None:
        """Remove the bar."""
        if self._slot is not None:
            self._slot.empty()


def _frames_place() -> DeltaGenerator | None:
    """Empty and return the frame's container, or None if this fragment cannot draw in it."""
    slot: DeltaGenerator | None = st.session_state.get(_SLOT)
    if slot is not None:
        with suppress(OutsideFragmentError):
            slot.empty()
            return slot
    return None


def attend(make: Callable[[], T], progress: Progress) -> T:
    """Call `make` in a background job with a progress bar, and return or raise its outcome.

    Args:
        make: must not use the session. It ends at its next report if this run has ended or the
            session's quota is used up.
    """
    budget, turn = budget_of_visit(), this_turn()
    budget.check()
    job = budget.start(make, late=0.0 if turn is None else turn.late)
    try:
        while True:
            with paused(BEHIND):
                if job.ended(_MOVING):
                    return job.future.result()
            progress(*job.progress)
    finally:
        job.stop()
        progress.close()


def stopped(work: Hashable) -> bool:
    """Return True if the visitor stopped this work and has not resumed it."""
    return bool(st.session_state.get(_STOPPED) == work)


def resume() -> None:
    """Resume stopped work."""
    st.session_state.pop(_STOPPED, None)


def _resume_elsewhere() -> None:
    """Resume stopped work if settings have changed since."""
    if st.session_state.get(_LEFT, now := url_state.everything()) != now:
        resume()


def _mark() -> None:
    st.session_state[_STOPPED] = st.session_state.get(_WORKING)
    st.session_state.pop(_LEFT, None)


# Requests of pages


def run(
    work: Hashable, make: Callable[[Report], T], doing: str = WORKING, again: str = "Continue"
) -> T:
    """Return the cached result for the key `work`, or compute it in the lane of long work.

    Args: doing: progress bar text.  again: see `end_where_stopped`.
    """

    def in_lane() -> T:
        with results.LONG.turn():
            return make(report)

    end_where_stopped(work, again)
    result: T = results.CACHE.get(work, _MISSING)
    if result is not _MISSING:
        return result
    with errors_on_page():
        return attend(lambda: results.once(work, in_lane), Progress(work, doing))


def get_trace(view: View) -> Trace:
    """Return the view's trace, computed with a progress bar if it is not cached.

    A blank or overlong sentence, a model that cannot be loaded, or Stop ends the run with a
    message.
    """
    trace: Trace = prepare(view, [view.request], "Translate this sentence")[0]
    return trace


def computed(view: View, computation: Computation[T]) -> T:
    """Return a computation's result for this view; its arrays are read-only.

    A missing trace, an `InputError` or `CheckpointError`, lack of memory, or Stop ends the run with
    a message.
    """
    result: T = prepare(view, [computation])[0]
    return result


def prepare(
    view: View, items: Iterable[Computation[Any] | Request], again: str = "Continue"
) -> list[Any]:
    """Return several results, computing missing ones in one job. See `computed`.

    Args:
        items: computations on the view's trace, and requests for traces. The result of a failed
            request for another trace is None; `get_trace` shows the reason.
        again: see `end_where_stopped`.
    """
    items, request = list(items), view.request

    def result(item: Computation[Any] | Request) -> Any:
        if isinstance(item, Computation):
            return results.result_of(request, item)
        try:
            return results.trace(item)
        except REFUSALS:
            if item == request:
                raise
            return None

    keys = tuple(item if isinstance(item, Request) else item.key(request) for item in items)
    end_where_stopped(keys, again)
    ready = [results.CACHE.get(key, _MISSING) for key in keys]
    if not any(item is _MISSING for item in ready):
        return ready
    get_tracer(view)
    doing = DECODING if request.target is None else READING
    if any(isinstance(item, Request) and item.cells for item in items):
        doing = MEASURING
    with errors_on_page():
        try:
            return attend(lambda: [result(item) for item in items], Progress(keys, doing))
        except BlankError:
            _end_with_examples(view)


def drawn(make: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Return the serialised chart or figure that `make` returns, cached by arguments.

    Args: make: a pure function of a module; its arguments are compared by content.
    """
    scale = text_scale()
    content = pickle.dumps((make.__module__, make.__qualname__, args, options, scale))

    def ready() -> ReadyChart | ReadyFigure:
        with budget_of_visit().metered():
            picture = make(*args, **options)
            if isinstance(picture, Figure):
                return ReadyFigure(grow(picture, scale))
            return ReadyChart(sized(picture))

    return cast("T", PICTURES.once(blake2b(content, digest_size=16).digest(), ready))


def get_translator(view: View) -> Translator:
    """Return the view's translator, or end the run with the reason."""
    model = get_tracer(view)
    with errors_on_page():
        if not isinstance(model, Translator):
            raise CheckpointError(f"{view.path}: not a checkpoint of this project")
    return model


def get_tracer(view: View, where: str = "on the left") -> Tracer:
    """Return the view's model of any kind, or end the run with the reason.

    Args: where: place on screen to choose another model.
    """
    end_where_stopped((view.entry.ref, view.device), "Load the model")
    with errors_on_page(where):
        return load_for_visit(view.entry, view.device)


def load_for_visit(entry: Entry, device: str) -> Tracer:
    """Load an entry within this session's quota, with a progress bar and Stop.

    Raises: as `load`, and `InputError` if the quota is used up or the visitor stopped it.
    """
    loaded: Tracer | None = results.MODELS.get(work := (entry.ref, device))
    if loaded is not None:
        return loaded
    if stopped(work):
        raise InputError("loading was stopped")
    return attend(lambda: load(entry, device), Progress(work, LOADING))


def end_where_stopped(work: Hashable, again: str) -> None:
    """End the run if the visitor stopped this work; a button labelled `again` resumes it."""
    if stopped(work):
        st.info("Stopped.", icon=":material/stop_circle:")
        st.button(again, on_click=resume, key="resume_work")
        st.session_state[_LEFT] = url_state.everything()  # other settings resume it
        _end()


def _end_with_examples(view: View) -> NoReturn:
    st.info(
        f"Nothing to read yet. Type {view.examples.hint} on the left, or choose an example:",
        icon=":material/edit:",
    )
    with st.container(horizontal=True, key="examples", gap="small"):
        for item in view.examples.items:
            st.button(
                plain(item.sentence), key=f"example {item.sentence}", on_click=ask_for,
                args=(item.sentence,),
            )  # fmt: skip
    _end()


def _end() -> NoReturn:
    """Write the URL in place of the frame, and end the run."""
    url_state.write_url()
    st.stop()


@contextmanager
def errors_on_page(where: str = "on the left") -> Iterator[None]:
    """Show expected errors in one line and end the run. Args: where: see `get_tracer`."""
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
