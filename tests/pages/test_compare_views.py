"""Every view of the Compare page, with checkpoints that differ in all that they can differ in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.conftest import ROOT
from tests.pages.links import messages_in as said
from tests.ui.components.test_grid import inflated
from transformer.measures.beam import beam_tree
from transformer.measures.entropy import spread
from transformer.trace.inspection import inspect_head
from transformer.translator import Translator
from ui.compare.sections import SECTIONS
from ui.components.grid import Sheet
from ui.frame.pages import PAGES

RunApp = Callable[..., AppTest]
SHIPPED = ROOT / "checkpoints"
SENTENCE = "A dog runs."

TOPICS = [room.name for room in SECTIONS]

#: What stands beside "everyday-en-de": other pieces and heads, another language, another depth and
#: no common word; and a sentence of another length.
CASES = {
    "multi30k": {"other": "multi30k-en-de"},
    "french": {"other": "everyday-en-fr"},
    "french followed": {"other": "everyday-en-fr", "follow": "on"},
    "letters": {"other": "reverse-toy"},
    "sentences": {"pairing": "sentences", "second": "A dog runs through the snow today."},
}

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def open_page(run_app: RunApp) -> Callable[..., AppTest]:
    def opened(**query: str) -> AppTest:
        start = {"checkpoint": "everyday-en-de", "sentence": SENTENCE, "beam": "2"}
        return run_app(SHIPPED, at="compare", **{**start, **query})

    return opened


def messages(app: AppTest, component: str) -> list[tuple[dict[str, Any], bytes]]:
    """Return header and body of the components of a name, in the page's order."""
    found = []
    for element in app.main.get("bidi_component"):
        proto = element.proto
        if proto.component_name != component:
            continue
        end = 4 + int.from_bytes(proto.bytes[:4], "little")
        found.append((json.loads(proto.bytes[4:end]), proto.bytes[end:]))
    return found


def trace_of(name: str, **given: Any) -> Any:
    return Translator.load(SHIPPED / name, "cpu").trace(SENTENCE, **{"beam_size": 2, **given})


def test_views_are_called_after_the_pages(open_page: Callable[..., AppTest]) -> None:
    names = open_page().segmented_control(key="topic_widget").options
    assert len(names) == len(TOPICS)
    titles = [spec.title for spec in PAGES if spec.title in names]
    assert len(titles) >= 6 and names[: len(titles)] == titles


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.replace(" ", "-"))
def test_every_view_works_or_says_why(open_page: Callable[..., AppTest], case: str) -> None:
    app = open_page(**CASES[case])
    for topic in TOPICS:
        app.segmented_control(key="topic_widget").set_value(topic).run()
        assert not app.exception and not app.error
        assert app.query_params.get("topic", topic) == topic
        shown = len(app.main.get("bidi_component")) + len(app.main.table)
        charts = len(app.main.get("plotly_chart"))
        assert shown + charts > 2 or app.main.info  # the translations are two
        if topic in ("steps", "head", "tokens", "positions"):
            assert app.get("download_button")
            links = [each.proto.label for each in app.main.get("page_link")]
            assert [label[:4] for label in links] == ["A on", "B on"]


def test_both_players_stand_at_one_step_and_one_of_them_has_the_buttons(
    open_page: Callable[..., AppTest],
) -> None:
    app = open_page(topic="steps", other="multi30k-en-de", step="2", layer="3", head="6")
    headers = [header for header, _ in messages(app, "headlight.player")]
    traces = [trace_of(name) for name in ("everyday-en-de", "multi30k-en-de")]
    assert [header["predicted"] for header in headers] == [
        list(trace.predicted_tokens) for trace in traces
    ]
    assert [header["start"]["step"] for header in headers] == [1, 1]
    assert {header["group"] for header in headers} == {"compare"}
    assert sorted(header["follows"] for header in headers) == [False, True]
    longer = max((0, 1), key=lambda side: (len(traces[side].predicted_tokens), -side))
    assert not headers[longer]["follows"]
    # Head 6 is there on the left only; the component falls back to the mean on the right.
    assert headers[0]["start"]["head"] == 5
    assert headers[1]["shape"][1] == 4


