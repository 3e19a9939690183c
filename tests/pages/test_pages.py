import ast
import re
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.conftest import ROOT, RunApp
from tests.pages.links import entries, go_to, unlinked
from tests.shipped import SHAPES, STACKS, TRANSLATORS
from tests.ui.core.test_choice import CHOICES
from transformer.models.catalogue import inspect_entry
from transformer.translator import Translator
from ui.core import layout, url_state
from ui.core.examples import examples_for
from ui.core.glossary import named_term, term
from ui.frame.page import DOORS, Page, all_pages, entries_of
from ui.work import results

CAT = "The cat sat on the mat."
HOSTILE = (
    "<script>alert(1)</script> **b** $x$ `c` :red[y] שלום 😀 \u202ee\u0301\x1b 日本 w" + "w" * 99
)

ALWAYS = {spec.path for spec in all_pages() if not spec.needs and not spec.maps}
#: Kinds of models: the pages that their abilities open, and the kinds of attention that they have.
KINDS: dict[str, tuple[set[str], set[str]]] = {
    "both.npz": (set(), {"encoder_self", "decoder_self", "cross"}),
    "text.npz": (set(), {"decoder_self"}), "read.npz": (set(), {"encoder_self"}),
    "reader": ({"head"}, {"encoder_self"}), "writer": ({"head"}, {"decoder_self"}),
    "one": ({"head"}, {"decoder_self"}),
    "t5": (set(), {"encoder_self", "decoder_self", "cross"}),
    "gpt2": (set(), {"decoder_self"}), "bert": (set(), {"encoder_self"}),
}  # fmt: skip
#: Pages on which the chosen model is not on screen.
ELSEWHERE = {"complexity", "models", "training", "glossary"}
LIBRARY = {"t5", "gpt2", "bert"}


@pytest.mark.filterwarnings("ignore")  # those of transformers
@pytest.mark.parametrize("name", KINDS)
def test_a_page_shows_a_model_or_says_where_to_go(run_app: RunApp, kinds: Path, name: str) -> None:
    if name in LIBRARY:
        pytest.importorskip("transformers")
    app = run_app(kinds, at="glossary", checkpoint=name, sentence=CAT)
    able, maps = KINDS[name]
    drawn = {page.path for page in all_pages() if not page.needs and {*page.maps} <= maps}
    offered = able | drawn | ALWAYS
    for spec in all_pages():
        if spec.path in ELSEWHERE:
            continue
        go_to(app, spec.path)
        assert not app.error, spec.title
        assert app.sidebar.selectbox(key="checkpoint_box").value == name
        refused = bool(app.header) and app.header[0].value == spec.title
        assert refused == (spec.path not in offered), spec.title
        if refused:
            assert len(app.info) == 1 and "\n" not in app.info[0].value
            links = {each.proto.label for each in app.main.get("page_link")}
            assert links == {each.title for each in all_pages() if each.path in offered}


def test_a_door_opens_what_is_behind_it_with_the_sentence_where_needed(run_app: RunApp) -> None:
    for door in DOORS:
        behind = entries_of(door)
        app = run_app(at=next(iter(behind.values()))[0].path, checkpoint="alpha", sentence=CAT)
        for name, (page, entry) in reversed(behind.items()):
            app.button_group(key="door_entry").set_value(name).run()
            assert app.button_group(key="door_entry").value == name, door
            assert entry.settings.items() <= {**app.query_params}.items(), name
            assert bool(app.sidebar.text_area) == (page.model != "absent"), name
    for display, name in (("matrix", "Matrix"), ("heads", "Word links")):  # units are not said
        app = run_app(at="attention", checkpoint="alpha", sentence=CAT, display=display)
        assert app.button_group(key="door_entry").value == name
    app = run_app(at="models", checkpoint="alpha")
    assert "door_entry" not in [each.key for each in app.get("button_group")]


@pytest.mark.parametrize("name", [*TRANSLATORS, *STACKS])
def test_every_shipped_checkpoint_knows_its_examples_and_opens(run_app: RunApp, name: str) -> None:
    entry = inspect_entry(ROOT / "checkpoints" / name)
    assert entry.error is None
    if name in TRANSLATORS:
        translator = results.load(entry, "cpu")
        assert isinstance(translator, Translator)
        for example in examples_for(name, entry.metrics).items:
            source = translator.read(example.sentence)
            assert source.unknown == ()
            if example.watch:
                assert example.watch in [piece.lstrip("▁").lower() for piece in source.pieces]
    pages = ("head", "family") if name in STACKS else ("beam", "head", "positions")
    for page in pages if name in (*SHAPES, *STACKS) else ("beam",):
        app = run_app(ROOT / "checkpoints", at=page, checkpoint=name, beam="1", opening="0")
        assert not app.error and not app.header, page


