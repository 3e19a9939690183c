import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from streamlit.testing.v1 import AppTest

from tests.pages.conftest import CAT, ROOT, RunApp
from tests.pages.links import messages, written
from tests.pages.links import messages_in as said
from tests.tiny_models import uneven_model
from transformer.checkpoint.folder import save_checkpoint
from transformer.measures.compare import assign, divergence, head_agreements
from transformer.text.tokenizer import Tokenizer
from transformer.translator import Translator
from ui.attention import views
from ui.compare import views as own_views
from ui.compare.attention import DISPLAYS
from ui.compare.choice import sections
from ui.components.packing import Component

SHORT = "A dog runs."
EXAMPLE = "The animal didn't cross the street because it was too tired."
HOSTILE = "<script>x</script> **b** :red[x] שלום"
SHIPPED = ROOT / "checkpoints"
EN_DE, EN_FR, CAPTIONS = "everyday-en-de", "everyday-en-fr", "multi30k-en-de"
TOPICS = [*sections()]

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def root(
    random_checkpoints: Path, tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Tokenizer
) -> Path:
    """Two equal models, one with other depths and heads, one with NaN weights."""
    found = tmp_path_factory.mktemp("compare")
    for name in ("alpha", "beta", "nan"):
        shutil.copytree(random_checkpoints / "alpha", found / name)
    shutil.copytree(random_checkpoints / "cut", found / "cut")
    weights = load_file(found / "nan" / "model.safetensors")
    save_file({name: each * float("nan") for name, each in weights.items()},
              found / "nan" / "model.safetensors")  # fmt: skip
    save_checkpoint(found / "other", uneven_model(tiny_tokenizer), tiny_tokenizer)
    return found


@pytest.fixture
def few_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_views, "sentences_for", lambda setup: (SHORT,))


@pytest.fixture
def open_shipped(open_page: RunApp) -> RunApp:
    start = {"checkpoint": EN_DE, "sentence": SHORT, "beam": "2"}
    return lambda at="compare", **given: open_page(at, root=SHIPPED, **{**start, **given})


def turn_to(app: AppTest, topic: str, control: str = "topic") -> None:
    app.selectbox(key=f"{control}_widget").set_value(topic).run()
    assert not app.error


def trace_of(name: str, **given: Any) -> Any:
    return Translator.load(SHIPPED / name, "cpu").trace(SHORT, **{"beam_size": 2, **given})


def test_it_opens_with_another_checkpoint_beside_the_first(open_page: RunApp, root: Path) -> None:
    app = open_page(scored="on")
    assert app.selectbox(key="other_widget").value == "beta"
    trace = Translator.load(root / "alpha", "cpu").trace(CAT)
    assert written(app).count(trace.text or "(empty)") == 2
    assert f"score {trace.score:.3f}".replace("-", "−") in said(app)


@pytest.mark.parametrize(("query", "second"), [
    ({"other": "alpha", "kind": "cross"}, ""),
    ({"pairing": "sentences", "kind": "decoder_self"}, CAT),  # no example
    ({"pairing": "sentences", "kind": "encoder_self", "units": "words", "sentence": EXAMPLE},
     EXAMPLE.replace("animal", "bird")),
])  # fmt: skip
def test_an_example_has_its_counterpart_and_the_same_differs_by_nothing(
    open_page: RunApp, query: dict[str, str], second: str
) -> None:
    app = open_page(beside="difference", **query)
    assert [box.value for box in app.main.text_input] == [second] * bool(second)
    wanted = "at the same position" if "bird" in second else "All weights are equal on both"
    assert wanted in said(app)


def test_it_opens_on_the_head_that_differs_most(open_shipped: RunApp) -> None:
    app = open_shipped(sentence=EXAMPLE)
    model = Translator.load(SHIPPED / EN_DE, "cpu")
    one, other = (
        model.trace(text, beam_size=2) for text in (EXAMPLE, EXAMPLE.replace("animal", "bird"))
    )
    row = one.predicted_tokens.index("▁es")
    apart = np.abs(one.cross - other.cross)[:, :, row]
    layer, head, key = np.unravel_index(apart.argmax(), apart.shape)
    assert f"**A** · Cross-attention, layer {layer + 1}, head {head + 1}" in said(app)
    for letter, trace, word in (("A", one, "es"), ("B", other, "er")):
        share = f"{trace.cross[layer, head, row, key]:.0%}"
        assert f"“_{word}”**, {letter} puts **{share}** on “_it”" in said(app).replace("\\", "")
    app.selectbox(key="layer_widget").set_value("1").run()
    assert "head" in app.query_params and app.query_params["layer"] == "1"


