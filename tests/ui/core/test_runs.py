"""Runs compute one after the other; one that waits lets others go on and shows its progress."""

import math
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from streamlit.proto.WidgetStates_pb2 import WidgetState, WidgetStates
from streamlit.runtime.state.safe_session_state import SafeSessionState
from streamlit.runtime.state.session_state import SessionState

from tests.waiting import wait_until
from transformer.types import Report
from transformer.worker.job import UNKNOWN
from ui.core import runs
from ui.core.layout import section
from ui.core.runs import RUNS, Pace, fall_back, in_turn, offer_turn, paused
from ui.work.progress import LATE, Progress, attended


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never let a run in beside one that keeps its turn, and forget the pace of earlier runs."""
    monkeypatch.setattr(RUNS, "_patience", math.inf)
    monkeypatch.setattr(runs, "PACE", Pace(5.0, 1.0, latest=30.0))


def started(run: Callable[[], object]) -> threading.Thread:
    def body() -> None:
        with in_turn():
            run()

    thread = threading.Thread(target=body)
    thread.start()
    return thread


def test_widgets_of_no_page_do_not_fill_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    session = SafeSessionState(SessionState(), lambda: None)
    context = SimpleNamespace(session_state=session)
    monkeypatch.setattr(runs, "get_script_run_ctx", lambda **_: context)
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
        with in_turn():
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
    monkeypatch.setattr(runs, "PACE", Pace(5.0, 1.0, latest=30.0, clock=lambda: 0.0))
    context = type("Context", (), {"ip_address": property(lambda _: here.address)})()
    monkeypatch.setattr(runs.st, "context", context)

    def visit(address: str) -> None:
        here.address = address
        fall_back()  # all open a page
        with in_turn():
            order.append(address)

    with RUNS.turn():
        threads = []
        for address in [*["a crowd"] * many, "a guest"]:
            threads.append(threading.Thread(target=visit, args=(address,)))
            threads[-1].start()
            wait_until(lambda: RUNS.waiting == len(threads))
    for thread in threads:
        thread.join(60)
    assert order.index("a guest") <= 1 and len(order) == many + 1


def test_a_fragment_runs_in_the_turn_of_its_page() -> None:
    with in_turn(), in_turn():
        assert RUNS.waiting == 0


def test_a_run_that_waits_for_its_work_lets_another_go_on() -> None:
    went_on = threading.Event()

    def make(_: object) -> str:
        started(went_on.set).join(60)
        return "made"

    with in_turn():
        assert attended(make, Watched()) == "made"
    assert went_on.is_set()


def test_a_section_yields_to_a_run_of_higher_priority() -> None:
    order: list[str] = []
    with in_turn():
        thread = started(lambda: order.append("short"))
        wait_until(lambda: RUNS.waiting == 1)
        section("Title", "Text")
        order.append("section")
        runs._turn()._seconds = 100.0  # computed for long
        section("Title", "Text")
        order.append("next section")
    thread.join()
    assert order == ["section", "short", "next section"]


def test_a_run_with_much_to_draw_falls_back() -> None:
    order: list[str] = []

    def much() -> None:
        fall_back()  # in a callback, for the run that follows
        with in_turn():
            order.append("much")

    with in_turn():
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
    with pytest.raises(ZeroDivisionError), in_turn(), paused():
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), in_turn():
        raise ZeroDivisionError
    with RUNS.turn(pytest.fail):
        pass
    with paused():  # outside of any run, nothing to let go and nothing to offer
        offer_turn()


def test_work_is_as_late_as_the_run_that_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "PACE", Pace(5.0, 1.0, latest=30.0, clock=lambda: 0.0))
    late = []
    for _ in range(8):
        with in_turn():
            late.append(attended(lambda report: LATE.get(), Watched()))
    assert late[0] == 0 and late[1] == pytest.approx(0.2) and late[-1] > 3


class Watched(Progress):
    def __init__(self) -> None:
        super().__init__("work")
        self.seen: list[tuple[int, int]] = []

    def __call__(self, step: int, most: int) -> None:
        self.seen.append((step, most))


def test_it_is_made_elsewhere_while_progress_is_drawn_here() -> None:
    drawn, here = Watched(), threading.current_thread()

    def make(report: Report) -> threading.Thread:
        for step in range(3):
            report(step, 3)
            assert wait_until(lambda at=(step, 3): at in drawn.seen)
        return threading.current_thread()

    assert attended(make, drawn) is not here
    assert [at for at in dict.fromkeys(drawn.seen) if at != UNKNOWN] == [(0, 3), (1, 3), (2, 3)]
