"""Edits of the model: in the link, on every page, undone and compared."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from figures.labels import signed
from tests.pages.conftest import RunApp
from tests.pages.links import press, said, trace_of
from tests.pages.test_translate import translation
from transformer.catalogue import resolve
from transformer.checkpoint.means import write_means
from transformer.edits.means import head_means
from transformer.trace.removals import Head, needs
from transformer.translator import Translator

CAT = "The cat sat on the mat."


@pytest.fixture
def open_page(run_app: RunApp, random_checkpoints: Path) -> RunApp:
    def opened(at: str = "", **query: str) -> AppTest:
        given = {"checkpoint": "alpha", "sentence": CAT} | query
        return run_app(random_checkpoints, at=at, **given)

    return opened


def edits(app: AppTest) -> str | None:
    found = app.query_params.get("edit")
    return found[0] if isinstance(found, list) else found


def test_a_link_opens_the_edited_model_and_undo_takes_the_last_edit_back(
    open_page: RunApp, random_checkpoints: Path
) -> None:
    app = open_page(edit="off cross;no positions")
    whole = Translator.load(random_checkpoints / "alpha", "cpu")
    assert "**Edited:** cross-attention off; no positions in the model" in said(app).replace(
        "\\", ""
    )
    assert translation(app) == whole.edited("off cross", "no positions").trace(CAT).text
    press(app, "undo_edit")
    assert edits(app) == "off cross" and "no positions" not in said(app).replace("\\", "")
    assert translation(app) == whole.edited("off cross").trace(CAT).text
    press(app, "clear_edits")
    assert edits(app) is None and "Edited" not in said(app).replace("\\", "")
    assert translation(app) == whole.trace(CAT).text


def test_edits_that_a_model_cannot_take_are_left_out_with_a_line(open_page: RunApp) -> None:
    app = open_page(edit="off cross.1;off cross.99;<b>fly</b>")
    toasts = " ".join(each.value for each in app.toast)
    assert "cross has layers 1 to" in toasts and "begins with none of" in toasts
    assert edits(app) == "off cross.1"


def test_a_model_takes_mean_where_it_has_means(
    run_app: RunApp, random_checkpoints: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(random_checkpoints / "alpha", tmp_path / "alpha"))
    given = {"checkpoint": "alpha", "sentence": CAT, "edit": "mean cross;off cross.1.1"}
    app = run_app(tmp_path, **given)
    (toast,) = app.toast
    assert "`python -m transformer means alpha --data DIR` writes them" in toast.value.replace(
        "\\", ""
    )
    assert edits(app) == "off cross.1.1"
    model = Translator.load(folder, "cpu")
    write_means(resolve(folder), head_means(model.model, [([5, 9, 2], [1, 6])]), "a text", 1)
    app = run_app(tmp_path, **given)
    assert not app.toast and edits(app) == given["edit"]
    assert translation(app) == model.edited(given["edit"]).trace(CAT).text


def test_a_typed_edit_and_a_bad_one(open_page: RunApp) -> None:
    app = open_page()
    app.text_input(key="edit_box").set_value("off cross.1").run()
    assert edits(app) == "off cross.1" and app.text_input(key="edit_box").value == ""
    app.text_input(key="edit_box").set_value("scale cross.1 9").run()
    (error,) = app.error
    assert "9” is not a number from 0 to 4" in error.value and edits(app) == "off cross.1"
    press(app, "edit skip decoder.2")
    assert edits(app) == "off cross.1; skip decoder.2"


@pytest.mark.parametrize("page", ["head", "attention"])
def test_a_head_on_screen_is_taken_out_and_brought_back(open_page: RunApp, page: str) -> None:
    app = open_page(page, kind="decoder_self", layer="2", head="1", map="cell")
    before = trace_of(app).score
    press(app, "edit_switch")
    assert edits(app) == "off decoder.2.1" and trace_of(app).score != before
    press(app, "edit_switch")
    assert edits(app) is None and trace_of(app).score == before


def test_compare_sets_the_original_beside_the_edited_model(
    open_page: RunApp, random_checkpoints: Path
) -> None:
    app = open_page("compare", edit="off cross")
    whole = Translator.load(random_checkpoints / "alpha", "cpu")
    text = said(app)
    assert "**A** the original · **B** the edited model" in text
    for each in (whole, whole.edited("off cross")):
        assert each.trace(CAT).text.split()[0] in text


def test_heads_off_says_what_a_translation_needs(
    open_page: RunApp, random_checkpoints: Path
) -> None:
    app = open_page("removals")
    whole = Translator.load(random_checkpoints / "alpha", "cpu")
    found = needs(whole.model, whole.trace(CAT))
    heads = {kind: each.sum(-1) for kind, each in found.heads.items()}
    kind = min(heads, key=lambda each: heads[each].min())
    layer, head = np.unravel_index(heads[kind].argmin(), heads[kind].shape)
    first = Head(kind, int(layer), int(head)).off
    text = said(app).replace("\\", "")
    assert f"**{first.place}** (log-probability {signed(heads[kind].min())} nats)" in text
    press(app, f"needs {first}")
    assert edits(app) == str(first)
    other = whole.edited(str(first)).trace(CAT)
    text = said(app).replace("\\", "")
    assert "They differ from token" in text or "The same words" in text
    assert other.text in text or other.text == whole.trace(CAT).text
    app.selectbox(key="needs_of").set_value(2).run()
    assert app.query_params["step"] in ("3", ["3"])
