"""Every chart and picture has an alternative text.

Components' own drawings are tested in tests/browser/test_console.py.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DRAWING = ("plotly_chart", "altair_chart", "vega_lite_chart", "pyplot", "graphviz_chart", "image")
FILES = sorted([*(ROOT / "pages").rglob("*.py"), *(ROOT / "ui").rglob("*.py")])


def drawings(source: str) -> list[tuple[int, str, bool]]:
    """(line, name, whether it has a text) of each call that draws a picture."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [
        (call.lineno, call.func.attr, any(word.arg == "alt" for word in call.keywords))
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr in DRAWING
    ]


def test_a_missing_text_would_be_noticed() -> None:
    assert drawings("st.plotly_chart(x)\nst.image(y, alt='a')") == [
        (1, "plotly_chart", False),
        (2, "image", True),
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_picture_has_a_text(file: Path) -> None:
    without = [call for call in drawings(file.read_text("utf-8")) if not call[2]]
    assert not without
