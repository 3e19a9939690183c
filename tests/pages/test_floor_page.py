from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pages.conftest import CAT, RunApp
from tests.pages.links import said
from tests.tiny_models import random_model
from transformer.checkpoint.folder import save_checkpoint
from transformer.config import ModelConfig
from transformer.text.tokenizer import Tokenizer
from transformer.translator import Translator
from ui.components import plan
from ui.components.plan import BLOCKS, Opened, PlanChoice
from ui.floor import views


@pytest.fixture
def drawn(recorded: Any) -> list[dict[str, Any]]:
    return recorded(views, "plan_component")


def test_a_link_opens_on_any_network(open_page: RunApp, drawn: list[dict[str, Any]]) -> None:
    app = open_page()
    assert drawn[-1]["chosen"].layer == 2 and drawn[-1]["chosen"].block == "decoder_ffn"
    assert "decoder layer 3" in said(app)
    assert len(app.main.get("vega_lite_chart")) == 2
    query = {"layer": "3", "source": "2", "step": "1", "block": "encoder_ffn"}
    app = open_page(**query)
    assert drawn[-1]["chosen"] == PlanChoice(2, 1, 0, "encoder_ffn")
    assert ({**query, "floor": "3"}.items() - {("layer", "3")}) <= app.query_params.items()
    assert "Neurons of encoder layer 2" in said(app)  # it has two only
    assert len(app.main.get("vega_lite_chart")) == 1


def test_the_stream_s_view_and_the_choice_in_the_drawing(open_page: RunApp) -> None:
    app = open_page(layer="1", source="99", step="99")
    app.segmented_control(key="block_widget").set_value("decoder_stream").run()
    assert len(app.main.get("vega_lite_chart")) == 2
    assert app.query_params["block"] == "decoder_stream"


@pytest.mark.parametrize(("page", "kind"), [("attention", "cross"), ("head", "encoder_self")])
def test_a_block_opens_its_page(
    open_page: RunApp, monkeypatch: pytest.MonkeyPatch, page: str, kind: str
) -> None:
    gone: list[str] = []
    app = open_page(source="2")
    opened = Opened(page, "encoder", kind, 1, 2)
    real = views.show

    def click(*args: Any, **settings: Any) -> None:
        settings["on_open_change"]()
        real(*args, **settings)

    monkeypatch.setattr(views, "parse_opened", lambda *_: opened)
    monkeypatch.setattr(views, "show", click)
    app.run()
    monkeypatch.setattr(views, "show", real)
    monkeypatch.setattr(views.st, "switch_page", gone.append)
    app.run()
    assert [each.url_path for each in gone] == [page if page != "translate" else ""]
    store = app.session_state["headlight_store"]
    assert (store["kind"], store["layer"], store["head"]) == (kind, "2", "3")
    assert page == "attention" or store["query"] == "2"


def test_a_model_unlike_the_papers(
    open_page: RunApp, drawn: list[dict[str, Any]], tmp_path: Path, tiny_config: ModelConfig,
    tiny_tokenizer: Tokenizer,
) -> None:  # fmt: skip
    config = tiny_config.replace(
        d_k=8, d_v=8, norm="pre", n_encoder_layers=3, n_decoder_layers=1, n_decoder_heads=2,
        decoder_d_ff=12,
    )  # fmt: skip
    save_checkpoint(tmp_path / "alpha", random_model(config), tiny_tokenizer)
    for block in BLOCKS:
        app = open_page(root=tmp_path, block=block)
        assert not app.error and app.main.get("vega_lite_chart")
    assert drawn[-1]["stream"].pre_norm


def test_the_message_holds_the_numbers_of_every_block(tiny_translator: Translator) -> None:
    trace = tiny_translator.trace(CAT)
    stream = tiny_translator.stream(trace)
    chosen = PlanChoice(0, 0, 0, BLOCKS[0])
    body = plan.plan_component(stream, trace, tiny_translator.config, chosen).body
    at = 0
    for held, layers, kinds in ((stream.encoder, 2, 1), (stream.decoder, 3, 2)):
        n, k = len(held.tokens), len(held.blocks)
        sizes = [(1 + layers * k) * n, layers * k * n, layers * k * n, layers * n,
                 layers * kinds * n * 3, n]  # fmt: skip
        parts = np.split(np.frombuffer(body, "<f4", sum(sizes), at), np.cumsum(sizes)[:-1])
        np.testing.assert_allclose(parts[0], held.norms.ravel())
        np.testing.assert_allclose(parts[2], held.shares.ravel())
        at += 4 * sum(sizes)
    strips = sum((1 + layers * k) * n * 24 for layers, k, n in
                 ((2, 2, len(trace.src_ids)), (3, 3, len(trace.tgt_ids))))  # fmt: skip
    assert len(body) == at + strips
    head, key, weight = plan.strongest(trace.cross)[1, 2]
    assert trace.cross[1, int(head), 2, int(key)] == weight == trace.cross[1, :, 2].max()
