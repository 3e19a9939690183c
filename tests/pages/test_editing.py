import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.delta_generator import DeltaGenerator
from streamlit.testing.v1 import AppTest

from figures.labels import signed
from tests.pages.conftest import CAT, RunApp
from tests.pages.links import ask, messages, messages_in, press, trace_of
from tests.pages.test_translate import translation
from tests.tiny_models import uneven_model
from transformer.checkpoint.folder import save_checkpoint, write_means
from transformer.edits.language import parse_edits
from transformer.edits.model import head_means
from transformer.evaluation.pruning import own_translation, prune
from transformer.measures.compare import SideBySide, Word
from transformer.models.catalogue import resolve
from transformer.text.tokenizer import Tokenizer
from transformer.trace.removals import Head, edits_off, needs
from transformer.translator import Translator
from ui.frame.editing import divergence
from ui.removals.pruning import in_words
from ui.removals.views import in_sum


def edits(app: AppTest) -> str | None:
    found = app.query_params.get("edit")
    return found[0] if isinstance(found, list) else found


def test_a_link_opens_the_edited_model_and_undo_takes_the_last_edit_back(
    open_page: RunApp, tiny_translator: Translator
) -> None:
    app, whole = open_page("", edit="off cross;no positions"), tiny_translator
    assert "**Edited:** cross-attention off; no positions in the model" in messages_in(app)
    assert translation(app) == whole.edited("off cross", "no positions").trace(CAT).text
    press(app, "undo_edit")
    assert edits(app) == "off cross" and "no positions" not in messages_in(app)
    assert translation(app) == whole.edited("off cross").trace(CAT).text
    press(app, "clear_edits")
    assert edits(app) is None and "Edited" not in messages_in(app)
    assert translation(app) == whole.trace(CAT).text


def test_edits_that_a_model_cannot_take_are_left_out_with_a_line(open_page: RunApp) -> None:
    app = open_page("", edit="off cross.1;off cross.99;<b>fly</b>")
    (toast,) = app.toast
    assert "cross has layers 1 to" in toast.value and toast.value.endswith(". And 1 other.")
    assert edits(app) == "off cross.1"


def test_a_model_takes_mean_where_it_has_means(
    open_page: RunApp, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tiny_checkpoint, tmp_path / "alpha"))
    edit = "mean cross;off cross.1.1"
    app = open_page("", root=tmp_path, edit=edit)
    said = app.toast[0].value.replace("\\", "")
    assert "`python -m transformer means alpha --data DIR` writes them" in said
    assert edits(app) == "off cross.1.1"
    model = Translator.load(folder, "cpu")
    write_means(resolve(folder), head_means(model.model, [([5, 9, 2], [1, 6])]), "a text", 1)
    app = open_page("", root=tmp_path, edit=edit)
    assert not app.toast and edits(app) == edit
    assert translation(app) == model.edited(edit).trace(CAT).text


def test_a_typed_edit_and_a_bad_one(open_page: RunApp) -> None:
    app = open_page("")
    app.text_input(key="edit_box").set_value("off cross.1").run()
    assert edits(app) == "off cross.1" and app.text_input(key="edit_box").value == ""
    app.text_input(key="edit_box").set_value("scale cross.1 9").run()
    (error,) = app.error
    assert "expected a number from 0 to 4" in error.value and edits(app) == "off cross.1"
    press(app, "edit skip decoder.2")
    assert edits(app) == "off cross.1; skip decoder.2"


HEAD = {"kind": "decoder_self", "layer": "2", "head": "1", "map": "cell"}


@pytest.mark.parametrize(("page", "query"), [
    ("head", HEAD), ("attention", {**HEAD, "display": "matrix"}),
    ("head", {}), ("attention", {"display": "heads"}),  # one that is telling
])  # fmt: skip
def test_a_head_on_screen_is_taken_out_and_brought_back(
    open_page: RunApp, page: str, query: dict[str, str]
) -> None:
    app = open_page(page, **query)
    before = trace_of(app).score
    press(app, "edit_switch")
    edit = str(edits(app))
    assert trace_of(app).score != before
    assert edit == "off decoder.2.1" if query == HEAD else re.match(r"off \w+\.\d\.\d", edit)
    press(app, "Bring it back")  # it is still on screen
    assert edits(app) is None and trace_of(app).score == before


def switching() -> None:
    import numpy as np
    import streamlit as st

    from ui.core import url_state
    from ui.frame import editing

    for kind, places, join in st.session_state["turns"]:
        heads = np.zeros((3, 2), bool)
        heads[tuple(zip(*places, strict=True))] = True
        editing.switch(kind, heads, join=join)
    st.text(url_state.get(editing.EDITS))


