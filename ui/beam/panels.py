"""The panels below a search tree: one node, two branches, the finished hypotheses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import streamlit as st

from figures.beam import branch_curves, lead_by_alpha
from figures.labels import row_labels
from figures.markdown import code, plain, shorten
from figures.numbers import probability, signed
from figures.outcomes import (
    Decode,
    penalty_of,
    place_at,
    score_arithmetic,
    summary,
    text_of,
    why_it_went,
    why_the_winner_won,
)
from transformer.measures.beam import Comparison, Node, Tree, attention_along, beam_tree, compare
from transformer.measures.finish import ALPHAS, score_at
from transformer.measures.heads import combine
from transformer.measures.words import group_labels, merge
from transformer.trace.records import Trace
from ui.beam.choice import LOOKS, PAGE, BeamChoice, Mark, Slot, Start, chosen, put, update_tree
from ui.beam.exhibits import cell_name
from ui.beam.maps import draw_axes, show_map
from ui.components.grid import Cell
from ui.components.mount import show
from ui.components.tree import branch_colours, branches_component, tree_component
from ui.core import url_state
from ui.core.glossary import linked, term, word_start
from ui.core.theme import current_theme
from ui.core.units import in_units
from ui.core.url_state import Param
from ui.core.view import View
from ui.core.widgets import bound
from ui.frame.steering import begin_with
from ui.work.cache import Computation, computed, get_translator
from ui.work.pictures import drawn

#: The tree of a search.
TREE: Computation[Tree] = Computation("beam-tree", (), lambda _, trace: beam_tree(trace))


@dataclass(frozen=True)
class Search:
    """One view's search, as the panels use it.

    Attributes:
        view: the settings.  trace, tree: the record of the search.  decode: token ids to text.
    """

    view: View
    trace: Trace
    tree: Tree
    decode: Decode


def search_of(view: View, trace: Trace) -> Search:
    """Return the search of a view whose trace recorded it."""
    decode = get_translator(view).tokenizer.target.decode
    return Search(view, trace, tree_of(view), decode)


def tree_of(view: View) -> Tree:
    """Return the tree of the view's search."""
    return computed(view, *TREE)


def draw_tree(
    search: Search, start: Start, follow: Callable[[View, Tree], None], slot: Slot = PAGE
) -> None:
    """Mount the tree.

    Args:
        follow: called when a node is chosen in the tree.
    """
    view, tree = search.view, search.tree
    shown = tree_component(
        tree, start.tree_id, start.choice, summary(tree, search.decode), start.nonce,
        single=slot.b is None,
    )  # fmt: skip
    show(shown, key=slot.key, on_view_change=lambda: follow(view, tree))


def draw_why(search: Search, lead: str = "") -> None:
    """Say why the winner won, with the arithmetic as help; `lead` starts the line."""
    why = why_the_winner_won(search.tree, search.decode)
    arithmetic = score_arithmetic(search.tree, search.decode)
    st.markdown(
        lead + linked(why, "score", "log P"),
        help=linked(arithmetic, "score", "log P", "length penalty", "α") or None,
    )


def node_panel(search: Search) -> None:
    """Draw node A's numbers, and where the model looked while predicting its token."""
    tree = search.tree
    node = chosen(tree, BeamChoice.a)
    if node is None:
        st.caption("Choose a node in the tree to see its numbers and its attention.")
        return
    numbers, maps = st.columns([2, 3], gap="large")
    with numbers.container():
        draw_node(search, node)
        _draw_go_on_button(search, node)
    with maps.container():
        _node_maps(search, node, draw_axes(search.trace))


def draw_node(search: Search, node: Node, letter: str = "") -> None:
    """Draw a node's token, what became of it and why, and its numbers."""
    step = f"{letter} · step" if letter else "Step"
    st.markdown(f"**{step} {node.step + 1}: {code(node.token, 30)}** after {_so_far(search, node)}")
    st.markdown(linked(why_it_went(search.tree, node), "score", "log P", "prefix"))
    st.table(numbers_of(search.tree, node), border="horizontal", hide_header=True, hide_index=True)


def _draw_go_on_button(search: Search, node: Node) -> None:
    """Draw the button that continues the search from a node, even from a dropped one."""
    if node.outcome in ("finished", "cut"):
        return
    ids = [each.token_id for each in search.tree.prefix(node.index)]
    st.button(
        "Go on from here", icon=":material/alt_route:", key="beam_go_on",
        on_click=begin_with, args=(ids,),
        help="Search again, with every hypothesis starting with the tokens up to this one.",
    )  # fmt: skip


def _so_far(search: Search, node: Node) -> str:
    before = text_of(search.tree, node.parent, search.decode) if node.parent >= 0 else ""
    return code("…" + before[-50:] if len(before) > 51 else before, 60) if before else "nothing yet"


