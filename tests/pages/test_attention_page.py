import re
from pathlib import Path
from urllib.parse import parse_qsl

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.messages import unpack
from tests.pages.conftest import CAT, RunApp
from tests.pages.links import said
from tests.views import make_view
from transformer.measures.heads import pattern_mask, pattern_share
from transformer.measures.words import word_groups
from transformer.trace.records import Trace
from transformer.translator import Translator
from ui.attention.exhibits import found_exhibit
from ui.core.examples import examples_for
from ui.export.download import source_of, trace_for
from ui.work import desk


@pytest.fixture(scope="module")
def trace(tiny_translator: Translator) -> Trace:
    return tiny_translator.trace(CAT)


def name(app: AppTest) -> str:
    return next(m.value for m in app.markdown if re.match(r"\*\*(Layer|Head|Mean)", m.value))


@pytest.mark.parametrize(
    ("kind", "layer", "head"),
    [("encoder_self", "1", "mean"), ("decoder_self", "1", "3"), ("cross", "mean", "3")],
)
def test_a_link_reopens_any_view_and_its_hidden_mass_is_true(
    open_page: RunApp, trace: Trace, kind: str, layer: str, head: str
) -> None:
    app = open_page(kind=kind, layer=layer, head=head, dim="on")
    maps = trace.attention(kind)  # type: ignore[arg-type]
    chosen = maps if layer == "mean" else maps[:1]
    chosen = chosen if head == "mean" else chosen[:, 2:3]
    # The source ends in </s>, the decoder's input starts with <s>.
    column, token = (0, "<s>") if kind == "decoder_self" else (-1, "</s>")
    hidden = chosen.mean(axis=(0, 1))[:, column].mean()
    assert f"dimming `{token}` hides {hidden:.2f} of the attention" in name(app)


def test_examples_fill_an_empty_page_and_a_click_takes_one(open_page: RunApp) -> None:
    app = open_page(sentence="", prefix="5.6", layer="2")
    chips = [each for each in app.main.button if str(each.key).startswith("example ")]
    assert [each.key.removeprefix("example ") for each in chips] == [
        item.sentence for item in examples_for("alpha").items
    ]
    chips[1].click().run()
    assert not app.exception and not app.info
    assert app.sidebar.text_area[0].value == examples_for("alpha").items[1].sentence
    assert "prefix" not in app.query_params  # another sentence's


def test_chosen_heads_are_combined_under_the_lens(open_page: RunApp, trace: Trace) -> None:
    query = {"display": "matrix", "heads": "1.3-3.1", "map": "heads", "dim": "on", "layer": "mean"}
    app = open_page(**query)
    mean = (trace.cross[0, 2] + trace.cross[2, 0]) / 2
    hidden = mean[:, -1].mean()
    assert name(app).startswith("**Mean of heads 1")
    assert f"hides {hidden:.2f} of the attention" in name(app)
    app.multiselect(key="heads_widget").set_value([]).run()
    assert name(app).startswith("**Mean over all layers and heads**")
    assert app.query_params["heads"] == "none"
    assert app.query_params["map"] == "cell"
    app.multiselect(key="heads_widget").set_value([(1, 1)]).run()
    assert name(app).startswith("**Head 2")
    assert app.query_params["heads"] == "2.2"
    app.selectbox(key="matrix_head_box").set_value(3).run()
    assert name(app).startswith("**Head 3, mean over layers**")
    assert (app.query_params["map"], app.query_params["head"]) == ("cell", "3")


def test_heads_are_found_by_where_they_look_and_open(open_page: RunApp, trace: Trace) -> None:
    app = open_page(find="previous", find_in="encoder_self-decoder_self-cross")
    n, decoded = len(trace.src_tokens), len(trace.tgt_tokens)
    shares = {
        "Encoder": pattern_share(trace.encoder_self, pattern_mask("previous", n, n, same=True)),
        "Decoder": pattern_share(
            trace.decoder_self,
            pattern_mask("previous", decoded, decoded, same=True, causal=True), causal=True,
        ),
    }  # fmt: skip
    all_of_them = {
        (part, *map(int, at)): share
        for part, values in shares.items() if values is not None
        for at, share in np.ndenumerate(values)
    }  # fmt: skip
    (part, layer, head), share = max(all_of_them.items(), key=lambda each: each[1])
    found = [button for button in app.button if str(button.key).startswith("find_")]
    assert len(found) == 10
    where = f"layer {layer + 1}, head {head + 1}"
    assert found[0].label == f"{part} {where} puts **{share:.0%}** there"
    app.selectbox(key="find_widget").set_value("next").run()
    assert app.query_params["find"] == "next"
    best = next(button for button in app.button if str(button.key).startswith("find_"))
    layer, head = re.findall(r"\d+", best.label)[:2]
    best.click().run()
    assert name(app) == f"**Layer {layer}, head {head}**"
    assert app.query_params["kind"] == "encoder_self"


