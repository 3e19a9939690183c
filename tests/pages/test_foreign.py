"""Files of arrays in the app: their content is shown, and pages say what they lack."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from figures.markdown import shorten
from tests.factories import make_trace
from tests.pages.kinds import offered_kinds
from tests.pages.links import unlinked
from tests.views import make_view
from transformer.arrays.trace_file import load_arrays, save_arrays
from transformer.trace.records import Trace
from ui.frame.pages import PAGES, PageSpec

RunApp = Callable[..., AppTest]
SCRIPT = "<script>alert(1)</script>"
TEXT = ("The", "שלום", SCRIPT, "$x$ **b**", "w" * 200, ".")
FILES = ("both.npz", "text.npz", "read.npz")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, random_checkpoints: Path) -> Path:
    """A checkpoint, and recorded sentences of an encoder-decoder, a decoder and an encoder."""
    root = tmp_path_factory.mktemp("foreign")
    shutil.copytree(random_checkpoints / "alpha", root / "alpha")
    save_arrays(make_trace(S=6, T=4, src_tokens=TEXT[:5]), root / "both.npz")
    trace = make_trace(S=7, T=6, n_encoder_layers=2, n_decoder_layers=4, n_heads=5)
    tokens = np.array([f"Ġ{token}" for token in TEXT])
    np.savez(root / "text.npz", attention=trace.decoder_self, tokens=tokens)
    tokens = np.array(["[CLS]", *TEXT[:5], "[SEP]"])
    np.savez(root / "read.npz", attentions=trace.encoder_self[:, None], tokens=tokens)
    (root / "broken.npz").write_bytes((root / "both.npz").read_bytes()[:-200])
    np.savez(root / "objects.npz", attention=np.array([[None]]))
    np.savez(root / "off.npz", attention=np.full((1, 3, 3), 0.5))
    return root


@pytest.fixture
def open_page(run_app: RunApp, root: Path) -> Callable[..., AppTest]:
    def opened(file: str, page: str = "attention", **query: str) -> AppTest:
        return run_app(root=root, checkpoint=file, at=page, **query)

    return opened


def said(app: AppTest) -> str:
    parts = (*app.markdown, *app.caption, *app.info, *app.text, *app.header, *app.warning)
    return unlinked("\n".join(part.value for part in parts))


def test_the_list_names_what_can_be_opened_and_why_the_rest_cannot(
    run_app: RunApp, root: Path
) -> None:
    app = run_app(root=root)
    options = app.sidebar.selectbox(key="checkpoint_box").options
    assert options == ["alpha", "both.npz", "off.npz", "read.npz", "text.npz"]
    reasons = "\n".join(each.value for each in app.sidebar.caption).replace("\\", "")
    assert "broken.npz: not a whole .npz file" in reasons
    assert "objects.npz: array 'attention' [1, 1] holds Python objects" in reasons
    assert str(root) not in reasons


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("both.npz", ["Encoder self-attention", "Decoder self-attention", "Cross-attention"]),
        ("text.npz", ["Causal self-attention"]),
        ("read.npz", ["Self-attention"]),
    ],
)
@pytest.mark.parametrize("display", ["grid", "heads", "matrix"])
@pytest.mark.parametrize("units", ["tokens", "words"])
def test_attention_offers_the_kinds_that_are_there(
    open_page: Callable[..., AppTest], file: str, names: list[str], display: str, units: str
) -> None:
    app = open_page(file, display=display, units=units, dim="on")
    assert offered_kinds(app) == names
    assert not app.error and not app.warning
    assert app.get("download_button")
    if names[0] == "Causal self-attention":
        assert "Later tokens are masked" in said(app)


def test_the_numbers_are_those_of_the_file(open_page: Callable[..., AppTest], root: Path) -> None:
    maps = load_arrays(root / "text.npz").decoder_self
    app = open_page("text.npz", display="matrix", layer="3", head="2", keys="1-2", queries="none")
    values = maps[..., [0, 1]].sum(-1).mean(-1)
    at = np.unravel_index(values.argmax(), values.shape)
    assert "**Layer 3, head 2**" in said(app)
    assert (
        f"The largest is {values.max():.2f} in layer {at[0] + 1}, head {at[1] + 1}; "
        f"the mean is {values.mean():.2f}." in said(app)
    )


def test_special_tokens_of_other_tokenizers_can_be_dimmed(
    open_page: Callable[..., AppTest], root: Path
) -> None:
    maps = load_arrays(root / "read.npz").encoder_self
    app = open_page("read.npz", layer="2", head="5", dim="on")
    hidden = maps[1, 4][:, [0, -1]].sum(-1).mean()
    assert f"dimming `[CLS]` and `[SEP]` hides {hidden:.1%}" in said(app)


@pytest.mark.parametrize("file", FILES)
def test_the_sidebar_shows_the_sentence_and_no_box(
    open_page: Callable[..., AppTest], root: Path, file: str
) -> None:
    app = open_page(file)
    assert not app.sidebar.text_area
    assert "sentence" not in app.query_params and "beam" not in app.query_params
    shown = shorten(load_arrays(root / file).source, 240)
    assert shown in [text.value for text in app.sidebar.text]
    app.sidebar.selectbox(key="checkpoint_box").set_value("alpha").run()
    assert not app.exception
    assert app.sidebar.text_area(key="sentence_box").value


def works(file: str, trace: Trace) -> set[str]:
    always = {spec.url_path for spec in PAGES if not spec.needs and not spec.maps}
    return always | ({"translate"} if file == "both.npz" else set())


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("spec", PAGES, ids=lambda spec: spec.url_path)
def test_a_page_works_or_says_why_not_and_where_to_go(
    open_page: Callable[..., AppTest], root: Path, file: str, spec: PageSpec
) -> None:
    app = open_page(file, spec.file.removeprefix("pages/").removesuffix("_page.py"))
    assert not app.error
    offered = works(file, load_arrays(root / file))
    refused = bool(app.header) and app.header[0].value == spec.title
    assert refused == (spec.url_path not in offered)
    if refused:
        assert len(app.info) == 1
        assert app.info[0].value.count(".") >= 1 and "\n" not in app.info[0].value
        links = {each.proto.label for each in app.main.get("page_link")}
        assert links == {each.title for each in PAGES if each.url_path in offered}


def test_a_recorded_translation_plays(open_page: Callable[..., AppTest], root: Path) -> None:
    trace = load_arrays(root / "both.npz")
    app = open_page("both.npz", "translate", step="2", layer="1", head="3")
    assert trace.text in said(app)
    assert f"{len(trace.src_tokens)} source and {len(trace.predicted_tokens)} target" in said(app)
    assert "as recorded in the file" in said(app)
    assert not [each for each in app.button if each.label == "Decode from there"]
    assert app.query_params["step"] == "2"


def test_without_log_probabilities_translate_says_so(run_app: RunApp, tmp_path: Path) -> None:
    trace = make_trace(S=6, T=4)
    maps = {"decoder_self": trace.decoder_self, "cross": trace.cross}
    np.savez(tmp_path / "maps.npz", **maps)
    app = run_app(root=tmp_path)
    assert "lacks the tokens that were predicted, their log-probabilities and" in said(app)
    app.switch_page("pages/attention_page.py").run()
    assert not app.exception
    assert offered_kinds(app) == ["Decoder self-attention", "Cross-attention"]


def test_a_file_that_only_looks_right_is_named_on_the_page(
    open_page: Callable[..., AppTest],
) -> None:
    app = open_page("off.npz")
    text = app.error[0].value.replace("\\", "")
    assert text.startswith("off.npz: array 'attention' [1, 3, 3]: row (0, 0, 0) sums to 1.5")


def test_a_kind_that_is_not_there_gives_way(open_page: Callable[..., AppTest]) -> None:
    app = open_page("text.npz", kind="cross", pin="q1")
    assert app.query_params["kind"] == "decoder_self"
    app.sidebar.selectbox(key="checkpoint_box").set_value("alpha").run()
    assert not app.exception
    assert len(offered_kinds(app)) == 3


def test_the_program_of_a_download_makes_the_same_numbers(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ui.attention.exhibits import attention_exhibit
    from ui.attention.maps import AttentionChoice
    from ui.export.download import source_of, trace_for

    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(root))
    for file in FILES:
        trace = load_arrays(root / file)
        view = make_view(root / file, trace.source, beam_size=1)
        kind = "cross" if file == "both.npz" else (
            "decoder_self" if file == "text.npz" else "encoder_self"
        )  # fmt: skip
        choice = AttentionChoice(
            kind, "matrix", "words", "mean", False, (1, None), False, (), 0.5, None, (), (0, 1)
        )  # type: ignore[arg-type]
        made = attention_exhibit(trace_for(view), choice, source_of(view))
        found: dict[str, object] = {}
        exec(compile(made.snippet, "snippet", "exec"), found)  # noqa: S102 - our own program
        for name, values in made.arrays.items():
            np.testing.assert_allclose(found[name], values, atol=1e-6)  # type: ignore[arg-type]
