import dataclasses
import math
import threading
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import altair as alt
import numpy as np
import plotly.graph_objects as go
import pytest
from plotly.io import to_json
from streamlit.elements.vega_charts import _convert_altair_to_vega_lite_spec
from streamlit.proto.WidgetStates_pb2 import WidgetState, WidgetStates
from streamlit.runtime.state.safe_session_state import SafeSessionState
from streamlit.runtime.state.session_state import SessionState

from tests.views import make_view
from tests.waiting import wait_until
from transformer.trace.records import Trace
from transformer.translator import Translator
from transformer.types import Floats
from transformer.worker.job import UNKNOWN, offer_turn, paused, report, this_job, this_turn
from ui.core.layout import section, sized
from ui.core.public import SECONDS, quota
from ui.core.view import View
from ui.platform import session as platform
from ui.work import desk, results, visit
from ui.work.desk import Progress, attend, drawn
from ui.work.lru import Lru
from ui.work.results import Computation
from ui.work.visit import RUNS, WINDOW, Budget, OverBudgetError, Pace, fall_back, run_in_turn

MADE: list[str] = []


def chart(values: Floats, title: str) -> alt.Chart:
    MADE.append(title)
    rows = alt.Data(values=[{"x": i, "y": float(y)} for i, y in enumerate(values)])
    return alt.Chart(rows).mark_bar().encode(x="x:Q", y=alt.Y("y:Q", title=title))


def figure(values: Floats, *, title: str) -> go.Figure:
    MADE.append(title)
    made = go.Figure(go.Heatmap(z=values))
    made.update_layout(title=title)
    return made


@pytest.fixture(autouse=True)
def _nothing_made(monkeypatch: pytest.MonkeyPatch) -> None:
    MADE.clear()
    monkeypatch.setattr(desk, "PICTURES", Lru(2**20, attrgetter("nbytes")))
    monkeypatch.setattr(results, "CACHE", Lru(64 * 2**20))


def spec_of(picture: Any) -> dict[str, Any]:
    return _convert_altair_to_vega_lite_spec(picture)


def test_a_picture_is_made_once_for_equal_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    assert drawn(chart, np.arange(3.0), "a") is drawn(chart, np.arange(3.0), "a")
    assert MADE == ["a"]
    drawn(chart, np.arange(4.0), "a")
    drawn(chart, np.arange(3.0), "b")
    drawn(chart, np.arange(3.0, dtype=np.float32), "b")
    small = drawn(figure, np.eye(2), title="c")
    monkeypatch.setattr(desk, "text_scale", lambda: 1.5)  # for projectors
    assert to_json(drawn(figure, np.eye(2), title="c").to_dict()) != to_json(small.to_dict())
    assert MADE == ["a", "a", "b", "b", "c", "c"]


def test_it_is_sent_as_it_would_be_without() -> None:
    values = np.arange(12.0).reshape(3, 4)
    ready = drawn(chart, values[0], "a")
    plain = spec_of(sized(chart(values[0], "a")))
    del ready.to_dict()["datasets"]  # of a copy
    assert spec_of(ready) == plain == spec_of(ready)
    before = desk.PICTURES.nbytes
    kept = drawn(figure, values, title="b")
    assert desk.PICTURES.nbytes > before + 8 * values.size
    assert to_json(kept.to_dict()) == to_json(figure(values, title="b").to_dict())
    assert sized(kept) is kept


@pytest.fixture
def view(tiny_checkpoint: Path) -> View:
    return make_view(tiny_checkpoint)


def test_a_result_is_computed_once_by_name_and_arguments(view: View) -> None:
    seen: list[tuple[str, str]] = []

    def make(model: Translator, trace: Trace) -> object:
        seen.append((model.name, trace.source))
        return object()

    other = dataclasses.replace(view, sentence="The cat sat on the mat.")
    found = [
        desk.computed(each, Computation(name, args, make))
        for each in (view, other)
        for name in ("one", "two")
        for args in ((1, "a"), (1, "b"))
        for _ in range(2)
    ]
    assert len({id(each) for each in found}) == len(seen) == 8
    assert set(seen) == {("tiny", "A dog runs."), ("tiny", other.sentence)}


