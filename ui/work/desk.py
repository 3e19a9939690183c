"""The desk: where a page asks for a model, a trace, or a result computed from them.

Results are shared by all sessions (see `ui.work.results`). Missing ones are made in background jobs
with a progress bar and a Stop button, on the session's compute quota. An error is shown in one line
and ends the run.

Runs of the app take turns. Python runs one thread at a time and switches between computing threads
every few milliseconds. A run passes on the interpreter lock with each of its hundred messages and
then waits for all other runs, so a run of 20 ms would take a second in a crowd. One after the
other, each ends soon. A run that waits, for a translation say, lets others go on. Most runs redraw
what is on screen; one that opens a page or draws another translation takes longer and falls back
behind them. An address that asks for many runs at once, by one socket or by hundreds, falls back
behind others.
"""

from __future__ import annotations

import functools
import math
import pickle
import threading
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
from transformer.errors import CheckpointError, InputError
from transformer.models.arrays.kind import ArchivedTrace
from transformer.models.catalogue import Entry
from transformer.trace.records import Trace
from transformer.trace.tracer import Tracer
from transformer.translator import Translator
from transformer.types import Report
from transformer.worker.job import Job, in_turn, report
from transformer.worker.scheduler import Scheduler, paused, this_turn
from ui.core import url_state
from ui.core.layout import ReadyChart, ReadyFigure, sized, text_scale
from ui.core.public import Pace, quota
from ui.core.view import Request, View, ask_for, is_blank
from ui.platform.session import OutsideFragmentError, drop_unknown_widgets
from ui.work import models, results
from ui.work.lru import Lru
from ui.work.models import REFUSALS, load
from ui.work.results import Computation
from ui.work.roots import without_root

P = ParamSpec("P")
T = TypeVar("T")

DECODING = "Decoding: step {step} of at most {most}"
READING = "Reading: layer {step} of {most}"
MEASURING = "Measuring: {step} of {most}"
LOADING = "Loading the model: {seconds:.0f} s so far"
WORKING = "Working: {seconds:.0f} s so far"
WAITING = "Waiting for other work to finish"

PICTURES = Lru(32 * 2**20, attrgetter("nbytes"))

#: Turns of runs. After so many seconds the next run starts beside one: it computes for long, or
#: waits for something that does not let others go on.
RUNS = Scheduler(patience=0.3)

#: Runs of an address that are not late: five a second.
PACE = Pace(5.0, 1.0, latest=30.0)

#: Seconds by which a run with much to draw falls back.
_BEHIND = 3.0

#: Seconds of lateness from which a run is one of a crowd, behind even long runs of others.
_CROWD = 1.0

#: Bytes of widgets of no page that a session keeps: more than a browser brings after a reload.
_MOST_UNKNOWN = 300_000

#: Seconds in which a used compute quota is restored.
WINDOW = 600.0

#: Seconds before the bar appears.
_PATIENCE = 0.4
#: Seconds between two drawings of the bar, while it moves and while it does not: each drawing is a
#: message, and a full classroom would send hundreds a second.
_MOVING, _STANDING = 0.25, 1.0

_BUDGET = "headlight_budget"
_STOPPED = "headlight_stopped"
_WORKING = "headlight_working"
_SLOT = "headlight_progress"
_LEFT = "headlight_left_stopped"

_MISSING = object()

_here = threading.local()  # `behind`: seconds by which the next run of this thread falls back


# Turns of runs


@contextmanager
def run_in_turn() -> Iterator[None]:
    """Run the block in this thread's turn; no effect inside a turn."""
    if this_turn() is not None:
        yield
        return
    drop_unknown_widgets(_MOST_UNKNOWN)
    behind, _here.behind = getattr(_here, "behind", 0.0), 0.0
    late = PACE.take(1, st.context.ip_address)
    with RUNS.turn(behind=behind, late=late + (_BEHIND if late > _CROWD else 0.0)):
        yield


def fall_back() -> None:
    """Yield to runs of the next seconds: this one has much to draw.

    In a widget's callback it holds for the run that follows on the same thread.
    """
    if (turn := this_turn()) is None:
        _here.behind = _BEHIND
    else:
        turn.fall_back(_BEHIND)
        turn.scheduler.offer(turn)


def fragment(draw: Callable[P, None]) -> Callable[P, None]:
    """Streamlit's `fragment` for functions whose work may be long.

    A fragment that reruns by itself may draw in an outside container only if it did so when the
    whole page ran last. So it empties the frame's place for progress each time.
    """

    @st.fragment
    @functools.wraps(draw)
    def run(*args: P.args, **options: P.kwargs) -> None:
        with run_in_turn():
            _resume_elsewhere()
            _frames_place()
            draw(*args, **options)

    return run


