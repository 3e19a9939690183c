"""Models of the transformers library in the app: what needs attention only works."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.links import unlinked

pytest.importorskip("transformers")

from tests.pages.kinds import offered_kinds
from tests.transformer.huggingface import models as huggingface_models
from transformer.huggingface.model import HuggingFaceModel

RunApp = Callable[..., AppTest]
SENTENCE = "A dog runs across the green grass."


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, random_checkpoints: Path) -> Path:
    root = tmp_path_factory.mktemp("huggingface")
    shutil.copytree(random_checkpoints / "alpha", root / "alpha")
    for name in ("t5", "gpt2", "bert", "marian"):
        (root / name).mkdir()
        getattr(huggingface_models, name)(root / name)
    return root


@pytest.fixture
def open_page(run_app: RunApp, root: Path) -> Callable[..., AppTest]:
    def opened(name: str, page: str, **query: str) -> AppTest:
        query = {"sentence": SENTENCE, **query}
        app = run_app(root=root, checkpoint=name, at=page, **query)
        assert not app.error
        return app

    return opened


def said(app: AppTest) -> str:
    parts = (*app.markdown, *app.caption, *app.info, *app.text)
    return unlinked("\n".join(part.value for part in parts))


def test_they_are_listed_and_marian_says_how_it_is_imported(run_app: RunApp, root: Path) -> None:
    app = run_app(root=root)
    options = app.sidebar.selectbox(key="checkpoint_box").options
    assert options == ["alpha", "bert", "gpt2", "t5"]
    reasons = "\n".join(each.value for each in app.sidebar.caption).replace("\\", "")
    assert "python -m transformer import marian marian --out PATH" in reasons


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("t5", ["Encoder self-attention", "Decoder self-attention", "Cross-attention"]),
        ("gpt2", ["Causal self-attention"]),
        ("bert", ["Self-attention"]),
    ],
)
def test_attention_works_with_every_family(
    open_page: Callable[..., AppTest], root: Path, name: str, kinds: list[str]
) -> None:
    for display in ("grid", "heads", "matrix"):
        app = open_page(name, "attention", display=display, units="words", dim="on")
        assert offered_kinds(app) == kinds
        assert app.get("download_button")
    assert app.sidebar.text_area(key="sentence_box").value == SENTENCE
    assert bool(app.sidebar.get("slider")) == (name == "t5")  # only one of them decodes


def test_an_encoder_decoder_plays_its_own_translation(
    open_page: Callable[..., AppTest], root: Path
) -> None:
    app = open_page("t5", "translate", beam="2", alpha="1")
    trace = HuggingFaceModel.load(root / "t5", "cpu").trace(SENTENCE, beam_size=2, alpha=1.0)
    assert f"{len(trace.src_tokens)} source and {len(trace.predicted_tokens)} target" in said(app)
    assert "beam 2, α 1; maps of one pass over it, teacher forcing" in said(app)
    assert "Sample" not in app.sidebar.segmented_control(key="search_box").options


@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_one_stack_has_nothing_to_translate_and_says_so(
    open_page: Callable[..., AppTest], name: str
) -> None:
    app = open_page(name, "translate")
    assert app.header[0].value == "Translate"
    assert "cross" in app.info[0].value
    assert "Attention" in {each.proto.label for each in app.get("page_link")}


@pytest.mark.parametrize("page", ["beam", "head", "tokens", "tours"])
def test_what_needs_our_internals_says_why_it_is_not_offered(
    open_page: Callable[..., AppTest], page: str
) -> None:
    app = open_page("t5", page)
    assert "transformers library" in app.info[0].value
    assert app.get("page_link")


def test_a_sentence_that_is_too_long_is_one_line(open_page: Callable[..., AppTest]) -> None:
    app = open_page("gpt2", "attention", sentence="dog " * 2_000)
    assert len(app.warning) == 1 and "at most" in app.warning[0].value


def test_the_program_of_a_download_makes_the_same_numbers(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import numpy as np

    from tests.views import make_view
    from ui.attention.exhibits import attention_exhibit
    from ui.attention.maps import AttentionChoice
    from ui.export.download import source_of, trace_for

    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(root))
    view = make_view(root / "t5", SENTENCE, beam_size=2)
    choice = AttentionChoice(
        "cross", "matrix", "words", "mean", False, (0, None), False, (), 0.5, None, (), (0, 1)
    )
    made = attention_exhibit(trace_for(view), choice, source_of(view))
    found: dict[str, object] = {}
    exec(compile(made.snippet, "snippet", "exec"), found)  # noqa: S102 - our own program
    for name, values in made.arrays.items():
        np.testing.assert_allclose(found[name], values, atol=1e-6)  # type: ignore[call-overload]
