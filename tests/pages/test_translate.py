import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from figures.labels import query_labels, show_token
from tests.forks import ROOT
from tests.pages.conftest import CAT, RunApp
from tests.pages.links import ask, messages, press, trace_of, unlinked, view_of, written
from tests.pages.links import said as said_of
from transformer.measures.beam import beam_tree
from transformer.search.rules import Sampling
from transformer.trace.records import Trace
from transformer.translator import Translator
from ui.core.examples import examples_for
from ui.translate import views
from ui.translate.views import table
from ui.work import results
from ui.work.lru import Lru

CHECKPOINTS = ROOT / "checkpoints"


def said(app: AppTest) -> str:
    messages = (*app.info, *app.warning, *app.error)
    return "\n".join(message.value for message in messages).replace("\\", "")


def translation(app: AppTest) -> str:
    return re.sub("<.?u>", "", written(app)[-1])


def test_the_page_translates_as_the_translator(
    run_app: RunApp, tiny_translator: Translator
) -> None:
    app = run_app(beam="3", alpha="1")
    trace = trace_of(app)
    assert examples_for("alpha").items[0].sentence in written(app)
    header, body = messages(app, "player")[0]
    assert header["predicted"] == list(trace.predicted_tokens)
    weights = np.frombuffer(body, "<u2")[: trace.cross.size].reshape(header["shape"]) / 65535
    np.testing.assert_allclose(weights, trace.cross, atol=1e-5)
    assert header["gap"] is not None and float(header["gap"]) < 1e-5
    ask(app, CAT)
    expected = tiny_translator.trace(CAT, beam_size=3, alpha=1.0)
    assert messages(app, "player")[0][0]["predicted"] == list(expected.predicted_tokens)
    score = f"score {expected.score:.2f} nats (beam 3, α 1)".replace("-", "−")
    assert any(score in unlinked(caption.value) for caption in app.main.caption)


def test_too_large_a_search_is_said(run_app: RunApp, monkeypatch: pytest.MonkeyPatch) -> None:
    app = run_app(sentence="abc")
    assert "left out" not in app.main.caption[-1].value
    monkeypatch.setattr("ui.work.results.CACHE", Lru(1000))
    app = run_app(sentence="abc")
    assert "How it chose cannot show its tree" in app.main.caption[-1].value
    header, _ = messages(app, "player")[0]
    assert header["origin"] == "Recorded live"
    assert header["gap"] is not None  # measured before it was left out


#: Sentences, and a part of the message that each gets.
BAD_INPUT = (
    (" \n\t\u3000\x01\u200b ", "Nothing to read"),
    ("word " * 2000, "at most 512"),
    ("ab" * 10_000, "at most 10,000"),
    ("漢字", "`漢字`"),
    ("A dog 🐕 runs.", "`🐕`"),
    ("<script>alert(1)</script> הכלב", "`<`"),
    ("`` a ` b ``", "does not know"),
    ("A\x00 d\u0300\u0301\u202eog\x1b\u200d\ufeff runs.\r\nFast.", ""),
)


def test_any_input_gets_a_clear_message_or_a_translation(run_app: RunApp) -> None:
    app = run_app()
    for sentence, expected in BAD_INPUT:
        ask(app, sentence)
        quiet = "\n".join(each.value for each in app.main.caption)
        assert expected in said(app) + quiet.replace("\\", ""), sentence[:20]
        assert messages(app, "player") or said(app), sentence[:20]


@pytest.mark.usefixtures("nothing_cached")
def test_sessions_share_traces_and_nothing_else(run_app: RunApp) -> None:
    one = ask(run_app(), "A dog runs.")
    traces = len(results.CACHE)
    other = ask(run_app(), "A dog runs.")
    assert len(results.CACHE) == traces
    assert trace_of(one) is trace_of(other)
    held = one.session_state._state.filtered_state.values()
    assert held
    assert not any(isinstance(value, Trace | np.ndarray | bytes) for value in held)