# The compute quota of a session


class OverBudgetError(InputError):
    """Raised in work of a session without budget; the message is one line."""


class Budget:
    """Seconds of work of one session, restored evenly over `WINDOW`. Thread-safe."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Args: seconds: most within `WINDOW`."""
        self._use = Pace(seconds / WINDOW, seconds, clock=clock)
        self._lock = threading.Lock()
        self._file: Job[Any] = Job()

    def charge(self, seconds: float) -> None:
        """Count use."""
        self._use.take(seconds)

    def check(self) -> None:
        """Raise `OverBudgetError` if nothing is left."""
        if late := self._use.take(0):
            # A tenth must be restored, not one second.
            minutes = math.ceil((late + WINDOW / 10) / 60)
            raise OverBudgetError(
                f"compute quota used up; try again in {minutes} minutes, or run Headlight on your "
                "own machine"
            )

    @contextmanager
    def metered(self) -> Iterator[Callable[[int], None]]:
        """Charge the time within.

        Yields: the `meter` of a job. Waiting, whose reports have a maximum of 0, is free.
        """
        since: float | None = time.monotonic()

        def charge(computes: bool) -> None:
            nonlocal since
            now = time.monotonic()
            if since is not None:
                self.charge(seconds=now - since)
            since = now if computes else None

        def meter(most: int) -> None:
            charge(computes=most != 0)
            self.check()

        try:
            yield meter
        finally:
            charge(computes=False)

    def start(self, make: Callable[[], T], late: float = 0.0) -> Job[T]:
        """Begin work on this budget; its progress goes to `transformer.worker.job.report`.

        Args: late: seconds by which it comes late among other work.
        """

        def work(job: Job[T]) -> T:
            with self.metered() as job.meter:
                return make()

        return Job[T](late=late).start(work)

    def start_file(self, make: Callable[[], T]) -> Job[T]:
        """Begin to make a file; the session's one before ends at its next report."""
        with self._lock:
            self._file.stop()
            self._file = job = self.start(make)
            return job


def budget_of_visit() -> Budget:
    """Return this session's budget."""
    budget = st.session_state.get(_BUDGET)
    if budget is None:
        budget = st.session_state[_BUDGET] = Budget(quota())
    return budget


# Progress and Stop. The frame draws both: a button in a fragment would wait for the run that it
# should end.


def place_for_progress() -> None:
    """Draw the bar's container, invisible while empty; called by the frame before any page."""
    _resume_elsewhere()
    with st.container(key="work"):
        st.session_state[_SLOT] = st.empty()
        st.button("Stop", icon=":material/stop:", key="stop_work", on_click=_mark)


