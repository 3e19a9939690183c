"""Results computed for pages, and their plans."""

import dataclasses
from operator import attrgetter
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import plotly.graph_objects as go
import pytest
from plotly.io import to_json
from streamlit.elements.vega_charts import _convert_altair_to_vega_lite_spec

from tests.views import make_view
from transformer.trace.records import Trace
from transformer.translator import Translator
from transformer.types import Floats
from ui.core.layout import sized
from ui.core.view import View
from ui.work import cache, results
from ui.work.cache import drawn
from ui.work.lru import Lru

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
def _nothing_made(monkeypatch: pytest.MonkeyPatch) -> None:
    MADE.clear()
    monkeypatch.setattr(cache, "PICTURES", Lru(2**20, attrgetter("nbytes")))
    monkeypatch.setattr(results, "CACHE", Lru(64 * 2**20))


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
    monkeypatch.setattr(cache, "text_scale", lambda: 1.5)  # for projectors
    large = drawn(figure, np.eye(2), title="c")
    assert to_json(large.to_dict()) != to_json(small.to_dict())
    assert MADE == ["a", "a", "b", "b", "c", "c"]


def test_it_is_sent_as_it_would_be_without() -> None:
    values = np.arange(12.0).reshape(3, 4)
    ready = drawn(chart, values[0], "a")
    plain = spec_of(sized(chart(values[0], "a")))
    del ready.to_dict()["datasets"]  # of a copy
    assert spec_of(ready) == plain == spec_of(ready)
    before = cache.PICTURES.nbytes
    kept = drawn(figure, values, title="b")
    assert cache.PICTURES.nbytes > before + 8 * values.size
    assert to_json(kept.to_dict()) == to_json(figure(values, title="b").to_dict())
    assert sized(kept) is kept


@pytest.fixture
def view(tiny_checkpoint: Path) -> View:
    return make_view(tiny_checkpoint)


def test_a_result_is_computed_once_by_name_and_arguments(view: View) -> None:
    seen: list[tuple[str, str]] = []

    def make(model: Translator, trace: Trace) -> object:
        seen.append((model.name, trace.source))
        return object()

    other = dataclasses.replace(view, sentence="The cat sat on the mat.")
    found = [
        cache.computed(each, cache.Computation(name, args, make))
        for each in (view, other)
        for name in ("one", "two")
        for args in ((1, "a"), (1, "b"))
        for _ in range(2)
    ]
    assert len({id(each) for each in found}) == len(seen) == 8
    assert set(seen) == {("tiny", "A dog runs."), ("tiny", other.sentence)}


def test_another_trace_that_fails_is_none(view: View) -> None:
    requests = [
        dataclasses.replace(view, sentence=sentence).request
        for sentence in ("The cat sat.", "A dog runs. " * 300)
    ]
    other, failed = cache.prepare(view, requests)
    assert other.source == "The cat sat." and failed is None


def test_several_computations_are_one_job(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = []
    attended = cache.attended
    monkeypatch.setattr(cache, "attended", lambda *args: (jobs.append(1), attended(*args))[1])
    wanted = [cache.Computation("number", n, lambda _, trace, n=n: n) for n in range(3)]
    for _ in range(2):
        assert cache.prepare(view, wanted) == [0, 1, 2]
    assert jobs == [1]
