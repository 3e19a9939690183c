"""The page "Word for word": the links of a sentence, and which head aligns best."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import streamlit as st

from figures.attention import head_table
from figures.labels import cell_name, plain, signed
from transformer.evaluation.alignment import FOLDER, Aligned, Grid, error_grid, letters, read_gold
from transformer.measures.heads import mutual_information
from transformer.measures.pharaoh import MOST_CHARACTERS, MOST_PAIRS, Linked, read_linked, written
from transformer.measures.words import Row, links, words_of
from transformer.trace.records import Trace
from transformer.training.data import reversal
from transformer.training.linked import linked_sentences
from transformer.training.typed import has_languages
from transformer.translator import Translator
from transformer.types import Floats, InputError, Report
from ui.alignment import exhibits
from ui.components.mount import show
from ui.core import url_state
from ui.core.examples import languages_of_training
from ui.core.glossary import linked
from ui.core.layout import current_theme, draw_chart
from ui.core.presenter import presenting
from ui.core.url_state import HEAD, KIND, LAYER, Param, one_of
from ui.core.view import Side, View
from ui.core.widgets import (
    Choice,
    bound,
    cell_measure,
    cells_control,
    choose_one,
    layer_and_head,
    sets,
)
from ui.export.download import download_button, figure_for
from ui.frame.steering import draw_steer_form
from ui.work.desk import MEASURING, computed, drawn, get_tracer, run
from ui.work.results import Computation

_NO_EFFECT = (
    " Effects are left out: for each head, every pair of words would have to be cut and read again."
)
#: Pairs of a set that the page reads; the command line reads all.
MOST = 100
_OWN = "headlight_own_links"

#: Where gold links come from, and their names on screen.
GOLDS = {
    "made": "Training text with known links", "letters": "Strings and their reversals",
    "drawn": "RWTH: links drawn by people", "own": "My own",
}  # fmt: skip


@dataclass(frozen=True)
class AlignmentChoice(Choice):
    """The URL parameters; `LAYER` and `HEAD` are shared with other pages."""

    row: Param[str] = Param("row", one_of(get_args(Row)), "reading")
    soft: Param[bool] = url_state.switch("soft")
    gold: Param[str] = Param("gold", one_of(GOLDS), "made")
    #: whether every head is measured against `gold`
    errors: Param[bool] = url_state.switch("errors", of="model gold")
    layer: Param[int | None] = LAYER
    head: Param[int | None] = HEAD
    kind: Param[str] = KIND


def row_now() -> Row:
    """Return the stored row."""
    return next(row for row in get_args(Row) if row == url_state.get(AlignmentChoice.row))


def place_now(trace: Trace) -> tuple[int | None, int | None]:
    """Return the layer and head, from 0; by default the most selective head of layer 1."""
    stored = url_state.stored(LAYER) or url_state.stored(HEAD)
    n_layers, n_heads = trace.cross.shape[:2]
    if stored:
        return url_state.cell(n_layers, n_heads, "cross")
    return 0, int(mutual_information(trace.cross[:1]).argmax())


def map_of(side: Side) -> Computation[Floats]:
    """Return the computation of the map on screen."""
    place = cell_measure(), *place_now(side.trace), row_now()
    return Computation(
        "word map", place, lambda model, trace: exhibits.word_map(model, trace, *place)
    )  # fmt: skip


def draw_links(side: Side) -> None:
    """Draw the controls, the crossing lines and the links in words."""
    view, trace, row = side.view, side.trace, row_now()
    layers, heads = trace.cross.shape[:2]
    with st.container(key="after_choice", horizontal=True, vertical_alignment="center"):
        cell = layer_and_head("alignment", "cross", layers, heads, cell=place_now(trace), width=150)
        names = {name: f"{name.capitalize()} row" for name in exhibits.ROWS}
        choose_one("Row", AlignmentChoice.row, names, st.container(width="content"))
        st.toggle("Soft", **bound(AlignmentChoice.soft), help="All links that together hold 90% "
                  "of a word's row, not just the largest.")  # fmt: skip
        cells_control()
    soft, maps = url_state.get(AlignmentChoice.soft), computed(view, map_of(side))
    if presenting():  # the controls are below
        st.markdown(f"**Cross-attention, {cell_name(cell)}**: {cell_measure()}, {row} row")
    show(
        exhibits.drawing_of(trace, row, maps, soft=soft).component(max_height=400), key="alignment"
    )
    found = sorted(links(maps), key=lambda link: link[::-1])
    words = words_of(trace, row, exhibits.units_of(trace, row))
    spelled = " · ".join(
        f"{plain(words.targets[target])} ← {plain(words.sources[source])}"
        for source, target in found
    )
    log_probs = trace.log_probs
    st.markdown(
        f"**In words** ({exhibits.ROWS[row]}): {spelled}  \n:gray["
        f"{'The given' if trace.forced else 'This'} translation has log-probability "
        f"{signed(float(log_probs.sum()))} nats, {signed(float(log_probs.mean()))} a token.]"
    )
    pharaoh = "In Pharaoh format: pairs of word numbers, source-target, counted from 0."
    st.caption(linked(pharaoh, "Pharaoh format"))
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.code(written(found), language=None, wrap_lines=True)
        st.space("stretch")
        if view.kind == "checkpoint":
            with st.popover("Your own translation", type="tertiary", icon=":material/edit:"):
                draw_steer_form(view)
        download_button(
            partial(
                figure_for, view, exhibits.word_for_word, measure=cell_measure(),
                layer=cell[0], head=cell[1], row=row, soft=soft,
            ),
            key="alignment", name=f"word-for-word-{cell_measure()}", n_numbers=maps.size,
        )  # fmt: skip


def golds_of(view: View) -> tuple[str, ...]:
    """Return the sets of gold links that fit a model's languages."""
    source, target = languages_of_training(view.entry.whole, view.entry.metrics)
    golds = ["made"] * has_languages(source, target)
    golds += ["letters"] * (view.examples.kind == "letters")
    if {source, target} == {"en", "de"} and _folder() is not None:
        golds.append("drawn")
    return (*golds, "own")