def components(app: AppTest) -> list[str]:
    shown = [each.proto.component_name for each in app.main.get("bidi_component")]
    return [name for name in shown if name in ("headlight.opening", "headlight.player")]


def test_it_plays_first_and_the_page_follows_behind_it(run_app: RunApp) -> None:
    app = run_app(root=CHECKPOINTS)
    assert components(app) == ["headlight.opening"]
    assert not messages(app, "opening")[0][0]["covers"]
    # What the browser reports; AppTest cannot send it.
    app.session_state["headlight_opening_covers"] = True
    assert components(app.run()) == ["headlight.opening", "headlight.player"]
    scenes = messages(app, "opening")[0][0]["scenes"]
    assert [each["verdict"].split("**")[1] for each in scenes] == ["sie", "er", "es"]
    # The sidebar and the page behind have its sentence, at the step of its pronoun.
    sentence = app.sidebar.text_area(key="sentence_box").value
    assert sentence == view_of(app).sentence == "The cat left the house because it was hungry."
    step = int(app.session_state["headlight_store"]["step"])
    assert trace_of(app).predicted_tokens[step - 1] == "▁sie"
    # A translation ends it, even of the same sentence; it can be replayed.
    app.sidebar.button[0].click().run()
    assert components(app) == ["headlight.player"]
    ask(app, "A dog runs.")
    app.button(key="play_opening").click().run()
    assert components(app) == ["headlight.opening"]
    assert len(messages(app, "opening")[0][0]["scenes"]) == 1
    app.sidebar.selectbox(key="checkpoint_box").set_value("reverse-toy").run()
    assert components(app) == ["headlight.player"]
    assert not [each for each in app.button if each.key == "play_opening"]


def test_a_link_leaves_it_out_or_asks_for_it(run_app: RunApp) -> None:
    assert components(run_app(root=CHECKPOINTS, opening="0")) == ["headlight.player"]
    assert components(run_app(root=CHECKPOINTS, step="2")) == ["headlight.player"]
    asked = run_app(root=CHECKPOINTS, opening="1", checkpoint="everyday-en-fr")
    assert components(asked) == ["headlight.opening"]
    assert messages(asked, "opening")[0][0]["target"]["name"] == "French"
    assert "opening" not in asked.query_params  # a reload does not play it again
    default = examples_for("everyday-en-de").items[0].sentence
    linked = run_app(root=CHECKPOINTS, opening="1", sentence=default)
    assert "opening" not in linked.query_params, "a link's sentence stays, and ends"


def test_a_head_is_of_one_part(run_app: RunApp) -> None:
    def opens_on(**link: str) -> tuple[str, int | None, int | None]:
        choice = messages(run_app(sentence=CAT, **link), "player")[0][0]["choice"]
        return choice["kind"], choice["layer"], choice["head"]

    telling = opens_on()
    assert telling[0] == "cross" and None not in telling
    # It is shown only by pages that have its part.
    assert opens_on(kind="encoder_self", layer="1", head="2") == telling
    assert opens_on(kind="decoder_self", layer="1", head="2") == ("decoder_self", 1, 2)
    assert opens_on(layer="1", head="2") == ("cross", 1, 2)
    assert opens_on(layer="mean", head="mean") == ("cross", None, None)
    # The same session follows a link to another head of the part that it shows already.
    app = run_app(sentence=CAT, kind="cross", layer="1", head="2")
    app.query_params["layer"] = "2"
    app.run()
    choice = messages(app, "player")[0][0]["choice"]
    assert (choice["kind"], choice["layer"], choice["head"]) == ("cross", 2, 2)


def type_steer(app: AppTest, text: str, how: str) -> AppTest:
    app.text_input(key="steer_text").set_value(text)
    (choice,) = [each for each in app.get("button_group") if each.key == "steer_how"]
    choice.set_value(how)
    return press(app, "Decode from there")