def numbers_of(tree: Tree, node: Node) -> dict[str, list[str]]:
    """Return the node's numbers as two columns, names and values."""
    rows = {
        "log p of this token": f"{signed(node.log_prob, 3)} ({probability(node.log_prob)})",
        "log P so far, their sum": signed(node.total, 3),
        f"length penalty, α = {tree.alpha:g}": penalty_of(node.length, tree.alpha, tree.rule),
        "score, log P / penalty": signed(node.score, 3),
        "rank at this step": f"{node.rank + 1} of {len(tree.steps[node.step])}",
    }
    terms = ("log p", "score", "length penalty", "α", "nats")
    return {
        "what": [linked(plain(name), *terms) for name in rows],
        "value": [plain(value) for value in rows.values()],
    }


def _node_maps(search: Search, node: Node, cell: Cell) -> None:
    """Draw the attention of the query that predicted a node, over the source and the prefix."""
    record, trace, tree = search.trace.search, search.trace, search.tree
    assert record is not None
    step = record.steps[node.step]
    prefix = ("<s>", *(each.token for each in tree.prefix(node.parent)))
    st.caption(
        "Where the model looked while it predicted this token. Its siblings come from the same "
        "query, so they share this picture. "
        + linked("Self-attention looks at the token's own prefix. ", "prefix")
        + word_start(trace.src_tokens)
    )
    for kind, weights, keys, special, title in (
        ("cross", step.cross[node.row], trace.src_tokens, trace.src_special, "source"),
        ("decoder_self", step.decoder_self[node.row], prefix, (0,), "its own prefix"),
    ):
        row = combine(weights[:, :, None], layer=cell[0], head=cell[1])
        labels, groups = in_units(keys, special)
        show_map(
            merge(row, None, groups), row_labels(prefix[-1:], (node.token,)), labels,
            name=f"{LOOKS[kind]}, {cell_name(cell)}", keys=title,
            key=f"beam_{kind}", max_height=190,
        )  # fmt: skip


def compare_panel(search: Search) -> None:
    """Draw two branches: tokens, log-probabilities, curves and attention."""
    tree = search.tree
    a, b = chosen(tree, BeamChoice.a), chosen(tree, BeamChoice.b)
    _choose_branches(search)
    if a is None or b is None:
        st.caption(
            "Fewer than two hypotheses finished. Press B, then choose a second node in the tree."
            if len(tree.leaves) < 2
            else "Choose a second node: press B and choose it in the tree, or pick one from the "
            "list."
        )
        return
    both = compare(tree, a.index, b.index)
    st.markdown(linked(_parting(both), "log p", "nats"))
    show(branches_component(both), key="beam_branches")
    names = {"A": both.a, "B": both.b}
    tokens = {name: [node.token for node in path] for name, path in names.items()}
    theme = current_theme()
    for column, title, values in zip(
        st.columns(2, gap="large"),
        ("log P", "score"),
        (
            {name: [node.total for node in path] for name, path in names.items()},
            {name: [node.score for node in path] for name, path in names.items()},
        ),
        strict=True,
    ):
        column.altair_chart(
            drawn(
                branch_curves,
                values,
                tokens,
                both.shared,
                branch_colours(theme),
                theme,
                title=f"{title} (nats)",
            ),
            theme=None,
            alt=f"{title} of A and B after every step; A ends at {values['A'][-1]:.2f}, "
            f"B at {values['B'][-1]:.2f}",
        )
    _branch_maps(search, both)


def _choose_branches(search: Search) -> None:
    """Draw the lists for A and B: finished hypotheses, and the nodes chosen in the tree."""
    tree = search.tree
    for column, param, name in zip(
        st.columns(2, gap="large"), (BeamChoice.a, BeamChoice.b), "AB", strict=True
    ):
        node = chosen(tree, param)
        options = list(tree.leaves)
        if node is not None and node.index not in options:
            options.append(node.index)
        key = f"beam_{name}_box"
        wanted = None if node is None else node.index
        if st.session_state.get(key, wanted) != wanted or key not in st.session_state:
            st.session_state[key] = wanted

        column.selectbox(
            name, options, key=key, on_change=partial(_take, search, param, key),
            placeholder="Choose one", format_func=partial(branch_name, search),
            help=term("branch"),
        )  # fmt: skip


def _take(search: Search, param: Param[Mark | None], key: str) -> None:
    put(search.tree, param, st.session_state[key])
    update_tree(search.view, search.tree)


def branch_name(search: Search, index: int) -> str:
    """Return a branch's label in a list: place and text if it finished, else its step and rank."""
    tree, text = search.tree, shorten(text_of(search.tree, index, search.decode), 80)
    if index in tree.leaves:
        return f"#{tree.leaves.index(index) + 1}  {text}"
    node = tree.node(index)
    return f"Step {node.step + 1}, rank {node.rank + 1}:  {text}"


