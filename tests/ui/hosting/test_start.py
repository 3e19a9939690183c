"""Settings with which the server does not start."""

from __future__ import annotations

import pytest

from ui.core import public
from ui.hosting import start


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
        ("HEADLIGHT_METRICS", "99999", "must be a port from 1 to 65535"),
        ("HEADLIGHT_METRICS", "host:", "must be a port from 1 to 65535"),
        ("HEADLIGHT_FRAMES", "example.org", "must be origins"),
        ("HEADLIGHT_PRODUCTS", "fastest", "must be measured or usual"),
    ],
)
def test_a_bad_setting_is_named(
    variable: str, value: str, said: str, hosts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert start.problems() == []
    monkeypatch.setenv(variable, value)
    (line,) = start.problems()
    assert said in line and variable in line and "\n" not in line


def test_a_public_server_needs_its_names_and_lets_nobody_import(
    hosts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(public.VARIABLE, "1")
    monkeypatch.setenv("HEADLIGHT_IMPORT", "on")
    assert [line.partition(" ")[0] for line in start.problems()] == ["HEADLIGHT_PUBLIC=1"] * 2
    hosts.append("headlight.example.org")
    monkeypatch.setenv("HEADLIGHT_IMPORT", "")
    assert start.problems() == []


@pytest.mark.parametrize(
    ("value", "is_it"), [("", False), ("0", False), ("OFF", False), ("1", True), ("maybe", True)]
)
def test_an_unknown_value_counts_as_public(
    value: str, is_it: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(public.VARIABLE, value)
    assert public.is_public() is is_it
