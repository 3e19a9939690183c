from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from figures.palette import CHROME, THEMES, Theme, contrast

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def settings() -> dict[str, Any]:
    return tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())


@pytest.mark.parametrize("theme", THEMES)
def test_the_themes_have_the_palettes_colours(settings: dict[str, Any], theme: Theme) -> None:
    chrome, colours = CHROME[theme], settings["theme"][theme]
    assert colours["backgroundColor"] == chrome.surface
    assert colours["textColor"] == chrome.ink
    assert colours["primaryColor"] == chrome.accent
    assert colours["borderColor"] == chrome.rule


@pytest.mark.parametrize("theme", THEMES)
def test_text_can_be_read(settings: dict[str, Any], theme: Theme) -> None:
    colours = settings["theme"][theme]
    for part in (colours, colours["sidebar"]):
        assert contrast(colours["textColor"], part["backgroundColor"]) >= 10
        assert contrast(colours["primaryColor"], part["backgroundColor"]) >= 4.5


def test_nothing_is_asked_sent_or_shown(settings: dict[str, Any]) -> None:
    assert settings["server"]["showEmailPrompt"] is False
    assert settings["browser"]["gatherUsageStats"] is False
    assert settings["server"]["fileWatcherType"] == "none"
    assert settings["client"]["showErrorDetails"] == "none"
