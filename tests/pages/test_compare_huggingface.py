"""Models of the transformers library on the Compare page: what needs attention only works, and a
column of what does not says why, beside one that does."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

pytest.importorskip("transformers")

from tests.pages.conftest import ROOT
from tests.pages.test_compare_views import messages, said
from tests.transformer.huggingface import models as huggingface_models
from transformer.arrays.trace_file import save_arrays
from transformer.huggingface.model import HuggingFaceModel
from transformer.translator import Translator
from ui.compare.attention import DISPLAYS
from ui.compare.sections import SECTIONS

RunApp = Callable[..., AppTest]
SENTENCE = "A dog runs."
TOPICS = [room.name for room in SECTIONS]
OURS = "multi30k-en-de"
FOREIGN = ("t5", "gpt2", "bert")

#: Views that need more than attention.
INSIDE = {
    "beam": "keeps no record",
    "head": "queries, keys, values",
    "positions": "Headlight check",
}

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shipped checkpoint, a model of each kind of stack, and a recorded sentence."""
    root = tmp_path_factory.mktemp("huggingface")
    shutil.copytree(ROOT / "checkpoints" / OURS, root / OURS)
    for name in FOREIGN:
        (root / name).mkdir()
        getattr(huggingface_models, name)(root / name)
    trace = Translator.load(root / OURS, "cpu").trace(SENTENCE, beam_size=1)
    save_arrays(trace, root / "kept.npz")
    return root


@pytest.fixture
def open_page(run_app: RunApp, root: Path) -> Callable[..., AppTest]:
    def opened(**query: str) -> AppTest:
        app = run_app(root=root, at="compare", **{"sentence": SENTENCE, "beam": "2", **query})
        assert not app.error
        return app

    return opened


#: A foreign model on either side of ours, beside each other, and beside a recorded sentence.
PAIRS = (
    (OURS, "t5"), ("gpt2", OURS), (OURS, "bert"), ("t5", "gpt2"), ("bert", "t5"), ("gpt2", "bert"),
    ("kept.npz", "t5"), ("bert", "kept.npz"),
)  # fmt: skip


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_every_view_works_or_says_why(
    open_page: Callable[..., AppTest], left: str, right: str
) -> None:
    app = open_page(checkpoint=left, other=right)
    foreign = {"AB"[side] for side, name in enumerate((left, right)) if name != OURS}
    for topic in TOPICS:
        app.segmented_control(key="topic_widget").set_value(topic).run()
        assert not app.exception and not app.error
        if topic in INSIDE:
            infos = [each.value for each in app.main.info]
            letters = [text[2] for text in infos if text.startswith(("**A", "**B"))]
            assert sorted(letters) == sorted(foreign)
        if topic == "tokens":
            assert len(messages(app, "headlight.cut")) == 2
    app.segmented_control(key="topic_widget").set_value("maps").run()
    if not [box for box in app.segmented_control if box.key == "beside_widget"]:
        assert "no kind of attention in common" in said(app)
        return
    for display in DISPLAYS:
        app.segmented_control(key="beside_widget").set_value(display).run()
        assert not app.exception and not app.error


@pytest.mark.parametrize("topic", INSIDE)
def test_the_side_that_can_is_shown_beside_the_reason(
    open_page: Callable[..., AppTest], topic: str
) -> None:
    component = {"beam": "headlight.tree", "head": "headlight.stages"}
    for query, letter in (
        ({"checkpoint": OURS, "other": "t5"}, "B"), ({"checkpoint": "t5", "other": OURS}, "A"),
    ):  # fmt: skip
        app = open_page(topic=topic, **query)
        info = next(each.value for each in app.main.info if each.value.startswith(f"**{letter}"))
        assert INSIDE[topic] in info.replace("\\", "")
        if topic in component:
            assert len(messages(app, component[topic])) == 1
        else:
            assert len(app.main.get("plotly_chart")) == 1
        assert app.get("download_button")


def test_two_encoders_have_nothing_to_translate_and_are_subtracted(
    open_page: Callable[..., AppTest], root: Path
) -> None:
    app = open_page(checkpoint="bert", other="bert", beside="differences")
    assert "Every weight is the same" in said(app)
    steps = open_page(checkpoint="bert", other="bert", topic="steps")
    assert len([each for each in steps.main.info if "needs" in each.value]) == 2
    assert not steps.main.get("download_button")


def test_pieces_of_a_foreign_tokenizer_are_shown_with_their_numbers(
    open_page: Callable[..., AppTest], root: Path
) -> None:
    app = open_page(checkpoint=OURS, other="gpt2", topic="tokens")
    header, _ = messages(app, "headlight.cut")[1]
    trace = HuggingFaceModel.load(root / "gpt2", "cpu").trace(SENTENCE)
    assert [piece["id"] for piece in header["pieces"]] == list(trace.tgt_ids)
    text = said(app)
    assert "transformers library" in text and "B** · " in text


def test_an_encoder_decoder_steps_beside_ours(
    open_page: Callable[..., AppTest], root: Path
) -> None:
    app = open_page(checkpoint=OURS, other="t5", topic="steps", step="1")
    headers = [header for header, _ in messages(app, "headlight.player")]
    trace = HuggingFaceModel.load(root / "t5", "cpu").trace(SENTENCE, beam_size=2)
    assert headers[1]["predicted"] == list(trace.predicted_tokens)
    np.testing.assert_array_equal(headers[1]["shape"], trace.cross.shape)
