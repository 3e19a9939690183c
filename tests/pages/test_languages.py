import shutil
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

pytest.importorskip("transformers")

from tests.pages.conftest import RunApp
from tests.pages.links import trace_of, view_of
from tests.test_calls import check_program
from tests.transformer.damage import edit
from tests.transformer.models.huggingface import models as huggingface_models
from tests.transformer.models.huggingface.models import make_folder
from tests.views import make_view
from transformer.models.importers.registry import FORMATS
from ui.compare import views
from ui.frame.beside import Setup

SENTENCE = "A dog runs."
PREFIX = "translate English to German: "
BOXES = ("src_lang_box", "tgt_lang_box")

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, random_checkpoints: Path) -> Path:
    root = tmp_path_factory.mktemp("languages")
    shutil.copytree(random_checkpoints / "alpha", root / "alpha")
    for name in ("m2m100", "nllb", "mbart", "t5"):
        (root / name).mkdir()
        huggingface_models.EVERY[name](root / name)
    tasks = {"de": {"prefix": PREFIX}, "sum": {"prefix": "summarize: "}}
    edit("config.json", task_specific_params=tasks)(root / "t5")
    theirs = root.parent / "languages-marian"
    make_folder(theirs, "separate vocabularies")
    FORMATS["marian"].convert(theirs, root / "tagged")
    return root


@pytest.fixture
def open_app(run_app: RunApp) -> RunApp:
    start = {"sentence": SENTENCE, "beam": "1"}
    return lambda name, **query: run_app(checkpoint=name, **{**start, **query})


def boxes(app: AppTest) -> dict[str, str]:
    found = {each.key: each.value for each in app.sidebar.selectbox}
    return {key: found[key] for key in BOXES if key in found}


def said(app: AppTest) -> str:
    return "\n".join(each.value for each in app.toast).replace("\\", "")


def test_models_without_a_choice_show_none(open_app: RunApp) -> None:
    app = open_app("alpha", tgt_lang="de", src_lang="en")
    assert not boxes(app) and not app.toast
    assert "tgt_lang" not in app.query_params and "src_lang" not in app.query_params


@pytest.mark.parametrize(("name", "defaults", "other"), [
    ("nllb", ("eng_Latn", "deu_Latn"), ("fra_Latn", "arb_Arab")),
    ("mbart", ("en_XX", "de_DE"), ("fr_XX", "ro_RO")),
])  # fmt: skip
def test_a_language_is_chosen_told_and_in_the_link(
    open_app: RunApp, name: str, defaults: tuple[str, str], other: tuple[str, str]
) -> None:
    app = open_app(name)
    assert tuple(boxes(app).values()) == defaults and not app.toast
    for key, language, old, new in zip(BOXES, ("English", "German"), defaults, other, strict=True):
        box = app.sidebar.selectbox(key=key)
        assert f"{language} · {old}" in box.options == sorted(box.options) and box.help
        box.set_value(new).run()
    assert not app.error
    trace = trace_of(app)
    # The source carries the one token, the decoder begins with the other.
    assert other[0] in trace.src_tokens
    begun = trace.tgt_tokens if name == "mbart" else trace.predicted_tokens
    assert begun[0] == other[1]
    link = {key: app.query_params[key] for key in ("src_lang", "tgt_lang")}
    assert link == {"src_lang": other[0], "tgt_lang": other[1]}
    again = open_app(name, **link)
    assert tuple(boxes(again).values()) == other and not again.toast
    assert trace_of(again).predicted_ids == trace.predicted_ids


def test_what_a_link_asks_for_in_vain_is_said(open_app: RunApp) -> None:
    app = open_app("nllb", tgt_lang="klingon<b>", src_lang="fra_Latn")
    assert tuple(boxes(app).values()) == ("fra_Latn", "deu_Latn")
    assert "`klingon<b>`" in said(app) and "German · deu_Latn" in said(app)
    assert app.query_params["tgt_lang"] == "deu_Latn"
    assert not app.run().toast


