from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from figures.labels import shorten
from tests.pages.conftest import CAT, RunApp
from tests.pages.links import messages_in, written
from tests.test_calls import check_program
from tests.views import make_view
from transformer.models.arrays.trace_file import load_arrays
from transformer.types import AttentionKind
from ui.attention.exhibits import attention_exhibit
from ui.attention.maps import AttentionChoice
from ui.export.download import source_of, trace_for

pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers
needs_transformers = pytest.mark.skipif(not find_spec("transformers"), reason="not installed")


@pytest.fixture
def open_page(open_page: RunApp, kinds: Path) -> RunApp:
    return lambda name, at="attention", **query: open_page(at, root=kinds, checkpoint=name, **query)


@pytest.mark.parametrize(("name", "offered"), [
    ("both.npz", ["Encoder self", "Decoder self", "Cross"]),
    ("text.npz", ["Causal self-attention"]),
    ("read.npz", ["Self-attention"]),
    ("maps.npz", ["Decoder self", "Cross"]),
    pytest.param("gpt2", ["Causal self-attention"], marks=needs_transformers),
    pytest.param("bert", ["Self-attention"], marks=needs_transformers),
    pytest.param("t5", ["Encoder self", "Decoder self", "Cross"],
                 marks=needs_transformers),
])  # fmt: skip
def test_attention_offers_its_kinds(open_page: RunApp, name: str, offered: list[str]) -> None:
    app = open_page(name, kind="cross", display="matrix", units="words", dim="on", pin="q1")
    assert app.button_group(key="kind_widget").options == offered and app.get("download_button")
    assert not app.error and not app.warning
    groups = [each.key for each in app.sidebar.get("button_group")]
    assert ("search_box" in groups) == (name == "t5")  # only one of them decodes
    assert bool(app.sidebar.text_area) == (not name.endswith(".npz"))


def test_the_numbers_are_those_of_the_file(open_page: RunApp, kinds: Path) -> None:
    maps = load_arrays(kinds / "text.npz").decoder_self
    app = open_page("text.npz", display="matrix", layer="3", head="2", keys="1-2", queries="none")
    values = maps[..., [0, 1]].sum(-1).mean(-1)
    layer, head = np.unravel_index(values.argmax(), values.shape)
    assert "**Layer 3, head 2**" in messages_in(app)
    most = f"head {head + 1} has the largest attention weight: {values.max():.0%}"
    assert f"Layer {layer + 1}, {most}" in messages_in(app)
    maps = load_arrays(kinds / "read.npz").encoder_self
    app = open_page("read.npz", layer="2", head="5", dim="on")
    hidden = maps[1, 4][:, [0, -1]].sum(-1).mean()
    assert f"dimming `[CLS]` and `[SEP]` hides {hidden:.2f}" in messages_in(app)


def test_a_recorded_translation_plays_as_it_is(open_page: RunApp, kinds: Path) -> None:
    trace = load_arrays(kinds / "both.npz")
    app = open_page("both.npz", "translate", step="2", layer="1", head="3")
    assert trace.text in messages_in(app)
    assert shorten(trace.source, 240) in written(app.sidebar)
    assert not {"sentence", "beam"} & set(app.query_params) and app.query_params["step"] == "2"
    assert not [each for each in app.button if each.label == "Decode from there"]
    app.sidebar.selectbox(key="checkpoint_box").set_value("alpha").run()
    assert app.sidebar.text_area(key="sentence_box").value
    assert "log-probabilities" in messages_in(open_page("maps.npz", "translate"))


@pytest.mark.parametrize("name", [
    "both.npz", "one", "writer", pytest.param("t5", marks=needs_transformers),
    pytest.param("bert", marks=needs_transformers),
])  # fmt: skip
def test_why_no_part_can_be_taken_out_stands_where_the_box_would(
    open_page: RunApp, name: str
) -> None:
    app = open_page(name, "attention", edit="off cross")
    (reason,) = [each.value for each in app.sidebar.caption if "cannot be taken out" in each.value]
    said = [each.value.replace("\\", "") for each in app.toast]
    (toast,) = [each for each in said if each.startswith("Left out")]
    assert toast.endswith(reason.partition("taken out. ")[2]) and not toast.endswith("..")
    assert "edit" not in app.query_params and not app.sidebar.get("popover")


def test_a_file_that_only_looks_right_is_named_on_the_page(open_page: RunApp) -> None:
    text = open_page("off.npz").error[0].value.replace("\\", "")
    assert text.startswith("off.npz: array 'attention' [1, 3, 3]: row (0, 0, 0) sums to 1.5")


@needs_transformers
def test_an_encoder_decoder_plays_its_own_translation(open_page: RunApp, kinds: Path) -> None:
    from transformer.models.huggingface.model import HuggingFaceModel

    app = open_page("t5", "translate", beam="2", alpha="1")
    trace = HuggingFaceModel.load(kinds / "t5", "cpu").trace(CAT, beam_size=2, alpha=1.0)
    assert (
        f"{len(trace.src_tokens)} source and {len(trace.predicted_tokens)} target"
        in messages_in(app)
    )
    assert "Sample" not in app.sidebar.segmented_control(key="search_box").options
    app = open_page("gpt2", "attention", sentence="dog " * 2_000)
    assert len(app.warning) == 1 and "at most" in app.warning[0].value


@pytest.mark.parametrize(("name", "kind"), [
    ("both.npz", "cross"), ("text.npz", "decoder_self"), ("read.npz", "encoder_self"),
    pytest.param("t5", "cross", marks=needs_transformers),
])  # fmt: skip
def test_the_program_of_a_download_makes_the_same_numbers(
    kinds: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: AttentionKind
) -> None:
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(kinds))
    sentence = load_arrays(kinds / name).source if name.endswith(".npz") else CAT
    view = make_view(kinds / name, sentence, beam_size=1)
    choice = AttentionChoice(
        kind, "matrix", "words", "mean", False, (0, None), False, (), 0.5, None, (), (0, 1)
    )
    check_program(attention_exhibit(trace_for(view), choice, source_of(view)))