def test_a_second_sentence_is_typed_and_belongs_to_the_first(open_page: RunApp) -> None:
    app = open_page(pairing="sentences", kind="encoder_self", beside="difference")
    app.text_input(key="second_widget").set_value("A dog runs across the grass, a dog.").run()
    assert app.query_params["second"] == "A dog runs across the grass, a dog."
    assert re.search(r"The sources have \d+ and \d+ words", said(app))
    app.text_area(key="sentence_box").set_value("A dog.")
    next(each for each in app.sidebar.button if each.label == "Translate").click()
    app.run()
    assert app.text_input(key="second_widget").value == "A dog."
    assert "second" not in app.query_params
    app.text_input(key="second_widget").set_value("").run()
    again = open_page(**dict(app.query_params))
    assert "Type a second sentence" in said(app) and "Type a second sentence" in said(again)


def test_one_query_stands_out_on_both(open_page: RunApp, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Component[tuple[object, object]]] = []
    monkeypatch.setattr(views, "show", lambda component, **_: drawn.append(component))
    open_page(other="other", beside="lines", kind="encoder_self", heads="1.1-1.2")
    one, two = drawn
    assert one.header["query_tokens"] == two.header["query_tokens"]
    assert one.header["lead"] == two.header["lead"] and one.body != two.body


def test_a_translation_is_followed_so_that_rows_line_up(open_page: RunApp, root: Path) -> None:
    app = open_page(other="other", kind="cross", beside="difference")
    assert "cannot be paired" in said(app) and app.button("to_follow")
    app.toggle(key="follow_widget").set_value(True).run()
    assert app.query_params["follow"] == "on"
    left = Translator.load(root / "alpha", "cpu").trace(CAT)
    right = Translator.load(root / "other", "cpu").trace(CAT, target=left.text)
    means = [each.cross.mean(axis=(0, 1), dtype="f8").astype("f4") for each in (left, right)]
    assert f"**{divergence(*means).mean():.3f} bits**" in said(app)


@pytest.mark.usefixtures("few_sentences")
def test_heads_are_matched_and_a_pair_is_chosen(open_page: RunApp) -> None:
    app = open_page(other="other", topic="heads", kind="encoder_self")
    assert "**5 pairs of heads" in said(app)  # of six heads and five
    box = app.selectbox(key="compare_pair_box")
    box.select_index(4).run()
    pair = re.search(r"A (\d)\.(\d) and B (\d)\.(\d)", box.options[4])
    assert pair is not None and len(box.options) == 5
    wanted = dict(zip(("layer", "head", "other_layer", "other_head"), pair.groups(), strict=True))
    assert wanted.items() <= app.query_params.items()
    turn_to(app, "maps")
    assert app.selectbox(key="other_head_widget").value == wanted["other_head"]


def test_numbers_are_those_of_both_models(open_page: RunApp, root: Path) -> None:
    app = open_page(other="other", topic="numbers")
    left, right = (Translator.load(root / name, "cpu") for name in ("alpha", "other"))
    own, there = left.trace(CAT), right.trace(CAT)
    followed = right.trace(CAT, target=own.text)
    shown = app.main.table[0].value
    for column, row, trace in (("by A", 0, own), ("by B", 0, followed), ("by B", 1, there)):
        number = shown[column].iloc[row].split(" ")[0].replace("−", "-")
        assert float(number) == pytest.approx(float(trace.log_probs.sum()), abs=0.006)
    alike = head_agreements(own, followed)["encoder_self"].values
    matched = sum(alike[pair] for pair in assign(alike)) / min(alike.shape)
    shown = app.main.table[1].value
    assert float(shown["heads, matched"].iloc[0]) == pytest.approx(matched, abs=0.0006)


@pytest.mark.parametrize(("name", "why"), [
    ("cut", "`cut` cannot be used; B is beta"), ("gone", "`gone` is not installed; B is beta"),
    ("nan", "Choose another model for B"),  # seen only while it is loaded
])  # fmt: skip
def test_a_broken_checkpoint_leaves_the_page_usable(open_page: RunApp, name: str, why: str) -> None:
    app = open_page(other=name)
    assert why in said(app)
    assert (name in app.selectbox(key="other_widget").options) == (name == "nan")
    app.selectbox(key="other_widget").set_value("beta").run()
    assert not app.error


#: What stands beside "everyday-en-de": another language, another depth and no common word, a
#: sentence of another length.
CASES = {
    "french": {"other": EN_FR},
    "letters": {"other": "reverse-toy", "sentence": HOSTILE},
    "sentences": {"pairing": "sentences", "second": "A dog runs through the snow today."},
}