def test_a_measure_from_outside_is_in_the_list_the_table_and_the_files(
    open_page: RunApp, trace: Trace, random_checkpoints: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("HEADLIGHT_MEASURES", "my_heads")
    (tmp_path / "my_heads.py").write_text(
        "from headlight import register_measure\n\n"
        "def peak(maps):\n    return 2 * maps.max(-1).mean(-1)\n\n"
        "register_measure('*peak*', peak)\nregister_measure('bad', lambda maps: maps[5])\n"
    )
    app = open_page(find="*peak*", kind="cross", display="grid")
    values = 2 * trace.cross.max(-1).mean(-1)
    layer, head = divmod(int(values.argmax()), values.shape[1])
    found = [button for button in app.button if str(button.key).startswith("find_")]
    assert found[0].label == f"Layer {layer + 1}, head {head + 1} has **{values.max():.2f}**"
    (charts, files) = (app.main.get("vega_lite_chart"), app.main.get("download_button"))
    assert len(charts) == 1 and len(files) == 21
    assert "*peak* (your measure)" in app.selectbox(key="find_widget").options
    sent = [unpack(each.proto.bytes)[0] for each in app.main.get("bidi_component")]
    (under,) = [each["does"]["cross"] for each in sent if "does" in each]
    assert [layer, head, f"{values.max():.2f}", f"*peak*: {values.max():.4g}."] in under
    assert len(under) == values.size
    view = make_view(random_checkpoints / "alpha", CAT)
    made = found_exhibit(trace_for(view), source_of(view), "*peak*", kind="cross")
    assert made.snippet.startswith("import my_heads\n")
    np.testing.assert_allclose(made.arrays["values"], values, rtol=1e-5)
    app.selectbox(key="find_widget").set_value("bad").run()
    assert [each.value for each in app.error] and "failed" in app.error[0].value
    assert app.main.get("vega_lite_chart") == [] and name(app)
    monkeypatch.setenv("HEADLIGHT_MEASURES", "nowhere")
    assert "failed to import" in open_page(find="first").error[0].value
    monkeypatch.setenv("HEADLIGHT_PUBLIC", "1")
    assert "*peak* (your measure)" not in open_page(find="first").selectbox(
        key="find_widget"
    ).options  # fmt: skip


def test_a_chosen_token_is_found_from_a_chosen_token(open_page: RunApp, trace: Trace) -> None:
    app = open_page(kind="cross", display="heads", find="pair", queries="4", keys="2")
    best = divmod(int(trace.cross[:, :, 3, 1].argmax()), trace.cross.shape[1])
    found = next(button for button in app.button if str(button.key).startswith("find_"))
    assert found.label.startswith(f"Layer {best[0] + 1}, head {best[1] + 1} puts")
    found.click().run()
    assert app.query_params["heads"] == f"{best[0] + 1}.{best[1] + 1}"
    key = app.selectbox(key="find_key_box")
    key.set_value(0).run()
    assert (app.query_params["queries"], app.query_params["keys"]) == ("4", "1")
    app.selectbox(key="find_widget").set_value("next").run()  # cross-attention cannot have it
    assert not app.exception


def test_words_are_sums_over_keys_and_means_over_queries(open_page: RunApp, trace: Trace) -> None:
    app = open_page(display="matrix", units="words", keys="1", queries="none")
    groups = word_groups(trace.src_tokens, trace.src_special)
    assert app.multiselect(key="keys_widget").value == [0]
    values = trace.cross[..., list(groups[0])].sum(axis=-1)
    rows = word_groups(trace.tgt_tokens, trace.tgt_special)
    by_word = np.stack([values[..., list(row)].mean(axis=-1) for row in rows], axis=-1)
    assert f"the mean is {by_word.mean():.0%}." in said(app)
    # A word is chosen with all of its pieces, and tokens show them all.
    app.multiselect(key="keys_widget").set_value([1]).run()
    assert app.query_params["keys"] == "-".join(str(at + 1) for at in groups[1])
    app.toggle(key="units_widget").set_value(False).run()
    assert len(app.multiselect(key="keys_widget").value) == len(groups[1])
    assert app.query_params["units"] == "tokens"


@pytest.mark.parametrize(("query", "label", "asks"), [
    ({"layer": "2", "head": "3"}, "Open this head", {"layer": "2", "head": "3"}),
    ({"map": "heads", "heads": "3.1-1.2"}, "Open layer 3, head 1", {"layer": "3", "head": "1"}),
    ({"display": "matrix", "layer": "1", "head": "1", "queries": "3-5"},
     "Open this head", {"query": "3"}),
])  # fmt: skip
def test_the_head_on_screen_can_be_opened(
    open_page: RunApp, query: dict[str, str], label: str, asks: dict[str, str]
) -> None:
    links = [each.proto for each in open_page(kind="decoder_self", **query).get("page_link")]
    (link,) = (each for each in links if each.label.startswith("Open "))
    assert link.label == label
    asked = dict(parse_qsl(link.query_string))
    wanted = {"kind": "decoder_self", "sentence": CAT, "checkpoint": "alpha", **asks}
    assert {name: asked.get(name) for name in wanted} == wanted


def test_stopped_work_waits_until_something_else_is_asked_for(
    open_page: RunApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "_PATIENCE", -1)
    monkeypatch.setattr(desk, "_MOVING", 0)
    app = open_page(sentence="A dog ran and a dog sat.")
    app.button(key="stop_work").click().run()
    for _ in range(2):
        assert [each.value for each in app.info] == ["Stopped."]
        app.run()
    app.segmented_control(key="door_entry").set_value("Matrix").run()
    assert not app.info and app.query_params["display"] == "matrix"