def test_another_trace_that_fails_is_none(view: View) -> None:
    requests = [
        dataclasses.replace(view, sentence=sentence).request
        for sentence in ("The cat sat.", "A dog runs. " * 300)
    ]
    other, failed = desk.prepare(view, requests)
    assert other.source == "The cat sat." and failed is None


def test_several_computations_are_one_job(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.load_for_visit(view.entry, view.device)  # a job of its own
    jobs, attend = [], desk.attend
    monkeypatch.setattr(desk, "attend", lambda *args: (jobs.append(1), attend(*args))[1])
    wanted = [Computation("number", n, lambda _, trace, n=n: n) for n in range(3)]
    for _ in range(2):
        assert desk.prepare(view, wanted) == [0, 1, 2]
    assert jobs == [1]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevent runs from overtaking, and reset the pace of earlier runs."""
    monkeypatch.setattr(RUNS, "_patience", math.inf)
    monkeypatch.setattr(visit, "PACE", Pace(5.0, 1.0, latest=30.0))


def started(run: Callable[[], object]) -> threading.Thread:
    def body() -> None:
        with run_in_turn():
            run()

    thread = threading.Thread(target=body)
    thread.start()
    return thread


def test_widgets_of_no_page_do_not_fill_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    session = SafeSessionState(SessionState(), lambda: None)
    context = SimpleNamespace(session_state=session)
    monkeypatch.setattr(platform, "get_script_run_ctx", lambda **_: context)
    kept: Any = session._state._new_widget_state
    kept.widget_metadata["known"] = None
    for number in range(10):  # runs that do not reach their end
        many = {f"{number} {each}": "" for each in range(900)}
        forged = (
            WidgetState(id=name, string_value=text)
            for name, text in {**many, f"{number} long": 200_000 * "x"}.items()
        )
        session._state.set_widgets_from_proto(
            WidgetStates(widgets=[WidgetState(id="known"), *forged])
        )
        with run_in_turn():
            assert "known" in kept.states
            assert sum(100 + each.value.ByteSize() for each in kept.states.values()) < 310_000


def test_a_bucket_lets_honest_rates_pass_and_keeps_names_apart() -> None:
    now = [1000.0]
    pace = Pace(50.0, 200.0, latest=30.0, clock=lambda: now[0])
    for _ in range(10_000):
        now[0] += 1 / 30  # a key that repeats
        assert pace.take(1, "one") == 0
    assert not any(pace.take(1, "one") for _ in range(199))
    assert pace.take(50, "one") == pytest.approx(1)
    assert [pace.take(10**6, "one") for _ in range(2)] == [30, 30]
    assert pace.take(1, "another") == 0
    now[0] += 1e9
    assert pace.take(200) == 0 < pace.take(1)
    assert [*pace._full] == [None]  # names are not kept


@pytest.mark.parametrize("many", [7, 30])
def test_a_crowd_of_one_address_waits_behind_pages_of_others(
    many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    order, here = list[str](), threading.local()
    monkeypatch.setattr(visit, "PACE", Pace(5.0, 1.0, latest=30.0, clock=lambda: 0.0))
    context = type("Context", (), {"ip_address": property(lambda _: here.address)})()
    monkeypatch.setattr(desk.st, "context", context)

    def arrive(address: str) -> None:
        here.address = address
        fall_back()  # all open a page
        with run_in_turn():
            order.append(address)

    with RUNS.turn():
        threads = []
        for address in [*["a crowd"] * many, "a guest"]:
            threads.append(threading.Thread(target=arrive, args=(address,)))
            threads[-1].start()
            wait_until(lambda: RUNS.waiting == len(threads))
    for thread in threads:
        thread.join(60)
    assert order.index("a guest") <= 1 and len(order) == many + 1


def test_a_fragment_runs_in_the_turn_of_its_page() -> None:
    with run_in_turn(), run_in_turn():
        assert RUNS.waiting == 0


def test_a_run_that_waits_for_its_work_lets_another_go_on() -> None:
    went_on = threading.Event()

    def make() -> str:
        started(went_on.set).join(60)
        return "made"

    with run_in_turn():
        assert attend(make, Watched()) == "made"
    assert went_on.is_set()


def test_a_section_yields_to_a_run_of_higher_priority() -> None:
    order: list[str] = []
    with run_in_turn():
        thread = started(lambda: order.append("short"))
        wait_until(lambda: RUNS.waiting == 1)
        section("Title", "Text")
        order.append("section")
        turn = this_turn()
        assert turn
        turn._seconds = 100.0  # computed for long
        section("Title", "Text")
        order.append("next section")
    thread.join()
    assert order == ["section", "short", "next section"]


def test_a_run_with_much_to_draw_falls_back() -> None:
    order: list[str] = []

    def much() -> None:
        fall_back()  # in a callback, for the run that follows
        with run_in_turn():
            order.append("much")

    with run_in_turn():
        threads = [threading.Thread(target=much)]
        threads[0].start()
        wait_until(lambda: RUNS.waiting == 1)
        threads.append(started(lambda: order.append("little")))
        wait_until(lambda: RUNS.waiting == 2)
        fall_back()
        order.append("this")
    for thread in threads:
        thread.join(60)
    assert order == ["little", "much", "this"] or order == ["little", "this", "much"]


def test_a_run_that_ends_with_an_exception_lets_others_go_on() -> None:
    with pytest.raises(ZeroDivisionError), run_in_turn(), paused():
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), run_in_turn():
        raise ZeroDivisionError
    with RUNS.turn(pytest.fail):
        pass
    with paused():  # outside of any run, nothing to let go and nothing to offer
        offer_turn()


def test_work_is_as_late_as_the_run_that_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visit, "PACE", Pace(5.0, 1.0, latest=30.0, clock=lambda: 0.0))
    late = []
    for _ in range(8):
        with run_in_turn():
            late.append(attend(lambda: this_job().late, Watched()))
    assert late[0] == 0 and late[1] == pytest.approx(0.2) and late[-1] > 3


class Watched(Progress):
    def __init__(self) -> None:
        super().__init__("work")
        self.seen: list[tuple[int, int]] = []

    def __call__(self, step: int, most: int) -> None:
        self.seen.append((step, most))


def test_it_is_made_elsewhere_while_progress_is_drawn_here() -> None:
    drawn, here = Watched(), threading.current_thread()

    def make() -> threading.Thread:
        for step in range(3):
            report(step, 3)
            assert wait_until(lambda at=(step, 3): at in drawn.seen)
        return threading.current_thread()

    assert attend(make, drawn) is not here
    assert [at for at in dict.fromkeys(drawn.seen) if at != UNKNOWN] == [(0, 3), (1, 3), (2, 3)]


def test_a_budget_is_used_up_and_comes_back() -> None:
    now = [0.0]
    mine = Budget(60, lambda: now[0])
    mine.charge(59)
    mine.check()
    mine.charge(2)
    with pytest.raises(OverBudgetError, match="in 2 minutes,"):
        mine.check()
    now[0] = WINDOW / 10
    mine.check()
    mine.charge(118.5)
    with pytest.raises(OverBudgetError, match="in 20 minutes"):
        mine.check()
    now[0] += 2 * WINDOW
    mine.check()


def test_work_ends_when_the_budget_is_used_and_waits_free(monkeypatch: pytest.MonkeyPatch) -> None:
    now, reached = [0.0], []
    monkeypatch.setattr(desk.time, "monotonic", lambda: now[0])
    mine = Budget(12, lambda: now[0])
    with mine.metered() as meter:
        for most, seconds in ((0, 100), (0, 100), (5, 7)):  # waits twice, then computes
            meter(most)
            now[0] += seconds

    def work() -> None:
        for step in range(100):
            report(step, 100)
            reached.append(step)
            now[0] += 1

    with pytest.raises(OverBudgetError):
        mine.start(work).result(lambda *_: None)
    assert reached[-1] == 5  # after the 7; a second at 12 in 600 restores little


@pytest.mark.parametrize(
    ("public", "text", "seconds"),
    [("", "", 1e9), ("1", "", SECONDS), ("1", "0", 1e9), ("", "90", 90)],
)
def test_defaults(public: str, text: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADLIGHT_PUBLIC", public)
    monkeypatch.setenv("HEADLIGHT_BUDGET_SECONDS", text)
    assert quota() == seconds