@pytest.mark.usefixtures("few_sentences")
@pytest.mark.parametrize("case", CASES)
def test_every_view_works_or_says_why(open_shipped: RunApp, case: str) -> None:
    app = open_shipped(**CASES[case])
    for topic in TOPICS:
        turn_to(app, topic)
        assert app.query_params.get("topic", topic) == topic
        shown = len(app.main.get("bidi_component")) + len(app.main.table)
        charts = len(app.main.get("plotly_chart"))
        assert shown + charts > 2 or app.main.info  # the translations are two
        # Another language is warned of where it is followed.
        assert bool(app.main.warning) == (case == "french" and topic in ("heads", "numbers"))
        if topic in ("steps", "head", "tokens", "positions"):
            assert app.get("download_button")
            links = [each.proto.label for each in app.main.get("page_link")]
            why = ["Why "] * (case == "sentences")  # one model made both translations
            assert [label[:4] for label in links] == ["A on", "B on", *why]


def test_players_stand_at_one_step_and_the_longer_one_leads(open_shipped: RunApp) -> None:
    app = open_shipped(topic="steps", other=CAPTIONS, step="2", layer="3", head="6")
    headers = [header for header, _ in messages(app, "player")]
    for header, name in zip(headers, (EN_DE, CAPTIONS), strict=True):
        assert header["predicted"] == list(trace_of(name).predicted_tokens)
        assert header["choice"]["step"] == 2 and header["group"] == "compare"
    # Head 6 is there on the left only; the component falls back to the mean on the right.
    assert headers[0]["choice"]["head"] == 6 and headers[1]["shape"][1] == 4
    long = {"topic": "steps", "pairing": "sentences", "sentence": "A dog runs through the snow."}
    app = open_shipped(**long, second="Yes.", step="7")
    headers = [header for header, _ in messages(app, "player")]
    assert len(headers[0]["predicted"]) >= 7 > len(headers[1]["predicted"])
    assert [header["choice"]["step"] for header in headers] == [7] * 2
    assert [header["follows"] for header in headers] == [False, True]


def test_query_and_key_are_each_sides_own_where_their_tokens_differ(open_shipped: RunApp) -> None:
    app = open_shipped(
        topic="head", pairing="sentences", second="She sleeps.", kind="encoder_self", query="2",
        key="1", other_query="3", other_key="2",
    )  # fmt: skip
    assert [header["choice"]["key"] for header, _ in messages(app, "stages")] == [0, 1]
    app.selectbox(key="head_query_box_B").set_value("1").run()
    assert app.query_params["other_query"] == "1" and app.query_params["query"] == "2"


def test_layers_and_heads_of_b_are_as_in_a_until_they_are_chosen(open_shipped: RunApp) -> None:
    app = open_shipped(topic="head", other=EN_FR, kind="encoder_self", layer="1", head="2")
    assert app.selectbox(key="other_layer_widget").value == "same"
    app.selectbox(key="head_widget").set_value("5").run()
    assert "B** · layer 1, head 5" in said(app)
    app.selectbox(key="other_head_widget").set_value("7").run()
    assert "B** · layer 1, head 7" in said(app) and "A** · layer 1, head 5" in said(app)
    assert app.query_params["other_head"] == "7"
    query = [each.proto.query_string for each in app.main.get("page_link")]
    assert "layer=1&head=5" in query[0] and f"checkpoint={EN_DE}" in query[0]
    assert "layer=1&head=7" in query[1] and f"checkpoint={EN_FR}" in query[1]


def test_positions_are_of_each_page_or_subtracted(open_shipped: RunApp) -> None:
    assert "all position vectors are equal" in said(open_shipped(topic="positions", other=EN_FR))
    beside = open_shipped(topic="positions", other="reverse-toy", positions="20")
    assert "256 and 64 dimensions" in said(beside)
    chart = beside.main.get("plotly_chart")[1]
    alone = open_shipped("positions", checkpoint="reverse-toy", positions="20")
    one, other = (
        json.loads(each.proto.spec)["data"][0]["z"]
        for each in (chart, alone.main.get("plotly_chart")[0])
    )
    assert one == other


def test_a_view_opens_where_the_choice_is_now_after_another_one(open_shipped: RunApp) -> None:
    app = open_shipped(topic="steps", other=EN_FR, step="1", layer="1", head="1")
    turn_to(app, "head")
    app.selectbox(key="head_widget").set_value("3").run()
    turn_to(app, "steps")
    after = [header["choice"] for header, _ in messages(app, "player")]
    assert [choice["head"] for choice in after] == [3, 3]
    app.toggle(key="units_widget").set_value(True).run()
    assert messages(app, "player")[0][0]["choice"] == after[0]


