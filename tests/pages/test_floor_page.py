from pathlib import Path
from typing import Any

import pytest

from tests.pages.conftest import CAT, RunApp
from tests.tiny_models import random_model
from transformer.checkpoint.folder import save_checkpoint
from transformer.config import ModelConfig
from transformer.text.tokenizer import Tokenizer
from transformer.translator import Translator
from ui.components.plan import Opened, PlanChoice, Touched
from ui.floor import views


@pytest.fixture
def drawn(recorded: Any) -> list[dict[str, Any]]:
    return recorded(views.plan, "plan_component")


def test_a_link_opens_on_any_part(open_page: RunApp, drawn: list[dict[str, Any]]) -> None:
    app = open_page()
    assert drawn[-1]["chosen"].focus == "decoder.3"
    query = {"focus": "encoder.2.self.1", "source": "2", "step": "1"}
    app = open_page(**query)
    assert drawn[-1]["chosen"] == PlanChoice(1, 0, "encoder.2.self.1")
    assert query.items() <= app.query_params.items()
    for focus in ("encoder.3", "decoder.1.self.4", "nothing"):  # not in this model
        open_page(focus=focus, source="99", step="99")
        assert drawn[-1]["chosen"].focus == "decoder.3"


def reporting(
    monkeypatch: pytest.MonkeyPatch, app: Any, event: str, parse: str, report: Any
) -> None:
    """Run the page while its picture reports an event."""
    real = views.show

    def click(*args: Any, **settings: Any) -> None:
        settings[f"on_{event}_change"]()
        real(*args, **settings)

    monkeypatch.setattr(views.plan, parse, report if callable(report) else lambda *_: report)
    monkeypatch.setattr(views, "show", click)
    app.run()
    monkeypatch.setattr(views, "show", real)


@pytest.mark.parametrize(("opened", "title", "stored"), [
    (Opened("attention", "encoder", "cross", 1, 2), "Attention",
     {"kind": "cross", "layer": "2", "head": "3"}),
    (Opened("head", "encoder", "encoder_self", 1, 2), "Inside a head",
     {"kind": "encoder_self", "layer": "2", "head": "3", "query": "2"}),
    (Opened("layers", "encoder", "", 1, 0), "Translate", {"view": "layers", "step": "2"}),
    (Opened("why", "decoder", "", 1, 0), "Translate", {"view": "why", "step": "2"}),
])  # fmt: skip
def test_a_part_opens_its_page_or_a_view_of_translate(
    open_page: RunApp, monkeypatch: pytest.MonkeyPatch, opened: Opened, title: str,
    stored: dict[str, str],
) -> None:  # fmt: skip
    gone: list[Any] = []
    app = open_page(source="2", step="2")
    reporting(monkeypatch, app, "open", "parse_opened", opened)
    monkeypatch.setattr(views.st, "switch_page", gone.append)
    app.run()
    assert [target.title for target in gone] == [title]
    assert stored.items() <= app.session_state["headlight_store"].items()


def test_a_head_an_edge_and_a_token_change_the_translation(
    open_page: RunApp, monkeypatch: pytest.MonkeyPatch, drawn: list[dict[str, Any]],
    tiny_translator: Translator,
) -> None:  # fmt: skip
    app = open_page()
    for change, edit in (
        (Touched("switch", "cross", 1, 2, 0, 0), "off cross.2.3"),
        (Touched("cut", "decoder_self", 0, 1, 2, 1), "off cross.2.3; cut decoder.1.2 q3 k2"),
        (Touched("switch", "cross", 1, 2, 0, 0), "cut decoder.1.2 q3 k2"),
    ):
        reporting(monkeypatch, app, "touch", "parse_touched", change)
        app.run()
        assert app.session_state["headlight_store"]["edit"] == edit
    edited = drawn[-1]["edited"]
    assert edited.cuts == [("decoder_self", 0, 1, 2, 1)] and not edited.out and edited.possible
    assert len(edited.before) > 1
    own, other, *_ = drawn[-1]["trace"].top_ids[1].tolist()
    for token in (other, own):  # of which the model's own needs no prefix
        taken = Touched("take", "cross", 0, 0, 1, token)
        reporting(monkeypatch, app, "touch", "parse_touched", taken)
        app.run()
        trace, before = drawn[-1]["trace"], drawn[-1]["edited"].before
        assert trace.predicted_ids[1] == token
        assert bool(trace.n_forced) == bool(before) == (token == other)
    chosen, switch = PlanChoice(0, 4, "softmax"), Touched("switch", "cross", 1, 2, 0, 0)
    reporting(monkeypatch, app, "touch", "parse_touched", lambda *_: views.keep(chosen) or switch)
    seen = app.session_state["headlight_floor_seen"]  # a step that stood two places later
    seen[1] = [("a", "b", []), ("b", "c", []), *seen[1]]
    app.run()
    assert drawn[-1]["trace"].tgt_tokens[drawn[-1]["chosen"].row] == seen[1][4][0]


def test_a_model_unlike_the_papers(
    open_page: RunApp, drawn: list[dict[str, Any]], tmp_path: Path, tiny_config: ModelConfig,
    tiny_tokenizer: Tokenizer,
) -> None:  # fmt: skip
    config = tiny_config.replace(
        d_k=8, d_v=8, norm="pre", n_encoder_layers=3, n_decoder_layers=1, n_decoder_heads=2,
        decoder_d_ff=12,
    )  # fmt: skip
    save_checkpoint(tmp_path / "alpha", random_model(config), tiny_tokenizer)
    for focus in ("encoder.3.ffn", "decoder.1.cross.2", "softmax"):
        app = open_page(root=tmp_path, focus=focus)
        assert not app.error and drawn[-1]["chosen"].focus == focus
    assert drawn[-1]["whole"].stream.pre_norm
    assert len(app.main.get("download_button")) == 7


def test_the_whole_model_s_own_page_is_offered_as_a_file(tiny_translator: Translator) -> None:
    from ui.floor.exhibits import feed_forward, residual_stream

    trace = tiny_translator.trace(CAT)
    for made in (feed_forward, residual_stream):
        offline = made(tiny_translator, trace, stack="encoder", layer=1).offline
        assert offline is not None and offline.component == "plan"
        assert b"encoder.2" in offline.message
