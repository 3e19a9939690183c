"""Controls named by a word of the trade say what it means."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from ui.core.glossary import term

RunApp = Callable[..., AppTest]

#: What a page's controls are called, and the entry of the glossary beside them.
BEAM = {"Beam size": "beam", "Length penalty α": "length penalty", "Checkpoint": "checkpoint"}
SAMPLE = {"Temperature": "temperature", "Top k": "top-k", "Top p": "top-p", "Seed": "seed"}


@pytest.mark.parametrize(
    ("page", "query", "named"),
    [
        ("glossary", {}, BEAM),
        ("glossary", {"sample": "on"}, SAMPLE),
        ("head", {}, {"Layer": "layer", "Head": "head", "Query": "query"}),
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