def test_a_step_that_only_one_side_has_is_kept_for_both(
    open_page: Callable[..., AppTest],
) -> None:
    two = {"topic": "steps", "pairing": "sentences", "sentence": "A dog runs through the snow."}
    app = open_page(**two, second="Yes.")
    lengths = [len(header["predicted"]) for header, _ in messages(app, "headlight.player")]
    assert lengths[0] > lengths[1]
    app = open_page(**two, second="Yes.", step=str(lengths[0]))
    headers = [header for header, _ in messages(app, "headlight.player")]
    assert [header["start"]["step"] for header in headers] == [lengths[0] - 1] * 2
    assert [header["follows"] for header in headers] == [False, True]


def test_both_trees_are_those_of_the_searches(open_page: Callable[..., AppTest]) -> None:
    app = open_page(topic="beam", other="everyday-en-fr", node_a="1.2", dropped="on")
    shown = messages(app, "headlight.tree")
    assert len(shown) == 2
    for (header, _), name in zip(shown, ("everyday-en-de", "everyday-en-fr"), strict=True):
        tree = beam_tree(trace_of(name))
        assert header["step"] == [node.step for node in tree.nodes]
        assert header["single"] and header["start"]["dropped"]
    tree = beam_tree(trace_of("everyday-en-de"))
    node = tree.find(0, 1)
    assert node is not None and shown[0][0]["start"]["a"] == node.index
    assert f"A · step 1: `{node.token}`" in said(app)
    total = app.main.table[0].value["value"].iloc[1].replace("\\", "")
    assert total == f"{node.total:.3f}".replace("-", "−")


def test_a_side_that_follows_has_no_tree_and_says_how_to_get_one(
    open_page: Callable[..., AppTest],
) -> None:
    app = open_page(topic="beam", other="everyday-en-fr", follow="on")
    assert len(messages(app, "headlight.tree")) == 1
    assert "No search to show: B follows A’s translation" in said(app)


def test_a_head_of_each_is_that_of_each_model(open_page: Callable[..., AppTest]) -> None:
    app = open_page(
        topic="head", other="multi30k-en-de", kind="encoder_self", layer="2", head="3",
        other_layer="4", other_head="1", query="2", key="1",
    )  # fmt: skip
    shown = messages(app, "headlight.stages")
    places = (("everyday-en-de", 1, 2), ("multi30k-en-de", 3, 0))
    for (_, body), (name, layer, head) in zip(shown, places, strict=True):
        model = Translator.load(SHIPPED / name, "cpu")
        trace = model.trace(SENTENCE, beam_size=2)
        stages = inspect_head(model.model, trace, "encoder_self", layer, head, 1)
        sent = np.frombuffer(body, "<f4")
        at = len(stages.x_query) * (1 + len(stages.x_keys))
        np.testing.assert_allclose(sent[at : at + len(stages.q)], stages.q, atol=1e-5)
        entropy = spread(stages.scaled.weights).entropy
        assert f"entropy {entropy:.2f} bits, dₖ = {len(stages.q)}" in said(app)
    same = trace_of("everyday-en-de").src_tokens == trace_of("multi30k-en-de").src_tokens
    assert same == ("as A" in "\n".join(each.value for each in app.main.caption))