def test_steers_can_be_taken_back_one_by_one_or_all_at_once(run_app: RunApp) -> None:
    app = run_app(sentence=CAT)
    free = messages(app, "player")[0][0]["ids"]
    type_steer(app, "Die", "Begins with")
    one = app.query_params["prefix"]
    header, _ = messages(app, "player")[0]
    given = one.split(".")
    assert [str(each) for each in header["ids"][: len(given)]] == given
    assert header["nForced"] == len(given) and not header["forced"]
    assert f"; the first {len(given)} given" in said_of(app)
    type_steer(app, "Das Tier war", "Is exactly")
    assert app.query_params["target"] == "Das Tier war"
    assert "prefix" not in app.query_params
    header, _ = messages(app, "player")[0]
    assert header["forced"] and header["gap"] is None
    assert translation(app) == "Das Tier war"
    press(app, "Undo")
    assert app.query_params["prefix"] == one and "target" not in app.query_params
    press(app, "Start over")
    assert "prefix" not in app.query_params
    assert messages(app, "player")[0][0]["ids"] == free
    press(app, "Undo")
    assert app.query_params["prefix"] == one


def test_another_checkpoint_drops_the_ids_and_keeps_a_text(run_app: RunApp) -> None:
    for steering, kept in (({"prefix": "20.21"}, False), ({"target": "Das Tier"}, True)):
        app = run_app(sentence=CAT, checkpoint="alpha", **steering)
        assert set(steering) <= set(app.query_params)
        app.sidebar.selectbox(key="checkpoint_box").set_value("beta").run()
        assert (set(steering) <= set(app.query_params)) == kept


def test_bad_steering_gets_one_clear_line_and_a_way_back(run_app: RunApp) -> None:
    app = run_app(sentence=CAT, prefix="99999")
    assert "Prefix token 99999 cannot be used" in said(app) and not messages(app, "player")
    press(app, "Start over")
    before = messages(app, "player")[0]
    for text, how, message in (
        ("word " * 700, "Begins with", "at most 512 are allowed"),
        ("  ", "Is exactly", "Type at least one character"),
    ):
        type_steer(app, text, how)
        assert message in said(app) and messages(app, "player")[0] == before
    type_steer(app, "Das Tier", "Is exactly")
    assert not said(app)
    assert translation(app) == app.query_params["target"] == "Das Tier"


def test_the_sidebar_changes_how_to_decode_and_back(run_app: RunApp) -> None:
    app = run_app(sentence=CAT, beam="3")
    (how,) = [each for each in app.sidebar.get("button_group") if each.key == "search_box"]
    how.set_value("Sample").run()
    assert app.query_params["sample"] == "on" and app.query_params["seed"] == "0"
    app.sidebar.slider(key="top_k_box").set_value(3).run()
    app.sidebar.slider(key="temperature_box").set_value(0.5).run()
    app.sidebar.slider(key="top_p_box").set_value(0.9).run()
    press(app, "New seed")
    seed = app.query_params["seed"]
    assert int(seed) > 0
    view = view_of(app)
    assert view.sampling == Sampling(0.5, 3, 0.9, int(seed)) and view.beam_size == 1
    assert f"sampled, temperature 0.5, top k 3, top p 0.9, seed {seed}" in said_of(app)
    trace = trace_of(app)
    assert trace.n_allowed is not None and trace.n_allowed.max() <= 3
    assert messages(app, "player")[0][0]["drawn"] == trace.n_allowed.tolist()
    (how,) = [each for each in app.sidebar.get("button_group") if each.key == "search_box"]
    how.set_value("Beam").run()
    assert app.query_params["sample"] == "off" and app.query_params["beam"] == "3"
    assert "seed" not in app.query_params
    assert trace_of(app).allowed is None


