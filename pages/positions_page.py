"""Positions: how a model without recurrence represents token order (section 3.5)."""

import streamlit as st

from transformer.config import ModelConfig, PositionLayout
from transformer.trace import position_vectors
from ui.compare.texts import POSITIONS
from ui.core import url_state
from ui.core.glossary import term
from ui.core.url_state import HEAD, KIND, LAYER, Param
from ui.core.view import View
from ui.core.widgets import bound, choose_one
from ui.frame.page import Entry, Page
from ui.positions import views
from ui.positions.views import SPLIT, draw_split
from ui.work.desk import get_translator

LAYOUTS: tuple[PositionLayout, ...] = ("interleaved", "concatenated")
PARTS = {"encoding": "The encoding", "model": "In layer 1 of this model"}
PART: Param[str] = Param("part", url_state.one_of(PARTS), "encoding")


def draw_encoding(view: View, config: ModelConfig | None, trained: int | None) -> None:
    """Draw the formula and its consequences; needs no model."""
    model = get_translator(view) if config and config.positions != "sinusoidal" else None
    tables = position_vectors.tables_of(model.model) if model else {}
    own = config.d_model + config.d_model % 2 if config else 512
    opens_with: PositionLayout = config.position_layout if config else LAYOUTS[0]
    width_param: Param[int] = Param("d", url_state.whole(2, 2048), min(own, 2048))
    layout_param: Param[str] = Param("layout", url_state.one_of(LAYOUTS), opens_with)
    url_state.show(width_param, layout_param)
    views.PositionsChoice.show()

    first = st.container()  # the picture; its controls are below
    inputs = st.columns([2, 3, 3], gap="large", vertical_alignment="top")
    width = inputs[0].number_input(
        "Width d_model", 2, 2048, step=2, **bound(width_param),
        help=term("d_model") + "\n\nOpens at the model's own width.",
    )  # fmt: skip
    n_positions = inputs[1].slider(
        "Positions", 8, 512, help=term("positional encoding"), **bound(views.PositionsChoice.length)
    )
    layout = choose_one(
        "Layout", layout_param, {name: name.capitalize() for name in LAYOUTS}, inputs[2],
        label_visibility="visible",
        help="Order of sines and cosines: alternating, as in the paper's formula, or all "
        "sines and then all cosines, as in other implementations.",
    )  # fmt: skip
    note = ""
    if config:
        note = (
            position_vectors.stored_note(model.model)
            if model and config.positions != "relative"
            else position_vectors.unlike_the_paper(config)
        )
    if note and tables:
        note += (
            " The end of this page shows it, and one of its dimensions appears among the curves "
            "beyond training; all other pictures show the paper's formula."
        )
    if note:
        st.caption(note)
    if width % 2:
        st.caption(f"Sines and cosines come in pairs, so {width} dimensions become {width + 1}.")
    d_model = width + width % 2

    kind = config.positions if config and model else "learned"
    beyond = "learned" if kind == "relative" else kind
    if model and kind == "relative":
        views.draw_distances(view, model)
    with first:
        views.draw_shift(d_model, layout)
    views.draw_table(d_model, n_positions, layout, trained)
    views.draw_products(d_model, n_positions, layout)
    views.draw_beyond(view, d_model, n_positions, trained, tables, beyond)
    if model is None:
        views.say_nothing_learned(view)
    elif kind == "stored":
        views.draw_stored(view, model)
    elif tables:
        views.draw_learned(view, model)


def whole(view: View) -> None:
    """Draw the chosen part."""
    entry = view.entry if view.checkpoint else None
    config = entry.config if entry else None
    row = st.container(horizontal=True, vertical_alignment="center")
    row.markdown("How does a model that reads all tokens at once know their order?")
    if choose_one("Part", PART, PARTS, row, width="content") == "encoding":
        trained = position_vectors.trained_positions(entry.metrics) if entry else None
        draw_encoding(view, config, trained)
    elif config is None:
        st.info(
            "Position vectors need a Headlight model."
            if view.checkpoint
            else "No model is loaded, so there is no layer to look into."
        )
    else:
        url_state.show(SPLIT, KIND, LAYER, HEAD)
        draw_split(view, config)


PAGE = Page(
    "positions", "Positions", ":material/waves:", whole=whole,
    entries=(Entry("The whole model", 3),),
    model="shown",
    choice=(PART,),
    beside=(POSITIONS,),
)  # fmt: skip
