"""Pictures have texts, charts are valid and grow while presenting, controls explain their terms."""

import ast
import json
import re
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.conftest import ROOT, RunApp
from tests.pages.links import entries, unlinked
from ui.core import layout
from ui.core.glossary import named_term, term
from ui.core.presenter import SCALE

DRAWING = ("plotly_chart", "altair_chart", "vega_lite_chart", "pyplot", "graphviz_chart", "image")


def without_text(source: str) -> list[int]:
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [
        call.lineno
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in DRAWING
        and not any(word.arg == "alt" for word in call.keywords)
    ]


def test_every_picture_has_a_text() -> None:
    assert without_text("st.plotly_chart(x)\nst.image(y, alt='a')") == [1]
    for file in (*(ROOT / "pages").rglob("*.py"), *(ROOT / "ui").rglob("*.py")):
        assert not without_text(file.read_text("utf-8")), file


@pytest.mark.usefixtures("nothing_cached")
@pytest.mark.parametrize("page", ["", "tokens", "positions", "floor", "complexity"])
def test_charts_are_valid(run_app: RunApp, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def validated(self: Any) -> dict[str, Any]:
        drawn.append(self._chart.to_dict(validate=True))
        return dict(drawn[-1])

    monkeypatch.setattr(layout._Unchecked, "to_dict", validated)
    run_app(at=page, checkpoint="alpha", sentence="The cat sat on the mat.", view="why")
    assert drawn


def charts(app: AppTest) -> list[dict[str, Any]]:
    found = [*app.get("vega_lite_chart"), *app.get("arrow_vega_lite_chart")]
    return [json.loads(each.proto.spec) for each in found]


def test_charts_grow_with_the_page(run_app: RunApp) -> None:
    small, large = (
        charts(run_app(sentence="abc", present=present, at="tokens")) for present in ("off", "on")
    )
    assert small and len(small) == len(large)
    for one, other in zip(small, large, strict=True):
        axes = one["config"]["axis"], other["config"]["axis"]
        for size in ("labelFontSize", "titleFontSize"):
            assert axes[1][size] == SCALE * axes[0][size]
        assert other.get("datasets") == one.get("datasets")


#: Labels of a page's controls, and the glossary's entry for each.
BEAM = {"Beam size": "beam", "Length penalty α": "length penalty", "Model": "checkpoint"}
SAMPLE = {"Temperature": "temperature", "Top k": "top-k", "Top p": "top-p", "Seed": "seed"}


#: Technical terms as texts have them, and the entry that explains each.
ART = {
    r"\bnats\b": "log-probability",
    r"\blog [pP]\b": "log-probability",
    r"\balpha [\d=]|α": "length penalty",
    r"\bscore\b": "score",
    r"`_": "piece",
    r"\bprefix\b": "prefix",
}


def texts_of(app: AppTest) -> str:
    """Return all texts in the page's main part, cells of tables and help included."""
    parts = [*app.main.markdown, *app.main.caption, *app.main.warning, *app.main.info]
    cells = [
        str(each)
        for table in app.main.table
        for column in table.value.columns
        for each in (column, *table.value[column])
    ]
    helps = [str(getattr(part.proto, "help", "")) for part in (*parts, *app.main.toggle)]
    return "\n".join([*(str(part.value) for part in parts), *cells, *helps]).replace("\\", "")


LIKELY = {"log-probability", "length penalty", "score"}


@pytest.mark.parametrize(("page", "query", "named", "there"), [
    ("", {"sample": "on"}, SAMPLE, {"log-probability", "piece", "prefix"}),
    ("beam", {"panel": "compare"}, {"A": "branch", "B": "branch"}, LIKELY),
    ("beam", {"panel": "finished"}, {}, LIKELY),
    ("attention", {"display": "matrix"},
     {"Layer": "layer", "Head": "head", "Keys": "key", "Queries": "query"}, {"piece"}),
    ("head", {}, {"Layer": "layer", "Head": "head", "Query": "query", **BEAM}, {"piece"}),
    ("floor", {}, {}, {"piece"}),
    ("tokens", {}, {"Neighbours": "cosine"}, {"log-probability"}),
    ("positions", {}, {"Positions": "positional encoding"}, set()),
    ("compare", {"scored": "on"}, {}, {"log-probability", "score", "piece"}),
    ("compare", {"topic": "beam"}, {}, {"length penalty", "score"}),
    ("", {"tour": "decoding", "stop": "5", "guess": "0"}, {}, LIKELY | {"prefix", "piece"}),
])  # fmt: skip
def test_controls_explain_their_names_and_texts_link_their_terms(
    run_app: RunApp, page: str, query: dict[str, str], named: dict[str, str], there: set[str]
) -> None:
    app = run_app(sentence="a b c", at=page, **query)
    widgets = [*app.slider, *app.selectbox, *app.multiselect, *app.number_input]
    helps = {each.label: each.proto.help for each in widgets}
    assert {label: helps[label] for label in named} == {
        label: term(name) for label, name in named.items()
    }
    text = texts_of(app)
    linked = entries(text).values()
    assert all(named_term(name) is not None for name in linked)
    prose = unlinked(re.sub(r"\$[^$]*\$", "", text))
    met = {entry for pattern, entry in ART.items() if re.search(pattern, prose)}
    assert there <= met
    assert met <= set(linked)