def _parting(both: Comparison) -> str:
    """Say where two branches part, and what log-probability each adds from there."""
    if both.same:
        if len(both.a) == len(both.b):
            return "A and B are the same node."
        shorter = "A" if len(both.a) < len(both.b) else "B"
        return f"{shorter} is the beginning of the other branch: they never part."
    at = both.shared
    a, b = both.a[at], both.b[at]
    return (
        f"They share {at} token{'' if at == 1 else 's'} and part at step {at + 1}: A takes "
        f"{code(a.token, 30)} (log p {signed(a.log_prob)}), B {code(b.token, 30)} "
        f"({signed(b.log_prob)}). From there A adds {signed(_log_prob_from(both.a, at))} nats over "
        f"{len(both.a) - at} and B {signed(_log_prob_from(both.b, at))} over {len(both.b) - at} "
        "tokens."
    )


def _log_prob_from(path: Sequence[Node], start: int) -> float:
    return sum(node.log_prob for node in path[start:])


def _branch_maps(search: Search, both: Comparison) -> None:
    trace = search.trace
    assert trace.search is not None
    with st.container(horizontal=True, vertical_alignment="center"):
        st.segmented_control(
            "Attention", LOOKS, format_func=LOOKS.__getitem__, required=True,
            label_visibility="collapsed", **bound(BeamChoice.look),
        )  # fmt: skip
        cell = draw_axes(trace)
    kind = url_state.get(BeamChoice.look)
    for column, name, path in zip(st.columns(2, gap="large"), "AB", (both.a, both.b), strict=True):
        attention = attention_along(trace.search, search.tree, path[-1].index)
        maps = attention.cross if kind == "cross" else attention.decoder_self
        tokens = [node.token for node in path]
        own = ("<s>", *tokens[:-1])
        reads, query_groups = in_units(own, (0,))
        predicts = tokens if query_groups is None else group_labels(tokens, query_groups)
        keys, key_groups = in_units(
            *((trace.src_tokens, trace.src_special) if kind == "cross" else (own, (0,)))
        )
        weights = combine(maps, layer=cell[0], head=cell[1])
        with column.container():
            show_map(
                merge(weights, query_groups, key_groups), row_labels(reads, predicts), keys,
                name=f"{name}: {LOOKS[kind].lower()}, {cell_name(cell)}",
                keys="source" if kind == "cross" else "its prefix",
                key=f"beam_map_{name}", causal=kind == "decoder_self" and key_groups is None,
            )  # fmt: skip


def finished_panel(search: Search) -> None:
    """Draw the finished hypotheses with their scores, and what another α would change."""
    tree = search.tree
    if not tree.leaves:
        st.caption("No hypothesis finished.")
        return
    leaves = [tree.node(index) for index in tree.leaves]
    rows: dict[str, list[str]] = {
        "place": [str(place) for place in range(1, len(leaves) + 1)],
        "translation": [
            plain(text_of(tree, node.index, search.decode)) or "\\(empty\\)" for node in leaves
        ],
        linked("log P", "log p"): [signed(node.total, 3) for node in leaves],
        "tokens": [str(node.length) for node in leaves],
        "penalty": [f"{tree.penalty(node.length):.3f}" for node in leaves],
        linked("score", "score"): [signed(node.score, 3) for node in leaves],
        linked("place at α = 0", "α"): [str(place_at(tree, i, 0.0)[0]) for i in range(len(leaves))],
    }
    st.table(rows, border="horizontal", hide_index=True)
    if len(leaves) > tree.beam_size:
        st.caption(f"The search reports the best {tree.beam_size} of these.")
    if tree.beam_size > 1 and len(leaves) > 1:
        _alpha_chart(tree, leaves)


def _alpha_chart(tree: Tree, leaves: Sequence[Node]) -> None:
    alphas = np.linspace(*ALPHAS, 41)
    shown = leaves[:16]
    scores = np.array([[score_at(node, alpha, tree.rule) for node in shown] for alpha in alphas])
    names = [f"#{place}" for place in range(1, len(shown) + 1)]
    st.altair_chart(
        drawn(lead_by_alpha, alphas, scores, names, tree.alpha, current_theme()),
        theme=None,
        alt=f"Score of {len(shown)} translations minus the winner's, for α from 0 to 2; the search "
        f"used {tree.alpha:g}",
    )
    st.caption(
        linked(
            "How they would compare under another α: a translation above 0 would beat the winner. "
            "A search with that α would drop the same candidates, since all hypotheses at a step "
            "are equally long, but it may stop at another step and so finish others.",
            "α",
        )
    )