def test_one_query_and_one_key_hold_for_both_where_their_tokens_are_the_same(
    open_page: Callable[..., AppTest],
) -> None:
    app = open_page(topic="head", other="everyday-en-de", kind="cross", query="2", key="3")
    headers = [header for header, _ in messages(app, "headlight.stages")]
    assert headers[0]["query"] == headers[1]["query"]
    assert [header["choice"]["key"] for header in headers] == [2, 2]
    assert not [box for box in app.selectbox if box.key == "head_query_box_B"]
    # Of a sentence of other words each side has its own.
    app = open_page(
        topic="head", pairing="sentences", second="She sleeps.", kind="encoder_self", query="2",
        key="1", other_query="3", other_key="2",
    )  # fmt: skip
    headers = [header for header, _ in messages(app, "headlight.stages")]
    assert [header["choice"]["key"] for header in headers] == [0, 1]
    assert app.selectbox(key="head_query_box_B").value == "3"
    app.selectbox(key="head_query_box_B").set_value("1").run()
    assert not app.exception
    assert app.query_params["other_query"] == "1" and app.query_params["query"] == "2"


def test_layers_and_heads_of_b_are_as_in_a_until_they_are_chosen(
    open_page: Callable[..., AppTest],
) -> None:
    app = open_page(topic="head", other="everyday-en-fr", kind="encoder_self", layer="1", head="2")
    assert app.selectbox(key="head_layer_box_B").value == "same"
    app.selectbox(key="head_head_box_A").set_value("5").run()
    assert "B** · layer 1, head 5" in said(app)
    app.selectbox(key="head_head_box_B").set_value("7").run()
    assert "B** · layer 1, head 7" in said(app) and "A** · layer 1, head 5" in said(app)
    assert app.query_params["other_head"] == "7"


def test_pieces_are_those_of_each_tokenizer(open_page: Callable[..., AppTest]) -> None:
    app = open_page(topic="tokens", other="multi30k-en-de", sentence="An unbelievable 木 dog.")
    shown = [header for header, _ in messages(app, "headlight.cut")]
    for header, name in zip(shown, ("everyday-en-de", "multi30k-en-de"), strict=True):
        reading = Translator.load(SHIPPED / name, "cpu").tokenize("An unbelievable 木 dog.")
        assert [piece["id"] for piece in header["pieces"]][:-1] == list(reading.ids)  # </s>
    table = app.main.table[-1].value
    counts = [len(header["pieces"]) - 1 for header in shown]
    assert [table["A"].iloc[0], table["B"].iloc[0]] == [str(count) for count in counts]
    assert "cut differently" in said(app)
    app.segmented_control(key="tokens_of_widget").set_value("translation").run()
    assert not app.exception
    assert app.query_params["tokens_of"] == "translation"


def test_positions_are_subtracted_where_they_have_the_same_size(
    open_page: Callable[..., AppTest],
) -> None:
    assert "both add exactly the same" in said(open_page(topic="positions", other="everyday-en-fr"))
    app = open_page(topic="positions", other="reverse-toy", positions="40")
    assert "Vectors of 256 and 64 numbers have no difference" in said(app)
    assert app.slider(key="positions_widget").value == 40


def test_the_grid_of_differences_holds_every_head_and_opens_the_chosen_one(
    open_page: Callable[..., AppTest],
) -> None:
    app = open_page(
        topic="maps", beside="differences", kind="encoder_self", other="everyday-en-fr",
        layer="2", head="5",
    )  # fmt: skip
    left, right = (trace_of(name) for name in ("everyday-en-de", "everyday-en-fr"))
    assert left.src_tokens == right.src_tokens
    ((header, body),) = messages(app, "headlight.grid")
    assert header["choice"][:2] == [1, 4]
    assert "A − B: Layer 2, head 5" in said(app)
    sheet = Sheet(np.frombuffer(body, np.uint8), 5, 9)
    inside, maps = inflated(sheet)
    wanted = left.encoder_self - right.encoder_self
    found = (maps[:-1, :-1] / 127.5 - 1) * inside["limit"]
    np.testing.assert_allclose(found, wanted, atol=inside["limit"] / 127.5)
    ((lens, weights),) = messages(app, "headlight.lens")
    assert lens["limit"] > 0
    large = np.frombuffer(weights, "<f4").reshape(wanted.shape[2:])
    np.testing.assert_allclose(large, wanted[1, 4], atol=1e-6)


