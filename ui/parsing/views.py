"""The tree and its download, and what stands in their place without a parser."""

from collections.abc import Sequence

import streamlit as st

from figures.labels import code, plain
from transformer.measures.parse import Reading, read_parse
from transformer.models.catalogue import Entry
from transformer.trace.records import Trace
from ui.components.mount import show
from ui.core.examples import title_of
from ui.core.view import View
from ui.core.widgets import layer_and_head, stores
from ui.export.download import download_button, figure_for
from ui.frame.steering import use_checkpoint
from ui.parsing.choice import ParsingChoice, chosen_node, writes_trees
from ui.parsing.exhibits import GLOSSES, drawing, parse
from ui.work.results import Computation


def reading_of(words: Sequence[str]) -> Computation[Reading]:
    """Return the computation that reads the view's trace as a tree over `words`."""
    return Computation(
        "parse", tuple(words),
        lambda model, trace: read_parse(trace, words, model.tokenizer),
    )  # fmt: skip


def draw_parse(view: View, trace: Trace, reading: Reading, words: tuple[str, ...]) -> None:
    """Draw the choice of a head, the tree, and the download."""
    n_layers, n_heads = trace.cross.shape[:2]
    chosen, picture = chosen_node(reading), st.container()
    with st.container(horizontal=True, vertical_alignment="center"):
        cell = layer_and_head("parsing", "cross", n_layers, n_heads, width=190)
        st.space("stretch")
        download_button(
            lambda: figure_for(view, parse, words=words, layer=cell[0], head=cell[1], node=chosen),
            key="parse_away", name="parse",
        )  # fmt: skip
    tree = drawing(trace, reading, words, cell).component(chosen)
    with picture:
        show(tree, key="parse_tree", on_choose=stores(ParsingChoice.node))
    st.caption(
        "The number over a phrase says how many phrases this certain are right, measured with "
        "parsing-gum on GUM's trees; no number means 90% or more. A dashed line marks a phrase "
        "below 50%."
    )
    repairs = reading.parse.rebuilt.repairs
    st.caption(
        f"Repaired to make a tree: {', '.join(repairs)}."
        if repairs
        else "The model wrote a complete tree; no repairs were needed."
    )
    labels = dict.fromkeys(node.label for node in reading.nodes)
    st.caption(
        " · ".join(f"{code(label)} {GLOSSES[label]}" for label in labels if label in GLOSSES)
    )


def offer_parsers(view: View, entries: Sequence[Entry]) -> None:
    """Draw a notice that this model does not parse, with a choice of parsers."""
    parsers = [entry for entry in entries if entry.error is None and writes_trees(entry)]
    st.info(
        f"**{plain(view.title)}** translates. Choose a parser, which writes trees:"
        if parsers
        else f"**{plain(view.title)}** translates, and no parser is installed. "
        "`python -m transformer train recipes/parsing-gum.toml` trains one.",
        icon=":material/account_tree:",
    )
    with st.container(horizontal=True):
        for entry in parsers:
            st.button(
                f"Open {plain(title_of(entry))}", key=f"parser {entry.name}", type="primary",
                on_click=use_checkpoint, args=(entry.name,),
            )  # fmt: skip


def draw_borrowed(view: View, parser: View) -> None:
    """Draw a notice that another model parses here, with a button to use it everywhere."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption(
            f"**{plain(view.title)}** translates; this tree is by **{plain(parser.title)}**.",
            width="content",
        )
        st.button(
            "Use it on every page", key=f"parser {parser.checkpoint}", type="tertiary",
            icon=":material/account_tree:", on_click=use_checkpoint, args=(parser.checkpoint,),
        )  # fmt: skip
