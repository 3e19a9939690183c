"""Settings refused at the start, and repeated log lines."""

import logging

import pytest

from ui.core import public
from ui.hosting import start
from ui.hosting.start import MOST, WINDOW, Sparse


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    named: list[str] = []
    monkeypatch.setattr(start.config, "get_option", {"server.allowedHosts": named}.__getitem__)
    return named


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("HEADLIGHT_SESSIONS", "many", "HEADLIGHT_SESSIONS=many: must be a whole number"),
        ("HEADLIGHT_SESSIONS", "-1", "must be a whole number"),
        ("HEADLIGHT_IDLE_MINUTES", "0.5", "HEADLIGHT_IDLE_MINUTES=0.5: must be a whole number"),
        ("HEADLIGHT_BUDGET_SECONDS", "1.5", "HEADLIGHT_BUDGET_SECONDS=1.5: must be a whole"),
        ("HEADLIGHT_BUDGET_TOKENS", "²", "must be a whole number"),
        ("HEADLIGHT_FRAMES", "example.org", "must be origins"),
    ],
)
def test_a_bad_setting_is_named(
    variable: str, value: str, said: str, hosts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert start.problems() == []
    monkeypatch.setenv(variable, value)
    (line,) = start.problems()
    assert said in line and variable in line and "\n" not in line


def test_a_public_server_needs_its_names(hosts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("", "0", "OFF", "maybe", "1"):  # an unknown value counts as public
        monkeypatch.setenv(public.VARIABLE, value)
        assert public.is_public() == (value in ("maybe", "1"))
    monkeypatch.setenv("HEADLIGHT_IMPORT", "on")
    assert [line.partition(" ")[0] for line in start.problems()] == ["HEADLIGHT_PUBLIC=1"] * 2
    hosts.append("headlight.example.org")
    monkeypatch.setenv("HEADLIGHT_IMPORT", "")
    assert start.problems() == []


def record(text: str, level: int = logging.ERROR) -> logging.LogRecord:
    return logging.LogRecord("asyncio", level, "", 0, text, None, None)


def test_a_flood_is_written_a_few_times_and_then_counted() -> None:
    now = [0.0]
    sparse = Sparse(lambda: now[0])
    flood = "socket.accept() out of system resource\nsocket: <{}>"
    written = [sparse.filter(record(flood.format(number))) for number in range(10_000)]
    assert sum(written) == MOST and all(written[:MOST])
    assert sparse.filter(record("another line"))
    assert sparse.filter(record(flood, logging.INFO))
    now[0] = WINDOW
    later = record(flood)
    assert sparse.filter(later)
    assert f"({10_000 - MOST:,} similar lines omitted)" in later.getMessage()
    quiet = record(flood)
    assert sparse.filter(quiet) and "similar lines" not in quiet.getMessage()
    assert all(sparse.filter(record(f"line {number}")) for number in range(1_000))
    assert len(sparse._seen) <= 200  # different lines take no memory
