"""Controls named by a technical term explain it; texts link it to the glossary."""

import re

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.conftest import RunApp
from tests.pages.links import entries, unlinked
from ui.core.glossary import named_term, term

#: Labels of a page's controls, and the glossary's entry for each.
BEAM = {"Beam size": "beam", "Length penalty α": "length penalty", "Checkpoint": "checkpoint"}
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


@pytest.mark.parametrize(
    ("page", "query", "named", "there"),
    [
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
    ],
)  # fmt: skip
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
