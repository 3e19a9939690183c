"""A picture is drawn once for equal arguments, and equals a fresh one."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import plotly.graph_objects as go
import pytest
from plotly.io import to_json
from streamlit.elements.vega_charts import _convert_altair_to_vega_lite_spec

from transformer.types import Floats
from ui.core.layout import sized
from ui.work import pictures
from ui.work.pictures import PICTURES, drawn

MADE: list[str] = []


def chart(values: Floats, title: str) -> alt.Chart:
    MADE.append(title)
    rows = alt.Data(values=[{"x": i, "y": float(y)} for i, y in enumerate(values)])
    return alt.Chart(rows).mark_bar().encode(x="x:Q", y=alt.Y("y:Q", title=title))


def figure(values: Floats, *, title: str) -> go.Figure:
    MADE.append(title)
    made = go.Figure(go.Heatmap(z=values))
    made.update_layout(title=title)
    return made


@pytest.fixture(autouse=True)
def nothing_made() -> None:
    MADE.clear()
    PICTURES.clear()


def spec_of(picture: Any) -> dict[str, Any]:
    return _convert_altair_to_vega_lite_spec(picture)


def test_a_picture_is_made_once_for_equal_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    one = drawn(chart, np.arange(3.0), "a")
    assert drawn(chart, np.arange(3.0), "a") is one
    assert MADE == ["a"]
    drawn(chart, np.arange(4.0), "a")
    drawn(chart, np.arange(3.0), "b")
    drawn(chart, np.arange(3.0, dtype=np.float32), "b")
    small = drawn(figure, np.eye(2), title="c")
    monkeypatch.setattr(pictures, "text_scale", lambda: 1.5)  # for projectors
    large = drawn(figure, np.eye(2), title="c")
    assert to_json(large.to_dict()) != to_json(small.to_dict())
    assert MADE == ["a", "a", "b", "b", "c", "c"]


def test_it_is_sent_as_it_would_be_without() -> None:
    values = np.arange(12.0).reshape(3, 4)
    ready = drawn(chart, values[0], "a")
    plain = spec_of(sized(chart(values[0], "a")))
    del ready.to_dict()["datasets"]  # of a copy
    assert spec_of(ready) == plain == spec_of(ready)
    before = PICTURES.nbytes
    kept = drawn(figure, values, title="b")
    assert PICTURES.nbytes > before + 8 * values.size
    assert to_json(kept.to_dict()) == to_json(figure(values, title="b").to_dict())
    assert sized(kept) is kept