@pytest.mark.parametrize("edit", ["", "off cross.2;skip decoder.3"])
def test_the_decoder_is_read_after_every_layer(
    run_app: RunApp, tiny_translator: Translator, edit: str
) -> None:
    app = run_app(sentence=CAT, view="layers", edit=edit, beam="2")
    trace, (header, _) = trace_of(app), messages(app, "layers")[0]
    assert "play_opening" not in [each.key for each in app.button]
    assert header["columns"] == ["embedding", "layer 1", "layer 2", "layer 3"]
    assert header["rows"] == [show_token(row) for row in query_labels(trace, "cross")]
    for step, row in enumerate(header["cells"]):
        token, probability, _, rank, _ = row[-1]  # the model's own
        assert token == show_token(trace.top_tokens[step][0])
        assert probability == pytest.approx(np.exp(trace.top_log_probs[step, 0]), abs=1e-4)
        assert trace.top_ids[step, rank - 1] == trace.predicted_ids[step]
    # The decoder's last layer only passes on what the one before it puts out.
    if edit:
        assert all(row[-1] == row[-2] for row in header["cells"])
    translator = tiny_translator.edited(edit)
    lines = next(each.value for each in app.main.markdown if each.value.startswith("1. "))
    plain_lines = [re.sub(r"[*\\]", "", line)[3:] for line in lines.splitlines()]
    found = translator.from_encoder_layers(CAT, 2)
    assert len(plain_lines) == translator.config.n_encoder_layers
    for line, each in zip(plain_lines, found, strict=True):
        assert line.split("…")[0].strip() == each.text[: len(line.split("…")[0].strip())]
    assert found[-1].text == trace.text


@pytest.mark.parametrize("edit", ["", "off decoder.1.2"])
def test_why_one_token_and_not_another(run_app: RunApp, recorded: Any, edit: str) -> None:
    drawn = recorded(views, "share_bars")
    app = run_app(sentence=CAT, view="why", step="3", edit=edit)
    trace = trace_of(app)
    one, other = (app.selectbox(key=f"why_{name}") for name in ("one", "other"))
    assert [one.value, other.value] == trace.top_ids[2][:2].tolist()
    other.set_value(int(trace.top_ids[2][4])).run()
    pair = app.selectbox(key="why_one").value, app.selectbox(key="why_other").value
    assert app.query_params["why"] == f"{pair[0]}.{pair[1]}"
    difference = trace.top_log_probs[2, 0] - trace.top_log_probs[2, 4]  # as between the logits
    assert f"is **{difference:.2f}** above" in said_of(app)
    app.toggle(key="all_parts_widget").set_value(True).run()
    few, every = (calls["rows"] for calls in drawn[-2:])
    assert len(few) == 11 and len(every) == 3 * (3 + 3 + 1) + 3
    for rows in (few, every):
        assert abs(sum(row["share"] for row in rows)) == pytest.approx(difference, abs=1e-4)
        assert [row["lost"] is None for row in rows] == [False] * 3 + [True] * (len(rows) - 3)
    # The same token twice changes both places; another step has candidates of its own.
    app.selectbox(key="why_one").set_value(pair[1]).run()
    assert app.query_params["why"] == f"{pair[1]}.{pair[0]}"
    app.selectbox(key="why_step_box").set_value(1).run()
    assert "why" not in app.query_params
    assert app.selectbox(key="why_one").value == trace.predicted_ids[1]
    # A head of the list opens.
    head = next(each for each in app.button if each.key.startswith("why "))
    head.click().run()
    number = re.fullmatch(r"Open (self|cross)-attention layer (\d), head (\d)", head.label)
    assert number is not None
    kind = {"self": "decoder_self", "cross": "cross"}[number[1]]
    wanted = {"kind": kind, "layer": number[2], "head": number[3], "query": "2"}
    assert wanted.items() <= app.query_params.items()


