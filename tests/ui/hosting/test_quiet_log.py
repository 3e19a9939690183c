"""A flood of one line is written a few times and counted."""

from __future__ import annotations

import logging

from ui.hosting.quiet_log import MOST, WINDOW, Sparse


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
    assert f"({10_000 - MOST:,} more like this were not written)" in later.getMessage()
    quiet = record(flood)
    assert sparse.filter(quiet) and "more like this" not in quiet.getMessage()


def test_a_flood_of_different_lines_takes_no_memory() -> None:
    sparse = Sparse(lambda: 0.0)
    assert all(sparse.filter(record(f"line {number}")) for number in range(1_000))
    assert len(sparse._seen) <= 200
