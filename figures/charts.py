"""How every Altair chart looks."""

from __future__ import annotations

from typing import Any

from figures.attention import FONT
from figures.palette import CHROME, Theme


def quiet(chart: Any, theme: Theme) -> Any:
    """An Altair chart in the colours and sizes of the house."""
    chrome = CHROME[theme]
    return (
        chart.configure(background="transparent", font=FONT)
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=chrome.ink,
            titleColor=chrome.ink,
            gridColor=chrome.rule,
            domainColor=chrome.muted,
            tickColor=chrome.muted,
            labelFontSize=13,
            titleFontSize=13,
            titleFontWeight="normal",
        )
        .configure_legend(
            labelColor=chrome.ink, titleColor=chrome.ink, labelFontSize=13, titleFontSize=13
        )
    )
