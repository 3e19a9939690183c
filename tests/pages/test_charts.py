"""Every chart on a page is valid Vega-Lite; the app itself does not check again as it draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from ui.core import layout


@pytest.mark.usefixtures("nothing_cached")
@pytest.mark.parametrize("page", ["tokens", "positions", "floor", "complexity"])
def test_charts_are_valid(
    run_app: Callable[..., AppTest], page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []

    def validated(self: Any) -> dict[str, Any]:
        drawn.append(self._chart.to_dict(validate=True))
        return dict(drawn[-1])

    monkeypatch.setattr(layout._Unchecked, "to_dict", validated)
    run_app(at=page, checkpoint="alpha", sentence="The cat sat on the mat.")
    assert drawn