#: A page, the component in which it and both sides of Compare show their numbers, and settings.
SAME: dict[str, tuple[str, dict[str, str]]] = {
    "translate": ("player", {"step": "2", "layer": "2", "head": "3", "kind": "cross"}),
    "beam": ("tree", {"dropped": "on"}),
    "attention": (
        "lens", {"kind": "encoder_self", "layer": "2", "head": "3", "units": "words"},
    ),
    "head": (
        "stages", {"kind": "encoder_self", "layer": "2", "head": "3", "query": "2", "key": "3"},
    ),
    "tokens": ("cut", {"tokens_of": "source", "token": "7"}),
}  # fmt: skip

#: Keys that depend on where a component is: on a page alone, or beside another.
PLACE = {
    "asks", "changed", "follows", "foot", "group", "label", "max_height", "never", "paired",
    "ringed", "session", "single", "steerable",
}  # fmt: skip


def numbers(message: tuple[dict[str, Any], bytes]) -> tuple[dict[str, Any], bytes]:
    """Return a message without keys that differ between a page and Compare."""
    header, body = message
    kept = {name: value for name, value in header.items() if name not in PLACE}
    if isinstance(kept.get("choice"), dict):
        kept["choice"].pop("b", None)  # a tree beside another has one node only
    return kept, body


@pytest.mark.parametrize("page", SAME)
def test_a_side_shows_the_numbers_of_its_own_page(open_shipped: RunApp, page: str) -> None:
    component, settings = SAME[page]
    topic = next(name for name, section in sections().items() if section.page.path == page)
    # Both sides of Compare decode alike; alone, each checkpoint has defaults of its own.
    shared = {"alpha": "0.6", **settings}
    beside = open_shipped(other=CAPTIONS, topic=topic, **shared)
    sides = messages(beside, component)
    for letter, name, shown in zip("AB", (EN_DE, CAPTIONS), sides, strict=True):
        more = {}
        if page == "beam":
            more = {"a": beside.query_params[f"node_{letter.lower()}"]}
        elif page == "tokens" and letter == "B":
            shown[0]["choice"] = 7  # B follows a piece of its own, none here
        at = "" if page == "translate" else page
        alone = open_shipped(at, checkpoint=name, **shared, **more)
        assert numbers(shown) == numbers(messages(alone, component)[0])


#: Views that need more than attention.
INSIDE = {"beam": "keeps no record", "head": "queries, keys, values", "positions": "Headlight"}


@pytest.mark.usefixtures("few_sentences")
@pytest.mark.filterwarnings("ignore")  # those of transformers
@pytest.mark.parametrize(("left", "right"), [
    ("alpha", "t5"), ("gpt2", "alpha"), ("bert", "gpt2"), ("both.npz", "bert"),
])  # fmt: skip
def test_models_of_other_libraries_are_compared_or_say_why(
    run_app: RunApp, kinds: Path, left: str, right: str
) -> None:
    pytest.importorskip("transformers")
    query = {"checkpoint": left, "other": right, "sentence": SHORT, "beam": "2"}
    app = run_app(kinds, at="compare", **query)
    if left.endswith(".npz"):
        assert app.segmented_control(key="pairing_widget").options == ["Two models"]
    foreign = ["AB"[side] for side, name in enumerate((left, right)) if name != "alpha"]
    components = {"beam": "tree", "head": "stages", "tokens": "cut"}
    for topic in TOPICS:
        turn_to(app, topic)
        shown = len(messages(app, components[topic])) if topic in components else 0
        if topic in INSIDE:
            infos = [each.value.replace("\\", "") for each in app.main.info]
            reasons = [text for text in infos if text.startswith(("**A", "**B"))]
            assert [text[2] for text in reasons] == foreign
            assert "alpha" not in query.values() or all(INSIDE[topic] in t for t in reasons)
            assert topic == "positions" or shown == 2 - len(foreign)
            assert bool(app.main.get("download_button")) == (len(foreign) < 2)
        assert topic != "tokens" or shown == 2
    turn_to(app, "maps")
    if not (boxes := [box for box in app.selectbox if box.key == "beside_widget"]):
        assert "no kind of attention in common" in said(app)
        return
    for display in [name for name in DISPLAYS if DISPLAYS[name][0] in boxes[0].options]:
        turn_to(app, display, "beside")
