"""Controls named by a technical term explain it; texts link it to the glossary."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.links import entries, unlinked
from ui.core.glossary import named_term, term

RunApp = Callable[..., AppTest]

#: Labels of a page's controls, and the glossary's entry for each.
BEAM = {"Beam size": "beam", "Length penalty α": "length penalty", "Checkpoint": "checkpoint"}
SAMPLE = {"Temperature": "temperature", "Top k": "top-k", "Top p": "top-p", "Seed": "seed"}


@pytest.mark.parametrize(
    ("page", "query", "named"),
    [
        ("head", {}, {"Layer": "layer", "Head": "head", "Query": "query", **BEAM}),
        ("glossary", {"sample": "on"}, SAMPLE),
        ("attention", {"display": "matrix"},
         {"Layer": "layer", "Head": "head", "Keys": "key", "Queries": "query"}),
        ("positions", {}, {"Positions": "positional encoding"}),
        ("tokens", {}, {"Neighbours": "cosine"}),
        ("beam", {"panel": "compare"}, {"A": "branch", "B": "branch"}),
    ],
)  # fmt: skip
def test_controls_explain_their_names(
    run_app: RunApp, page: str, query: dict[str, str], named: dict[str, str]
) -> None:
    app = run_app(sentence="abc", at=page, **query)
    widgets = [*app.slider, *app.selectbox, *app.multiselect, *app.number_input]
    helps = {each.label: each.proto.help for each in widgets}
    assert {label: helps[label] for label in named} == {
        label: term(name) for label, name in named.items()
    }


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


@pytest.mark.parametrize(
    ("page", "query", "there"),
    [
        ("", {}, {"log-probability", "length penalty", "score", "piece", "prefix"}),
        ("", {"prefix": "51"}, {"prefix"}),
        ("beam", {}, {"log-probability", "length penalty", "score", "piece", "prefix"}),
        ("beam", {"panel": "finished"}, {"log-probability", "length penalty", "score"}),
        ("attention", {"display": "matrix"}, {"piece"}),
        ("head", {}, {"piece"}),
        ("floor", {}, {"piece"}),
        ("tokens", {}, {"log-probability"}),
        ("compare", {"scored": "on"}, {"log-probability", "score", "piece"}),
        ("compare", {"topic": "beam"}, {"length penalty", "score"}),
        ("", {"tour": "decoding", "stop": "5", "guess": "0"}, {"length penalty", "score"}),
    ],
)  # fmt: skip
def test_terms_of_art_are_linked_where_they_stand(
    run_app: RunApp, page: str, query: dict[str, str], there: set[str]
) -> None:
    text = texts_of(run_app(sentence="a b c", at=page, **query))
    linked = entries(text).values()
    assert all(named_term(name) is not None for name in linked)
    prose = unlinked(re.sub(r"\$[^$]*\$", "", text))
    met = {entry for pattern, entry in ART.items() if re.search(pattern, prose)}
    assert there <= met
    assert met <= set(linked)