def _folder() -> Path | None:
    """Return the folder that has the links drawn by people, or None."""
    root = Path(__file__).parents[2]
    places = [os.environ.get("HEADLIGHT_DATA"), root / "data", root.parent / "shared" / "data"]
    found = (Path(place) for place in places if place and (Path(place) / FOLDER).is_dir())
    return next(found, None)


def gold_of(name: str, view: View) -> Aligned:
    """Return a set of gold links, at most `MOST` of its pairs. Raises `DataError`."""
    source, target = languages_of_training(view.entry.whole, view.entry.metrics)
    if name == "drawn" and (folder := _folder()) is not None:
        aligned = read_gold(folder, source)
        return Aligned(aligned.pairs[:MOST], aligned.gold[:MOST])
    if name == "letters":
        # Letters that occur twice can be told apart by their places alone, which is harder.
        tests = (text for text, _ in reversal(4000).tests["reverse_test"])
        texts = [text for text in tests if 1 < len(text) == len({*text})][:MOST]
        return letters(texts)
    return joined(linked_sentences(source, target)[:MOST], partial=True)


def joined(rows: Sequence[Linked], *, partial: bool = False) -> Aligned:
    """Return linked pairs as a set of gold links."""
    pairs = tuple((row.source, row.target) for row in rows)
    return Aligned(pairs, tuple(row.gold for row in rows), partial=partial)


