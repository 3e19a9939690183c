"""The vectors that a model adds for positions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import streamlit as st

from figures.exhibit import Exhibit
from figures.markdown import plain
from transformer.checkpoint.position_tables import about_table
from transformer.config import ModelConfig
from transformer.positions import StoredPositions, TablePositions
from transformer.trace import position_vectors
from transformer.trace.embeddings import Side as TextSide
from transformer.translator import Translator
from transformer.types import Floats
from ui.core.glossary import term
from ui.core.side import Side
from ui.core.view import View
from ui.core.widgets import bound, choose_one
from ui.export.download import source_of
from ui.frame.twice import Download, Pair, Twice
from ui.positions.exhibits import own_exhibit
from ui.positions.views import PositionsChoice, draw_positions
from ui.work.cache import get_translator
from ui.work.models import translator

#: The text that each stack reads.
STACKS: dict[str, TextSide] = {"Encoder": "source", "Decoder": "translation"}


@dataclass(frozen=True, eq=False)
class OwnPositions:
    """The position vectors of one stack of a model.

    Attributes:
        table: [n, d_model], added to the embeddings at positions 0, 1, ...; shorter than asked for
            if a learned or stored table ends.
        about: the kind of positions, in a few words.
    """

    table: Floats
    about: str


def own_positions(model: Translator, side: TextSide, n: int) -> OwnPositions:
    """Return the first `n` position vectors of the model's own module."""
    module = model.model.src_positions if side == "source" else model.model.tgt_positions
    if isinstance(module, TablePositions):
        n = min(n, module.table.size(0))
    table: Floats = module(0, n).detach().float().cpu().numpy()
    described = about(model.config)
    if isinstance(module, StoredPositions):
        described += f": {about_table(module.table, model.config)}"
    return OwnPositions(table, described)


def about(config: ModelConfig) -> str:
    """Return the kind of a model's positions, in a few words."""
    if config.positions == "relative":
        return "nothing is added, heads count distances"
    if config.positions != "sinusoidal":
        return f"{config.positions}, a table of {config.max_positions:,} × {config.d_model}"
    shifted = "" if not config.position_offset else f", counted from {config.position_offset}"
    ending = "" if config.position_frequencies == "paper" else ", slower to the end"
    return f"sinusoids, {config.position_layout}, {config.d_model} dimensions{shifted}{ending}"


def own_now(view: View) -> OwnPositions:
    """Return the vectors of the chosen stack, as many as are chosen."""
    chosen = PositionsChoice.read()
    return own_positions(get_translator(view), STACKS[chosen.side], chosen.length)


def draw_twice(pair: Pair) -> Download | None:
    """Draw the table that each side adds."""
    length, which = pair.controls.columns([3, 2], gap="large", vertical_alignment="bottom")
    n = length.slider(
        "Positions", 8, 512, help=term("positional encoding"), **bound(PositionsChoice.length)
    )
    stack = choose_one("Stack", PositionsChoice.side, list(STACKS), which)
    found = {side.letter: own_now(side.view) for side in pair.shown}

    def table(side: Side) -> None:
        own = found[side.letter]
        st.markdown(f"{side.lead}{plain(own.about)}")
        count, width = own.table.shape
        draw_positions(
            st.container(), own.table, side.key("positions"),
            f"{side.letter}: what is added at {count} positions in {width} dimensions.",
            height=330, trained=position_vectors.trained_positions(side.view.entry.metrics),
        )  # fmt: skip

    pair.rows(table)
    pair.links()
    return pair.download(
        lambda side: partial(_figure, side.view, stack, n), f"{stack} positions",
        2 * sum(own.table.size for own in found.values()),
    )  # fmt: skip


def _figure(view: View, stack: str, n: int) -> Exhibit:
    own = own_positions(translator(view), STACKS[stack], n)
    return own_exhibit(own.table, own.about, stack, source_of(view))


def _lacks(side: Side) -> str | None:
    if side.view.kind == "checkpoint":
        return None
    return f"Position vectors need a Headlight checkpoint; {side.view.checkpoint} is none."


TWICE = Twice(
    "positions",
    draw_twice,
    page="positions",
    params=(PositionsChoice.length, PositionsChoice.side),
    lacks=_lacks,
)