def test_another_model_is_told_the_same_language_by_its_own_code(open_app: RunApp) -> None:
    app = open_app("nllb", src_lang="deu_Latn", tgt_lang="arb_Arab")
    for name, codes in (("m2m100", ("de", "ar")), ("mbart", ("de_DE", "ar_AR"))):
        app.sidebar.selectbox(key="checkpoint_box").set_value(name).run()
        assert tuple(boxes(app).values()) == codes and not app.toast
        assert view_of(app).spoken == ("de", "ar")
    app.sidebar.selectbox(key="tgt_lang_box").set_value("vi_VN").run()
    app.sidebar.selectbox(key="checkpoint_box").set_value("nllb").run()
    assert boxes(app)["tgt_lang_box"] == "deu_Latn"
    assert "This model has no language `vi_VN`" in said(app)


def test_a_tag_is_put_in_front_whole(open_app: RunApp) -> None:
    app = open_app("tagged")
    box = app.sidebar.selectbox(key="tgt_lang_box")
    assert list(boxes(app)) == ["tgt_lang_box"]  # it has one source language
    assert box.options == ["No tag: as typed", "French · fra", "German · deu"]
    assert box.value == "deu" == app.query_params["tgt_lang"]
    plain = trace_of(app)
    assert plain.src_tokens[0] == ">>deu<<" and not plain.src_unknown
    box.set_value("fra").run()
    other = trace_of(app)
    assert other.src_tokens == (">>fra<<", *plain.src_tokens[1:])
    assert other.source == f">>fra<< {SENTENCE}" and view_of(app).spoken[1] == "fr"
    # The box holds what was typed.
    assert app.sidebar.text_area(key="sentence_box").value == SENTENCE
    assert app.query_params["sentence"] == SENTENCE
    app.sidebar.selectbox(key="tgt_lang_box").set_value("none").run()
    assert trace_of(app).src_tokens == plain.src_tokens[1:]
    assert app.query_params["tgt_lang"] == "none"
    # A tag that is typed counts.
    app = open_app("tagged", tgt_lang="deu", sentence=f">>fra<< {SENTENCE}")
    box = app.sidebar.selectbox(key="tgt_lang_box")
    assert box.disabled and box.value == "deu"
    assert trace_of(app).src_tokens == other.src_tokens and view_of(app).spoken[1] == "fr"
    captions = "\n".join(each.value for each in app.sidebar.caption).replace("\\", "")
    assert "Set by the tag in the sentence: `>>fra<<`" in captions


def test_a_task_prefix_is_a_choice_in_the_link(open_app: RunApp) -> None:
    app = open_app("t5")
    box = app.sidebar.selectbox(key="task_box")
    assert box.value == "" and len(box.options) == 3 and box.options[0] == "No prefix"
    assert trace_of(app).source == SENTENCE
    assert any("trained with a task prefix" in each.value for each in app.sidebar.caption)
    box.set_value("de").run()
    assert trace_of(app).source == f"{PREFIX}{SENTENCE}" and app.query_params["task"] == "de"
    assert not any("trained with a task" in each.value for each in app.sidebar.caption)
    assert app.sidebar.text_area(key="sentence_box").value == SENTENCE
    app.sidebar.selectbox(key="checkpoint_box").set_value("alpha").run()
    assert trace_of(app).source == SENTENCE and not app.exception
    app = open_app("t5", task="no such", sentence=f"{PREFIX}{SENTENCE}")
    assert app.sidebar.selectbox(key="task_box").value == ""
    assert not any("trained with a task" in each.value for each in app.sidebar.caption)


@pytest.mark.usefixtures("nothing_cached")
@pytest.mark.parametrize(("name", "given"), [
    ("nllb", {"src_lang": "deu_Latn", "tgt_lang": "arb_Arab"}), ("tagged", {"tgt_lang": "fra"}),
])  # fmt: skip
def test_programs_of_comparisons_tell_the_language_too(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str, given: dict[str, str]
) -> None:
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(root))
    monkeypatch.setattr(views, "sentences_for", lambda setup: (SENTENCE, "The cat sat."))
    side = make_view(root / name, SENTENCE, beam_size=1, **given)
    setup = Setup("models", side, side, ())
    check_program(views._matching_figure(setup, "encoder_self", (0, 0)))
    check_program(views._numbers_figure(setup))
