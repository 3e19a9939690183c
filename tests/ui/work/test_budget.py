"""Compute quota of a session."""

import pytest

from ui.work import budget
from ui.work.budget import WINDOW, Budget, OverBudgetError, limit


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


def test_work_ends_when_the_budget_is_used_and_waits_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, reached = [0.0], []
    monkeypatch.setattr(budget.time, "monotonic", lambda: now[0])
    mine = Budget(12, lambda: now[0])
    with mine.metered(lambda *_: None) as report:
        for most, seconds in ((0, 100), (0, 100), (5, 7)):  # waits twice, then computes
            report(1, most)
            now[0] += seconds

    def work() -> None:
        with mine.metered(lambda *_: None) as report:
            for step in range(100):
                report(step, 100)
                reached.append(step)
                now[0] += 1

    with pytest.raises(OverBudgetError):
        work()
    assert reached[-1] == 5  # after the 7; a second at 12 in 600 restores little


@pytest.mark.parametrize(
    ("public", "text", "seconds"),
    [("", "", 1e9), ("1", "", budget.SECONDS), ("1", "0", 1e9), ("", "90", 90)],
)
def test_defaults(public: str, text: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADLIGHT_PUBLIC", public)
    monkeypatch.setenv("HEADLIGHT_BUDGET_SECONDS", text)
    assert limit() == seconds