@pytest.mark.parametrize("spec", all_pages(), ids=lambda spec: spec.path)
def test_text_is_never_code_and_nonsense_is_dropped(run_app: RunApp, spec: Page) -> None:
    at = "" if spec is all_pages()[0] else spec.path
    plain = run_app(at=at, checkpoint="alpha", sentence=HOSTILE, opening="0")
    assert not plain.error and not plain.header
    params = {param for cls in CHOICES for param in cls.params()}
    accepted = {param.name for param in params if not refuses(param, "<b>1e9")}
    nonsense = {param.name: "<b>1e9" for param in params if param.name not in accepted}
    app = run_app(at=at, checkpoint="alpha", sentence=HOSTILE, opening="0", **nonsense)
    assert app.query_params == plain.query_params
    assert app.session_state["headlight_view"] == plain.session_state["headlight_view"]
    shown = [*app.markdown, *app.caption, *app.warning, *app.info, *app.error, *app.toast]
    assert not any("<script>" in each.value.replace("`<script>", "") for each in shown)
    assert not any(each.allow_html for each in app.markdown)
    assert not any("<script" in each.proto.body for each in app.get("html"))


def refuses(param: url_state.Param[Any], raw: str) -> bool:
    try:
        param.parse(raw)
    except ValueError:
        return True
    return False


def test_a_blank_sentence_asks_for_one_on_every_page(run_app: RunApp) -> None:
    app = run_app(checkpoint="alpha", sentence=" \u200b ")
    for page in ("translate", "attention", "beam", "head", "floor", "tokens", "compare"):
        go_to(app, page)
        assert len(app.info) == 1, page
        assert any(str(each.key).startswith("example ") for each in app.main.button)


def test_every_page_has_an_address_of_its_own_and_a_place() -> None:
    files = {f"pages/{path.name}" for path in (ROOT / "pages").glob("*.py")}
    assert {spec.file for spec in all_pages()} == files
    assert len({spec.path for spec in all_pages()}) == len(all_pages())
    assert all(spec.draw is not Page.draw or spec.whole for spec in all_pages())
    behind = [page for door in DOORS for page, _ in entries_of(door).values()]
    assert {*behind} == {page for page in all_pages() if page.entries}
    assert len(behind) == sum(len(page.entries) for page in all_pages())  # names are unique


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
@pytest.mark.parametrize("page", ["", "tokens", "positions", "complexity"])
def test_charts_are_valid(run_app: RunApp, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def validated(self: Any) -> dict[str, Any]:
        drawn.append(self._chart.to_dict(validate=True))
        return dict(drawn[-1])

    monkeypatch.setattr(layout._Unchecked, "to_dict", validated)
    run_app(at=page, checkpoint="alpha", sentence="The cat sat on the mat.", view="why")
    assert drawn


#: Labels of a page's controls, and the glossary's entry for each.
BEAM = {"Beam size": "beam", "Length penalty α": "length penalty", "Model": "checkpoint"}
SAMPLE = {"Temperature": "temperature", "Top k": "top-k", "Top p": "top-p", "Seed": "seed"}


#: Technical terms as texts have them, and the entry that explains each.
ART = {
    r"\bnats\b": "log-probability", r"\blog [pP]\b": "log-probability",
    r"\balpha [\d=]|α": "length penalty", r"\bscore\b": "score", r"`_": "piece",
    r"\bprefix\b": "prefix",
}  # fmt: skip


def texts_of(app: AppTest) -> str:
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


def test_the_doors_keep_their_order_on_every_view_of_a_page() -> None:
    def script() -> None:
        import streamlit as st

        from ui.core import url_state
        from ui.frame.page import all_pages, menu

        for page in all_pages():
            for entry in page.entries:
                url_state.bring(entry.settings)
                shown = menu(page).values()
                st.text("; ".join(one.title for one in shown if one.visibility == "visible"))

    app = AppTest.from_function(script).run(timeout=60)
    assert {each.value for each in app.text} == {"; ".join(DOORS)}


@pytest.mark.parametrize(("name", "verb"), [
    ("gpt-everyday", "Continue"), ("bert-everyday", "Fill in"), ("parsing-gum", "Parse"),
    ("reverse-toy", "Reverse"), ("t5-en-de", "Translate"), ("multi30k-en-de", "Translate"),
])  # fmt: skip
def test_the_button_says_what_the_model_does(run_app: RunApp, name: str, verb: str) -> None:
    app = run_app(ROOT / "checkpoints", at="tokens", checkpoint=name)
    (button,) = [each for each in app.sidebar.button if "sentence_form" in each.proto.form_id]
    assert button.label == verb


def test_the_toy_says_what_it_replaces_and_gives_it_back(run_app: RunApp) -> None:
    app = run_app(ROOT / "checkpoints", at="family", checkpoint="multi30k-en-de", sentence=CAT)
    assert "replaces model and sentence" in app.button(key="door_toy").proto.help
    app.button(key="door_toy").click().run()
    assert app.query_params["checkpoint"] == "reverse-toy"
    app.button(key="undo_toy").click().run()
    assert app.query_params["checkpoint"] == "multi30k-en-de"
    assert app.query_params["sentence"] == CAT
    assert "undo_toy" not in [each.key for each in app.sidebar.button]