class Progress:
    """Progress bar, called with (step, maximum).

    Each call is also where Streamlit ends this run when the user asks for something else, such as
    by the Stop button: the call does not return then.
    """

    def __init__(self, work: Hashable, doing: str = DECODING) -> None:
        """Create a bar without drawing it.

        Args:
            work: key of the work; pressing Stop marks it, see `stopped`.
            doing: text of the bar, with {step}, {most} and {seconds}.
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
        st.session_state[_WORKING] = self._work  # touching it is what may end the run
        if now - self._drawn < (_STANDING if self._shown == (step, most) else _MOVING):
            return
        self._drawn, self._shown = now, (step, most)
        if self._slot is None:
            self._slot = _frames_place() or st.empty()  # here it has no button
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
    """Empty and return the frame's place; None outside the frame, and in a fragment that the last
    run of the whole page did not reach.
    """
    slot: DeltaGenerator | None = st.session_state.get(_SLOT)
    if slot is not None:
        with suppress(OutsideFragmentError):
            slot.empty()
            return slot
    return None


def attend(make: Callable[[], T], progress: Progress) -> T:
    """Call `make` in a background job, drawing its progress; return or raise its outcome.

    Args:
        make: may use the caches of the process, but no session. It ends at its next report once
            this run has ended or the session's budget is used up.
    """
    budget, turn = budget_of_visit(), this_turn()
    budget.check()
    job = budget.start(make, late=0.0 if turn is None else turn.late)
    try:
        while True:
            with paused(_BEHIND):
                if job.ended(_MOVING):
                    return job.future.result()
            progress(*job.progress)
    finally:
        job.stop()
        progress.close()


def stopped(work: Hashable) -> bool:
    """Return whether the user stopped this work and has not resumed it."""
    return bool(st.session_state.get(_STOPPED) == work)


def resume() -> None:
    """Resume stopped work."""
    st.session_state.pop(_STOPPED, None)


def _resume_elsewhere() -> None:
    """Resume stopped work if something else has been asked for since."""
    if st.session_state.get(_LEFT, now := url_state.everything()) != now:
        resume()


def _mark() -> None:
    st.session_state[_STOPPED] = st.session_state.get(_WORKING)
    st.session_state.pop(_LEFT, None)


# What pages ask for


def run(
    work: Hashable, make: Callable[[Report], T], doing: str = WORKING, again: str = "Continue"
) -> T:
    """Return the result of `make` for the key `work`, cached or made now among other computations.

    Args: doing: text of the progress bar.  again: see `end_where_stopped`.
    """

    def in_lane() -> T:
        with in_turn(results.LONG):
            return make(report)

    end_where_stopped(work, again)
    result: T = results.CACHE.get(work, _MISSING)
    if result is not _MISSING:
        return result
    with errors_on_page():
        return attend(lambda: results.once(work, in_lane), Progress(work, doing))


def get_trace(view: View) -> Trace:
    """Return the view's trace, showing progress and a way to stop.

    If there is nothing to translate, the sentence is too long, the model cannot be loaded, or the
    user stopped, the page says so in one line and the run ends.
    """
    trace: Trace = prepare(view, [view.request], "Translate this sentence")[0]
    return trace


def computed(view: View, computation: Computation[T]) -> T:
    """Return a result for this view, from the cache or made now with the trace.

    Its arrays are read-only. If there is no trace, `make` raises `InputError`, `CheckpointError` or
    runs out of memory, or the user stopped, the page says so in one line and the run ends.
    """
    result: T = prepare(view, [computation])[0]
    return result


def prepare(
    view: View, items: Iterable[Computation[Any] | Request], again: str = "Continue"
) -> list[Any]:
    """Return several results, computing missing ones in one job. See `computed`.

    Args:
        items: computations on the view's trace, and requests. A request for another trace that
            fails returns None; the page shows the reason when it asks for that trace.
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
    _end_where_blank(view)
    get_tracer(view)
    doing = DECODING if request.target is None else READING
    with errors_on_page():
        return attend(lambda: [result(item) for item in items], Progress(keys, doing))


def drawn(make: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Return the chart or figure that `make` returns for these arguments, ready to draw.

    Args: make: a pure function of a module. Its arguments are compared by their content.
    """
    scale = text_scale()
    content = pickle.dumps((make.__module__, make.__qualname__, args, options, scale))

    def ready() -> ReadyChart | ReadyFigure:
        with budget_of_visit().metered():
            made = make(*args, **options)
            if isinstance(made, Figure):
                return ReadyFigure(grow(made, scale))
            return ReadyChart(sized(made))

    key = blake2b(content, digest_size=16).digest()
    return cast("T", PICTURES.once(key, ready))


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


def load_for_visit(entry: Entry, device: str) -> Tracer:
    """Load an entry for this session, on its budget, with a bar and a way to stop.

    Raises: what `load` raises, and `InputError` without budget or if the user has stopped it.
    """
    found: Tracer | None = models.MODELS.get(work := (entry.ref, device))
    if found is not None:
        return found
    if stopped(work):
        raise InputError("loading was stopped")
    return attend(lambda: load(entry, device), Progress(work, LOADING))


def translator(view: View) -> Translator:
    """Load the view's checkpoint. Raises `CheckpointError` for any other kind of model."""
    loaded = load_for_visit(view.entry, view.device)
    if not isinstance(loaded, Translator):
        raise CheckpointError(f"{view.path}: not a checkpoint of this project")
    return loaded


def recorded_sentence(entry: Entry) -> str | None:
    """Return the sentence of a file of arrays, None if it cannot be read."""
    try:
        archive = load_for_visit(entry, "cpu")
    except REFUSALS:
        return None
    return archive.sentence if isinstance(archive, ArchivedTrace) else None


def writes(entry: Entry, device: str) -> bool:
    """Load an entry's model; return whether it translates, False if it cannot be loaded."""
    if entry.stack is not None:
        return entry.stack.task == "translate"
    try:
        return "cross" in load_for_visit(entry, device).kinds
    except REFUSALS:
        return False


def end_where_stopped(work: Hashable, again: str) -> None:
    """End the run if the user stopped this work, offering to resume it under the label `again`."""
    if stopped(work):
        st.info("Stopped.", icon=":material/stop_circle:")
        st.button(again, on_click=resume, key="resume_work")
        st.session_state[_LEFT] = url_state.everything()  # other settings resume it
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