ALL = [(layer, head) for layer in range(3) for head in range(2)]


@pytest.mark.parametrize(("turns", "left"), [
    ([("cross", [(0, 0)], False), ("encoder_self", [(0, 0)], True), ("cross", [(1, 1)], True)],
     "off cross.1.1; off encoder.1.1, off cross.2.2"),
    ([("cross", [(0, 0)], True), ("cross", [(2, 0)], False), ("cross", [(2, 1)], True)],
     "off cross.1.1; off cross.3.1; off cross.3.2"),
    ([("decoder_self", ALL, False), ("decoder_self", [(1, 0)], False)],
     "off decoder.1, off decoder.2.2, off decoder.3"),
    ([("cross", [(0, 0)], True), ("cross", [(0, 0)], True), ("cross", [(0, 1)], True)],
     "off cross.1.2"),
    ([("cross", [(0, 0)], False), ("cross", [(0, 0), (0, 1)], False)],
     "off cross.1.1; off cross.1.2"),
])  # fmt: skip
def test_heads_that_are_switched_together_are_one_step(turns: object, left: str) -> None:
    app = AppTest.from_function(switching)
    app.session_state["turns"] = turns
    assert app.run().text[0].value == left


def test_restore_all_brings_heads_back_whatever_took_them_out(open_page: RunApp) -> None:
    app = open_page("attention", edit="scale cross.1 0; skip decoder.1; off cross.2, off cross.1.1")
    press(app, "restore_heads")
    assert edits(app) == "skip decoder.1" and "Restore all" not in [
        each.label for each in app.button
    ]


@pytest.mark.parametrize("page", ["attention", "compare", "removals"])
@pytest.mark.parametrize("edit", ["scale encoder.1.1 0.9", "off cross; no positions encoder"])
def test_old_and_new_stand_side_by_side(
    open_page: RunApp, tiny_translator: Translator, page: str, edit: str
) -> None:
    app, whole = open_page(page, edit=edit), tiny_translator
    other = whole.edited(edit)
    old, new = whole.trace(CAT), other.trace(CAT)
    forced = [each.trace(CAT, old.predicted_ids).log_probs for each in (whole, other)]
    (header,) = [h for h, _ in messages(app, "strip") if "columns" in h]
    found = [value for _, _, changes, *_ in header["columns"] for value in changes]
    np.testing.assert_allclose(found, forced[1] - forced[0], atol=2e-4)
    total = float((forced[1] - forced[0]).sum())
    assert header["total"] == pytest.approx(total, abs=1e-3)
    differs = [at for at, (*_, differs) in enumerate(header["columns"]) if differs]
    digits, less = 1 if abs(total) >= 0.095 else 2, "less" if total < 0 else "more"
    change = f"{abs(total):.{digits}f} nats {less} likely"
    if old.text == new.text:
        assert not differs and f"No word changed: the words are {change}." in messages_in(app)
    else:
        assert f"The translations diverge at word {differs[0] + 1}: *" in messages_in(app)
        assert f"The original’s words are {change}." in messages_in(app)


def test_a_comma_that_moves_is_not_the_word_that_changes() -> None:
    pairs = ((Word("Straße"), Word("Straße,")), (Word("nicht,"), Word()))
    assert "at word 2: *nicht" in divergence(SideBySide(pairs, "word"), -3.0)


def test_translate_says_what_a_removed_head_changes_and_marks_its_map(open_page: RunApp) -> None:
    app = open_page("translate", edit="off cross.2; off decoder.1.3")
    (header,) = [header for header, _ in messages(app, "player")]
    out = [["cross", 1, head] for head in range(header["shape"][1])]
    assert header["out"] == [["decoder_self", 0, 2], *out]
    assert " changed: " in messages_in(app) or "The translations diverge" in messages_in(app)
    (header,) = [header for header, _ in messages(open_page("translate"), "player")]
    assert header["out"] == []


def test_a_word_is_hidden_whole_from_the_decoder_and_the_encoder(open_page: RunApp) -> None:
    app = open_page("attention", sentence="Xylophones sleep.", source_word="1", kind="cross")
    n = trace_of(app).src_tokens[1:].index("▁s") + 1
    assert n > 1
    cross, encoder = (
        [f"cut {where} k{at + 1}" for at in range(n)] for where in ("cross", "encoder")
    )
    press(app, "hide_decoder")
    assert edits(app) == ", ".join(cross)
    trace = trace_of(app)
    assert not trace.cross[..., :n].any() and trace.encoder_self[..., :n].any()
    press(app, "hide_both")
    assert edits(app) == f"{', '.join(cross)}; {', '.join(encoder)}"
    assert not trace_of(app).encoder_self[..., :n].any()
    (header,) = [h for h, _ in messages(app, "strip") if h.get("asks")]
    assert header["struck"] == [True, *[False] * (len(header["tokens"]) - 1)]
    press(app, "hide_decoder")
    assert edits(app) == ", ".join(encoder)