def draw_errors(view: View) -> None:
    """Draw the choice of gold links and, once asked for, the grid of alignment errors."""
    model = get_tracer(view)
    st.markdown("#### Which head aligns best?")
    golds = golds_of(view)
    stored = url_state.get(AlignmentChoice.gold)
    chosen = stored if stored in golds else golds[0]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.selectbox(
            "Links to compare with", golds, format_func=GOLDS.__getitem__, width=320,
            **bound(AlignmentChoice.gold, value=chosen),
        )  # fmt: skip
        aligned = _own() if chosen == "own" else gold_of(chosen, view)
        if aligned is not None:
            st.button("Measure every head", key="errors_asked", icon=":material/grid_on:",
                      **sets(AlignmentChoice.errors, True))  # fmt: skip
    if aligned is not None and url_state.get(AlignmentChoice.errors):
        every = isinstance(model, Translator) and view.kind == "checkpoint"
        options: dict[str, Any] = {} if every else {"measures": ["weight"]}

        def make(report: Report) -> Grid:
            return error_grid(model, aligned, progress=report, **options)

        work = ("alignment", view.entry.ref, view.device, aligned)
        _draw_grid(run(work, make, MEASURING))


def _own() -> Aligned | None:
    """Draw the field for a visitor's own links, and return them if they are valid."""
    first = st.selectbox("Words count from", [0, 1], key="own_first", width=130)
    text = st.text_area(
        f"One pair a line, at most {MOST_PAIRS}: source ||| target ||| 0-0 1-2 2p3 (p: possible)",
        st.session_state.get(_OWN, ""), max_chars=MOST_CHARACTERS, key="own_links",
    )  # fmt: skip
    st.session_state[_OWN] = text
    try:
        return joined([*read_linked(text, first)]) if text.strip() else None
    except InputError as error:
        st.warning(
            plain(f"{str(error)[:1].upper()}{str(error)[1:]}."), icon=":material/short_text:"
        )
        return None


def _draw_grid(grid: Grid) -> None:
    best, row, name = grid.best(), row_now(), cell_measure()
    where = cell_name((best.layer, best.head), "together").capitalize()
    low, high = best.interval
    st.markdown(
        f"**{where}, by {best.measure}, in {exhibits.ROWS[best.row]}.** Chosen on one "
        f"half of {len(grid.counts)} pairs, where its alignment error (AER) is {best.chosen:.3f}; "
        f"on the other half it is **{best.error:.3f}** (95% interval {low:.3f} to {high:.3f}), and "
        f"a guess along the diagonal has {best.diagonal:.3f}."
    )
    places = zip(("layer", "head"), (best.layer, best.head), strict=True)
    link = {name: "mean" if index is None else str(index + 1) for name, index in places}
    st.button("Draw its links above", key="use_best", on_click=url_state.bring,
              args=({"kind": "cross", "row": best.row, "cell": best.measure, **link},))  # fmt: skip
    measure = name if name in grid.measures else "weight"
    errors = grid.errors()[list(grid.measures).index(measure), get_args(Row).index(row)]
    at = tuple(
        int(place) for place in np.unravel_index(errors[:, :-1].argmin(), errors[:, :-1].shape)
    )
    st.caption(
        f"AER of each head by {measure}, in {exhibits.ROWS[row]}, over all pairs; 0 is best."
        + _NO_EFFECT * (name == "effect")
    )
    draw_chart(
        drawn(head_table, errors[:, :-1], current_theme(), what="AER"),
        f"Least error: layer {at[0] + 1}, head {at[1] + 1}, {errors[at]:.2f}.", key="errors",
    )  # fmt: skip
    lines = ["| measure | row | best place | AER, other half |", "|---|---|---|---|"]
    for one in (grid.best(measure, row) for measure in grid.measures for row in get_args(Row)):
        place = cell_name((one.layer, one.head), "together")
        lines.append(f"| {one.measure} | {one.row} | {place} | {one.error:.3f} |")
    lines.append(f"| none | | a guess along the diagonal | {best.diagonal:.3f} |")
    st.markdown("\n".join(lines))
    heads = json.dumps({
        "alignment_heads": grid.alignment_heads(), "measure": best.measure, "row": best.row,
    })  # fmt: skip
    st.caption("Your alignment heads, [layer, head] from 0, better than the diagonal, to copy:")
    st.code(heads, language="json", wrap_lines=True)
    download_button(lambda: exhibits.grid_exhibit(grid), key="errors", name="alignment-errors")