def test_a_link_to_tokens_that_the_model_lacks_takes_those_of_the_step(run_app: RunApp) -> None:
    for why in ("3.999999", "5.5", "x.1", "-1.3"):
        app = run_app(sentence=CAT, view="why", step="2", why=why)
        trace = trace_of(app)
        assert app.selectbox(key="why_one").value == trace.predicted_ids[1]
    far = next(n for n in range(5, 100) if n not in trace.top_ids[1])
    app = run_app(sentence=CAT, view="why", step="2", why=f"{far}.{trace.predicted_ids[1]}")
    assert app.selectbox(key="why_one").value == far


def why_links(app: AppTest) -> list[dict[str, str]]:
    found = [each.proto for each in app.main.get("page_link") if each.proto.label.startswith("Why")]
    return [dict(parse_qsl(each.query_string)) for each in found]


def test_how_it_chose_and_compare_lead_to_why(run_app: RunApp) -> None:
    app = run_app(at="beam", sentence=CAT, panel="compare", beam="3")
    tree = beam_tree(trace_of(app))
    (link,) = why_links(app)
    one, other = map(int, link["why"].split("."))
    again = run_app(**link)
    trace, step = trace_of(again), int(link["step"])
    assert again.selectbox(key="why_one").value == one
    prefix = trace.predicted_ids[: step - 1]
    last = [node for node in tree.nodes if node.step == step - 1 and node.token_id in (one, other)]
    assert [tuple(n.token_id for n in tree.prefix(node.parent)) for node in last].count(prefix) == 2
    # A node off the winner's path: the translation begins as its own did.
    away = next(n for n in tree.nodes if n.parent >= 0 and n.parent not in tree.winner)
    app = run_app(at="beam", sentence=CAT, beam="3", a=f"{away.step + 1}.{away.rank + 1}")
    (link,) = why_links(app)
    trace = trace_of(run_app(**link))
    assert trace.predicted_ids[: away.step] == tuple(n.token_id for n in tree.prefix(away.parent))
    app = run_app(at="compare", sentence=CAT, pairing="sentences", second="A dog runs.")
    (link,) = why_links(app)
    again = run_app(**link)
    assert (
        again.selectbox(key="why_one").value == trace_of(again).predicted_ids[int(link["step"]) - 1]
    )
    assert not why_links(run_app(at="compare", sentence=CAT, other="beta"))


@pytest.mark.parametrize("view", ["layers", "why"])
def test_a_model_without_these_views_says_so(run_app: RunApp, kinds: Path, view: str) -> None:
    pytest.importorskip("transformers")
    for name in ("t5", "both.npz"):
        app = run_app(kinds, checkpoint=name, sentence=CAT, view=view)
        assert len(app.info) == 1 and "\n" not in app.info[0].value
        assert not messages(app, "layers") and not messages(app, "player")


def test_source_or_prefix_waits_for_its_switch(run_app: RunApp) -> None:
    app = run_app(sentence=CAT)
    assert not app.main.get("vega_lite_chart")
    n = len(app.main.caption)
    app.toggle(key="sources_widget").set_value(True).run()
    assert app.query_params["sources"] == "on" and len(app.main.get("vega_lite_chart")) == 1
    text = "\n".join(element.value for element in app.main.markdown)
    assert "from the source" in text and "holds here" not in text  # this model is not shipped
    assert len(app.main.caption) == n + 1 and "absolute" in app.main.caption[-1].value
    app = run_app(root=CHECKPOINTS, checkpoint="multi30k-en-de", sentence=CAT, sources="on")
    text = "\n".join(element.value for element in app.main.markdown)
    assert table(["multi30k-en-de"]) in text and "after a wrong first token" in text


def test_source_or_prefix_says_what_it_needs(run_app: RunApp, kinds: Path) -> None:
    app = run_app(root=kinds, checkpoint="both.npz", sources="on")
    switch = app.toggle(key="sources_widget")
    assert switch.disabled and switch.help and not app.main.get("vega_lite_chart")