@pytest.mark.parametrize(("display", "query", "place", "cut"), [
    ("grid", {"layer": "2", "head": "1"}, (1, 0), "cut cross.2.1"),
    ("matrix", {"layer": "2"}, (1, slice(None)), "cut cross.2"),
    ("matrix", {"head": "2"}, (slice(None), 1), "cut cross.1.2"),
    ("matrix", {"map": "heads", "heads": "1.2"}, (0, 1), "cut cross.1.2"),
])  # fmt: skip
def test_an_edge_is_cut_in_the_heads_on_screen_or_in_all(
    open_page: RunApp, display: str, query: dict[str, str], place: tuple[object, ...], cut: str
) -> None:
    app = open_page("attention", kind="cross", display=display, queries="2", keys="3", **query)
    before = trace_of(app)
    (label,) = [each.label for each in app.button if each.key == "cut_0"]
    assert label.startswith("Cut this edge, ") and before.src_tokens[2].strip("▁") in label
    press(app, "cut_0")
    assert str(edits(app)).startswith(f"{cut} q2 k3")
    assert (app.query_params["queries"], app.query_params["keys"]) == ("2", "3")
    cross = trace_of(app).cross
    assert not cross[place][..., 1, 2].any() and cross[..., 1, 2].any()
    press(app, "cut_1")
    assert not trace_of(app).cross[..., 1, 2].any()


def test_an_edge_between_words_is_cut_between_all_their_tokens(open_page: RunApp) -> None:
    shown = {"units": "words", "display": "matrix", "layer": "mean", "queries": "1", "keys": "1"}
    app = open_page("attention", sentence="Xylophones sleep.", kind="encoder_self", **shown)
    press(app, "cut_0")
    n = trace_of(app).src_tokens[1:].index("▁s") + 1
    every = [f"cut encoder q{q + 1} k{k + 1}" for q in range(n) for k in range(n)]
    assert parse_edits(str(edits(app))) == parse_edits(every)
    assert n > 1 and not trace_of(app).encoder_self[..., :n, :n].any()


