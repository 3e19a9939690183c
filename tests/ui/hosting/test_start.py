import logging
import tempfile
from pathlib import Path

import pytest
from streamlit import net_util
from streamlit.web.server.server_util import is_url_from_allowed_origins

from transformer.files.folders import RUNS, own_prefix
from ui.core import public
from ui.hosting import start
from ui.hosting.start import LONGEST, MOST, WINDOW, Sparse


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    named: list[str] = []
    monkeypatch.setattr(start.st, "get_option", {"server.allowedHosts": named}.__getitem__)
    return named


@pytest.mark.parametrize(("variable", "value", "said"), [
    ("HEADLIGHT_SESSIONS", "many", "HEADLIGHT_SESSIONS=many: must be a whole number"),
    ("HEADLIGHT_SESSIONS", "-1", "must be a whole number"),
    ("HEADLIGHT_BUDGET_SECONDS", "²", "HEADLIGHT_BUDGET_SECONDS=²: must be a whole"),
    ("HEADLIGHT_WORKERS", "many", "must be a whole number"),
    ("HEADLIGHT_FRAMES", "example.org", "must be origins"),
])  # fmt: skip
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


def test_a_start_needs_no_place_for_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", list)
    monkeypatch.setattr(start, "limit_lines", lambda: None)  # of this process
    monkeypatch.setenv("OMP_NUM_THREADS", "")
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(start, "processors", lambda: 2)
    monkeypatch.setattr(start.os, "cpu_count", lambda: 64)
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(tmp_path))
    (tmp_path / f"{own_prefix('.importing.')}x").mkdir()
    monkeypatch.setattr(net_util, "get_external_ip", net_util.get_external_ip)
    monkeypatch.setattr(net_util, "_make_blocking_http_get", lambda *_, **__: 1 / 0)
    start.prepare()
    assert not is_url_from_allowed_origins("https://other.example")  # nobody else is asked
    assert [*tmp_path.iterdir()] == []  # the rest of the start went on
    assert start.os.environ["OMP_NUM_THREADS"] == "2"  # in a container with two of 64 processors
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / f"{own_prefix(RUNS)}x").mkdir()
    start.prepare()
    assert [*tmp_path.iterdir()] == []
    assert "Removed training runs of a killed process" in caplog.text


def record(line: int, text: str, error: Exception | None = None) -> logging.LogRecord:
    exc_info = (type(error), error, None) if error else None
    return logging.LogRecord("any", logging.ERROR, "code.py", line, text, None, exc_info)


def test_a_flood_is_written_a_few_times_and_then_counted() -> None:
    now = [0.0]
    sparse = Sparse(lambda: now[0])
    written = [sparse.filter(record(1, f"no file {number}")) for number in range(10_000)]
    assert sum(written) == MOST and all(written[:MOST])
    errors = [sparse.filter(record(1, "failed", KeyError(number))) for number in range(10)]
    assert sum(errors) == MOST
    assert sparse.filter(record(2, "another place"))
    now[0] = WINDOW
    later = record(1, "no file")
    assert sparse.filter(later)
    assert later.getMessage() == f"no file ({10_000 - MOST:,} similar lines omitted)"
    long = record(1, "100%" + "x" * 10**6, ValueError("y" * 10**6))
    assert sparse.filter(long) and len(logging.Formatter().format(long)) < 3 * LONGEST


def test_what_visitors_say_stays_in_its_line() -> None:
    said = "x\nERROR forged\r\x1b[2J\u2028y"
    logged = record(1, said, ValueError(said))
    assert Sparse().filter(logged)
    first, *rest = logging.Formatter("%(message)s").format(logged).split("\n")
    assert first == "x ERROR forged  [2J y"
    assert rest and all(line.startswith(" ") and line.isprintable() for line in rest)
