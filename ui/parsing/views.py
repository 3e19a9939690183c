"""The Parsing page: its choices and its tree, and what replaces them without a parser."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import streamlit as st

from figures.labels import code, plain
from transformer.measures.parse import Reading, read_parse
from transformer.models.catalogue import Entry
from transformer.search.request import default_decoding
from transformer.trace.records import Trace
from transformer.training.corpus import TREE
from transformer.trees.tree import split_words
from ui.components.mount import show
from ui.core import url_state
from ui.core.examples import data_of_training, title_of
from ui.core.url_state import Param
from ui.core.view import View
from ui.core.widgets import PlaceChoice, layer_and_head, stores
from ui.export.download import download_button, figure_for
from ui.frame.steering import use_checkpoint
from ui.parsing.exhibits import GLOSSES, drawing, parse
from ui.work.results import Computation


@dataclass(frozen=True)
class ParsingChoice(PlaceChoice):
    """The URL parameters: a head, and a node of the tree."""

    node: Param[int | None] = url_state.position("node")


def writes_trees(entry: Entry) -> bool:
    """Return True if a checkpoint's record, which is untrusted, says that it writes trees."""
    return data_of_training(entry.metrics).get("tgt") == TREE


def through_parser(view: View, entries: Sequence[Entry]) -> View | None:
    """Return the view of the same sentence through the first parser, with its default decoding.

    None where there is no parser, or the view's model reads a language that parsers do not.
    """
    if data_of_training(view.entry.metrics).get("src") not in (None, "en"):
        return None
    for entry in entries:
        if entry.error is None and writes_trees(entry):
            own = default_decoding(entry.metrics)
            return replace(view, entry=entry, beam_size=own.beam_size, alpha=own.alpha)
    return None


def as_words(view: View) -> tuple[View, tuple[str, ...]]:
    """Return the view of the sentence as the parser reads it, split into words, and the words."""
    words = tuple(split_words(view.sentence))
    return replace(view, sentence=" ".join(words), prefix=(), target=None, sampling=None), words


def chosen_node(reading: Reading) -> int:
    """Return the stored node's index, by default that of the first phrase below the root."""
    stored = url_state.index(ParsingChoice.node, len(reading.nodes))
    if stored is not None:
        return stored
    inside = (index for index, node in enumerate(reading.nodes) if index and not node.is_word)
    return next(inside, 0)


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