def test_edits_stay_with_page_sentence_and_model_where_it_can_take_them(
    open_page: RunApp, tiny_checkpoint: Path, tiny_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    for name in ("alpha", "beta"):
        shutil.copytree(tiny_checkpoint, tmp_path / name)
    save_checkpoint(tmp_path / "flat", uneven_model(tiny_tokenizer), tiny_tokenizer)
    given = "off encoder.2.1, off cross.1.1; cut cross k2"
    app = open_page("attention", root=tmp_path, edit=given)
    app.segmented_control(key="door_entry").set_value("Inside a head").run()
    assert edits(app) == given
    ask(app, "A dog runs.")
    assert edits(app) == given and "encoder" in messages_in(app)
    app.selectbox(key="checkpoint_box").set_value("beta").run()
    assert edits(app) == given and not app.toast
    app.selectbox(key="checkpoint_box").set_value("flat").run()
    assert edits(app) == "off cross.1.1; cut cross k2"
    (toast,) = app.toast
    assert "encoder has layers 1 to 1" in toast.value.replace("\\", "")


def test_a_switch_costs_the_new_translation_and_one_pass(
    open_page: RunApp, nothing_cached: None, forward_passes: Callable[[], int]
) -> None:
    """The encoder takes one pass, each step one, checking the maps two, and their norms two."""

    def plain() -> int:
        record = trace_of(app).search
        return 1 + len(record.steps) + 4 if record else 0

    app = open_page("attention", display="matrix", layer="1", head="2", map="cell")
    assert 0 < forward_passes() <= plain()
    press(app, "edit_switch")
    assert 0 < forward_passes() <= plain() + 2 <= 2 * plain()
    for again in ("edit_switch", "edit_switch", "undo_edit"):
        press(app, again)
        assert forward_passes() == 0


def test_heads_off_says_what_a_translation_needs(
    open_page: RunApp, tiny_translator: Translator
) -> None:
    app, whole = open_page("removals"), tiny_translator
    found = needs(whole.model, whole.trace(CAT))
    heads = {kind: each.sum(-1) for kind, each in found.heads.items()}
    kind = min(heads, key=lambda each: heads[each].min())
    layer, head = np.unravel_index(heads[kind].argmin(), heads[kind].shape)
    first = Head(kind, int(layer), int(head)).off
    text = messages_in(app)
    assert f"**{first.place}** (log-probability {signed(heads[kind].min())} nats)" in text
    press(app, f"needs {first}")
    assert edits(app) == str(first)
    place = f"{first.words.split(' layer')[0]} {layer + 1}.{head + 1}"
    assert f"**Edited:** {place} off" in messages_in(app)
    assert trace_of(app).text == whole.edited(str(first)).trace(CAT).text
    app.selectbox(key="needs_of").set_value(2).run()
    assert app.query_params["step"] in ("3", ["3"])


@pytest.mark.parametrize(("chart", "picked", "edit"), [
    ("needs", {"head_cross": [{"kind": "cross", "layer": 2, "number": 1}]}, "off cross.2.1"),
    ("parts_0", {"part": [{"n": 1}]}, "cut cross k2"),
    ("parts_1", {"part": [{"n": 2}]}, "ffn off decoder.1"),
    ("parts_2", {"part": [{"n": 1}]}, "skip encoder.2"),
])  # fmt: skip
def test_a_part_that_is_chosen_in_a_figure_is_taken_out(
    open_page: RunApp, monkeypatch: pytest.MonkeyPatch, chart: str, picked: object, edit: str
) -> None:
    """AppTest does not support selections; a browser test selects a cell."""
    draw = DeltaGenerator.altair_chart

    def selected(self: DeltaGenerator, *args: Any, key: str = "", **options: Any) -> Any:
        found = draw(self, *args, key=key, **options)
        once = key.startswith(chart) and chosen.pop()
        return {"selection": picked if once else {}} if options.get("on_select") else found

    app = open_page("removals", sentence="A dog.")
    chosen = [False, True]
    monkeypatch.setattr(DeltaGenerator, "altair_chart", selected)
    app.run()
    assert edits(app) == edit


def test_several_edits_against_the_sum_of_their_parts(
    open_page: RunApp, tiny_translator: Translator
) -> None:
    whole, rest = tiny_translator, ("skip decoder.2", "cut cross k2")
    app = open_page("removals", edit="; ".join(("off cross.1", *rest)))
    heads = range(whole.config.head_shapes["cross"][1])  # each counts, as in the tour
    chosen = (*(f"off cross.1.{head + 1}" for head in heads), *rest)
    trace = whole.trace(CAT)

    def change(*names: str) -> float:
        other = whole.edited(*names).trace(CAT, trace.predicted_ids)
        return float(other.log_probs.sum() - trace.log_probs.sum())

    alone = [change(each) for each in chosen]
    expected = f"in total by {signed(sum(alone))}; together by {signed(change(*chosen))}"
    assert expected in messages_in(app)
    assert in_sum([-5.0, -6.0], -20.0).endswith("together they are needed more than alone.")
    assert in_sum([-1.0, -2.0], -1.1).endswith("the others are needed less.")
    assert in_sum([-1.0, 0.2], -0.8).endswith("hardly depend on each other.")


def test_heads_are_pruned_and_the_model_opened_at_a_point(
    open_page: RunApp, tiny_translator: Translator
) -> None:
    app, whole = open_page("removals", sentence="A dog.", edit="off cross.1.1"), tiny_translator
    *_, made = prune(whole, own_translation(whole, whole.trace("A dog.")))
    press(app, "prune")
    assert in_words(made) in messages_in(app)
    assert "prune" not in {each.key for each in app.button}  # nothing is left to do
    fallen = tuple(-0.06 * step for step in range(len(made.heads) + 1))
    assert "not used to choose: **1**" in in_words(replace(made, unseen=fallen, n_unseen=1))
    assert "Other text may lose more" in in_words(made)
    mark = made.marks[3]
    press(app, f"left_{mark}")
    opened = edits_off(made.order[:mark], made.heads)
    assert edits(app) == ", ".join(map(str, opened)) and in_words(made) in messages_in(app)


def test_the_toy_says_what_no_positions_does(run_app: RunApp) -> None:
    app = run_app(
        Path("checkpoints"), at="removals", checkpoint="reverse-toy", sentence="stream",
        edit="no positions",
    )  # fmt: skip
    text = messages_in(app)
    assert "reversed letters are **maerts**: with all parts, 6 of 6 are in the right place" in text
    assert "unordered set of tokens" in text
    assert not any("**" in chart.proto.alt for chart in app.main.get("vega_lite_chart"))


def test_the_player_follows_a_word_through_an_edit(open_page: RunApp) -> None:
    word = messages(app := open_page("", step="3"), "player")[0][0]["rows"][2]
    rows = messages(app.button(key="edit skip decoder.2").click().run(), "player")[0][0]["rows"]
    assert rows[int(app.query_params["step"]) - 1] == word or word not in rows