def test_where_rows_have_no_partner_the_heads_numbers_stand_instead(
    open_page: Callable[..., AppTest],
) -> None:
    app = open_page(topic="maps", beside="differences", kind="cross", other="everyday-en-fr")
    assert "have no partner in the other" in said(app)
    assert "how evenly each head looks" in said(app)
    assert len(app.main.get("vega_lite_chart")) == 2
    app.toggle(key="follow_widget").set_value(True).run()
    assert not app.exception
    assert len(messages(app, "headlight.grid")) == 1


def test_other_head_counts_leave_heads_without_a_cell_and_say_so(
    open_page: Callable[..., AppTest],
) -> None:
    app = open_page(
        topic="maps", beside="differences", kind="encoder_self", other="multi30k-en-de", head="7"
    )
    assert "A 4 layers of 8 and B 4 layers of 4 heads" in said(app)
    ((header, _),) = messages(app, "headlight.grid")
    assert header["choice"][:2] == [None, None]  # the left has a head 7, the right has not


@pytest.mark.parametrize("topic", ["heads", "numbers"])
def test_a_model_of_another_language_is_warned_of_where_it_follows(
    open_page: Callable[..., AppTest], topic: str
) -> None:
    app = open_page(topic=topic, other="everyday-en-fr")
    assert "A writes German and B was trained to write French" in app.main.warning[0].value
    for other in ("multi30k-en-de", "reverse-toy"):
        assert not open_page(topic=topic, other=other).main.warning


def test_following_is_warned_of_in_every_view(open_page: Callable[..., AppTest]) -> None:
    assert not open_page(topic="maps", other="everyday-en-fr").main.warning
    for topic in ("maps", "steps", "tokens"):
        app = open_page(topic=topic, other="everyday-en-fr", follow="on")
        assert "its numbers say little" in app.main.warning[0].value


def test_the_whole_page_of_a_side_is_one_link_away(open_page: Callable[..., AppTest]) -> None:
    app = open_page(topic="head", other="everyday-en-fr", kind="cross", layer="2", head="3")
    links = {each.proto.label[:1]: each.proto for each in app.main.get("page_link")}
    query = {letter: proto.query_string for letter, proto in links.items()}
    assert "checkpoint=everyday-en-de" in query["A"] and "checkpoint=everyday-en-fr" in query["B"]
    assert all(re.search(r"layer=2&head=3", each) for each in query.values())


def test_any_text_can_be_looked_at_in_every_view(open_page: Callable[..., AppTest]) -> None:
    hostile = "<script>alert(1)</script> **bold** :red[x] שלום " + "x" * 60
    for topic in TOPICS:
        if topic != "heads":  # matching is over the examples
            open_page(topic=topic, other="reverse-toy", sentence=hostile)
    assert Path(SHIPPED / "reverse-toy").is_dir()


def test_a_view_opens_where_the_choice_is_now_after_another_one_was_looked_at(
    open_page: Callable[..., AppTest],
) -> None:
    app = open_page(topic="steps", other="everyday-en-fr", step="1", layer="1", head="1")
    before = messages(app, "headlight.player")[0][0]["start"]
    app.segmented_control(key="topic_widget").set_value("head").run()
    app.selectbox(key="head_head_box_A").set_value("3").run()
    app.segmented_control(key="topic_widget").set_value("steps").run()
    assert not app.exception
    after = [header["start"] for header, _ in messages(app, "headlight.player")]
    assert [start["head"] for start in after] == [2, 2]
    assert after[0]["nonce"] > before["nonce"]
    app.toggle(key="units_widget").set_value(True).run()
    assert messages(app, "headlight.player")[0][0]["start"] == after[0]
