import tomllib
from pathlib import Path

import pytest

from figures.palette import THEMES, Theme, contrast

SETTINGS = tomllib.loads(
    (Path(__file__).resolve().parents[2] / ".streamlit" / "config.toml").read_text("utf-8")
)


@pytest.mark.parametrize("theme", THEMES)
def test_text_in_the_sidebar_can_be_read(theme: Theme) -> None:
    colours = SETTINGS["theme"][theme]
    background = colours["sidebar"]["backgroundColor"]
    assert contrast(colours["textColor"], background) >= 10
    assert contrast(colours["primaryColor"], background) >= 4.5


def test_nothing_is_asked_sent_or_shown() -> None:
    assert SETTINGS["server"]["showEmailPrompt"] is False
    assert SETTINGS["browser"]["gatherUsageStats"] is False
    assert SETTINGS["server"]["fileWatcherType"] == "none"
    assert SETTINGS["client"]["showErrorDetails"] == "none"
