"""Panels below a search tree: one node, two branches, finished hypotheses."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np
import streamlit as st

from figures import outcomes
from figures.beam import branch_curves, lead_by_alpha
from figures.exhibit import Exhibit, file_stem
from figures.labels import code, plain, probability, shorten, signed
from transformer.measures.beam import Comparison, Node, Tree, beam_tree, compare
from transformer.measures.finish import ALPHAS, ranking, score_at
from transformer.trace.records import Trace
from ui.beam import exhibits
from ui.beam.choice import PAGE, BeamChoice, Slot, choice, chosen, put
from ui.beam.exhibits import LOOKS, branch_maps, node_maps
from ui.components.grid import Cell
from ui.components.lens import Map
from ui.components.mount import show
from ui.components.tree import TreeChoice, branch_colours, branch_components, tree_component
from ui.core import url_state
from ui.core.glossary import linked, term, word_start
from ui.core.layout import current_theme, draw_chart, draw_map, text_scale
from ui.core.view import View
from ui.core.widgets import UNITS, choose_one, filled, layer_and_head, units_control
from ui.export.download import download_button, figure_for
from ui.frame.page import link_to
from ui.frame.steering import begin_with, why_link
from ui.work.desk import computed, drawn, get_translator
from ui.work.results import Computation

#: The tree of a search.
TREE: Computation[Tree] = Computation("beam-tree", (), lambda _, trace: beam_tree(trace))


@dataclass(frozen=True)
class Search:
    """One view's search for the panels."""

    view: View
    trace: Trace
    tree: Tree
    decode: outcomes.Decode  # token ids to text


def search_of(view: View, trace: Trace) -> Search:
    """Return a view's search, which its trace recorded."""
    decode = get_translator(view).tokenizer.target.decode
    return Search(view, trace, computed(view, TREE), decode)


def draw_tree(
    search: Search, follow: Callable[[Tree, TreeChoice], None], slot: Slot = PAGE
) -> None:
    """Show the tree and call `follow` when a node is chosen."""
    tree = search.tree
    shown = tree_component(
        tree, choice(tree, slot), outcomes.summary(tree, search.decode),
        of=search.view.request.name, single=slot.b is None,
    )  # fmt: skip
    show(shown, key=slot.key, on_choose=partial(follow, tree))


def draw_why(search: Search, lead: str = "") -> None:
    """Explain after `lead` why the winner won, with the arithmetic as help."""
    why = outcomes.why_the_winner_won(search.tree, search.decode)
    arithmetic = outcomes.score_arithmetic(search.tree, search.decode)
    st.markdown(
        lead + linked(why, "score", "log p"),
        help=linked(arithmetic, "score", "log p", "length penalty", "α") or None,
    )


def node_panel(search: Search) -> None:
    """Draw node A's numbers and maps."""
    tree = search.tree
    node = chosen(tree, BeamChoice.a)
    if node is None:
        st.caption("Choose a node in the tree to see its numbers and its attention.")
        return
    numbers, maps = st.columns([2, 3], gap="large")
    with numbers.container():
        draw_node(search, node)
        _draw_go_on_button(search, node)
        together = tree.children[node.parent] if node.parent >= 0 else tree.steps[0]
        if rivals := [other for other in together if other != node.index]:
            _draw_why_link(search, node, tree.node(rivals[0]))
    with maps.container():
        cell = draw_axes(search.trace)
        st.caption(
            "Where the model looked while it predicted this token. Other candidates for this "
            "step have the same query, so they share this picture. "
            + linked("Self-attention looks at the token's own prefix. ", "prefix")
            + word_start(search.trace.src_tokens)
        )
        shown = node_maps(search.trace, search.tree, node, cell, url_state.get(UNITS))
        for kind, look in zip(LOOKS, shown, strict=True):
            _draw_named(look, f"beam_{kind}", 190)


def draw_node(search: Search, node: Node, letter: str = "") -> None:
    """Draw a node's token, its outcome with the reason, and its numbers."""
    step = f"{letter} · step" if letter else "Step"
    before = outcomes.text_of(search.tree, node.parent, search.decode) if node.parent >= 0 else ""
    before = "…" + before[-50:] if len(before) > 51 else before
    after = code(before, 60) if before else "nothing yet"
    st.markdown(f"**{step} {node.step + 1}: {code(node.token, 30)}** after {after}")
    st.markdown(linked(outcomes.why_it_went(search.tree, node), "score", "log p", "prefix"))
    st.table(numbers_of(search.tree, node), border="horizontal", hide_header=True, hide_index=True)


def _draw_go_on_button(search: Search, node: Node) -> None:
    """Draw the button that continues the search from a node, even if it was dropped."""
    if node.outcome in ("finished", "cut"):
        return
    ids = [earlier.token_id for earlier in search.tree.prefix(node.index)]
    st.button(
        "Continue from here", icon=":material/alt_route:", key="beam_go_on",
        on_click=begin_with, args=(ids,),
        help="Search again; every hypothesis starts with the tokens up to this node.",
    )  # fmt: skip


def _draw_why_link(search: Search, one: Node, other: Node) -> None:
    """Link to why the model preferred one of two nodes that follow the same tokens."""
    prefix = [] if one.parent < 0 else [n.token_id for n in search.tree.prefix(one.parent)]
    pair = [(node.token_id, node.token) for node in (one, other)]
    link_to(*why_link(search.trace, prefix, *pair))


def numbers_of(tree: Tree, node: Node) -> dict[str, list[str]]:
    """Return the node's numbers as columns of names and values."""
    rows = {
        "log p of this token": f"{signed(node.log_prob, 3)} ({probability(node.log_prob)})",
        "log p so far, their sum": signed(node.total, 3),
        f"length penalty, α = {tree.alpha:g}": outcomes.penalty_of(
            node.length, tree.alpha, tree.rule
        ),
        "score so far, their sum / penalty": signed(node.score, 3),
        "rank at this step": f"{node.rank + 1} of {len(tree.steps[node.step])}",
    }
    terms = ("log p", "score", "length penalty", "α", "nats")
    return {
        "what": [linked(plain(name), *terms) for name in rows],
        "value": [plain(value) for value in rows.values()],
    }


def _draw_named(shown: Map, key: str, max_height: int = 420) -> None:
    st.markdown(f"**{shown.name}**")
    height = max(170, min(520, 120 + 9 * len(shown.query_tokens)))
    draw_map(shown, key, max_height=max_height, height=height)


def compare_panel(search: Search) -> None:
    """Draw tokens, log-probabilities, curves and attention of two branches."""
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
    if not both.same:
        _draw_why_link(search, both.a[both.shared], both.b[both.shared])
    names = {"A": both.a, "B": both.b}
    for name, branch in zip(names, branch_components(both), strict=True):
        show(branch, key=f"beam_branch_{name}")
    tokens = {name: [node.token for node in path] for name, path in names.items()}
    theme = current_theme()
    quantities = (("log p so far", "total"), ("score so far", "score"))
    for column, (title, what) in zip(st.columns(2, gap="large"), quantities, strict=True):
        values = {name: [getattr(node, what) for node in path] for name, path in names.items()}
        chart = drawn(
            branch_curves, values, tokens, both.shared, branch_colours(theme), theme,
            title=f"{title} (nats)",
        )  # fmt: skip
        ends = f"A ends at {values['A'][-1]:.2f}, B at {values['B'][-1]:.2f}"
        draw_chart(chart, f"{title} of A and B after every step; {ends}", column)
    with st.container(horizontal=True, vertical_alignment="center"):
        choose_one("Attention", BeamChoice.look, LOOKS)
        cell = draw_axes(search.trace)
    kind, units = url_state.get(BeamChoice.look), url_state.get(UNITS)
    maps = branch_maps(search.trace, search.tree, both, kind, cell, units)
    for place, letter, shown in zip(st.columns(2, gap="large"), "AB", maps, strict=True):
        with place.container():
            _draw_named(shown, f"beam_map_{letter}")


def _choose_branches(search: Search) -> None:
    """Draw the lists for A and B: finished hypotheses and the chosen node."""
    tree = search.tree
    for column, param, name in zip(
        st.columns(2, gap="large"), (BeamChoice.a, BeamChoice.b), "AB", strict=True
    ):
        node = chosen(tree, param)
        options = list(tree.leaves)
        if node is not None and node.index not in options:
            options.append(node.index)
        column.selectbox(
            name, options, placeholder="Choose one", format_func=partial(branch_name, search),
            help=term("branch"),
            **filled(f"beam_{name}_box", node and node.index, partial(put, tree, param)),
        )  # fmt: skip


def branch_name(search: Search, index: int) -> str:
    """Return a branch's label: place and text if it finished, else step and rank."""
    tree, text = search.tree, shorten(outcomes.text_of(search.tree, index, search.decode), 80)
    if index in tree.leaves:
        return f"#{tree.leaves.index(index) + 1}  {text}"
    node = tree.node(index)
    return f"Step {node.step + 1}, rank {node.rank + 1}:  {text}"


def _parting(both: Comparison) -> str:
    """Describe where two branches part and the log-probability that they add from there."""
    if both.same:
        if len(both.a) == len(both.b):
            return "A and B are the same node."
        shorter = "A" if len(both.a) < len(both.b) else "B"
        return f"{shorter} is the beginning of the other branch: they never diverge."
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


def finished_panel(search: Search) -> None:
    """Draw finished hypotheses with their scores, also under other α."""
    tree = search.tree
    if not tree.leaves:
        st.caption("No hypothesis finished.")
        return
    leaves = [tree.node(index) for index in tree.leaves]
    likely = ranking(leaves, 0.0, tree.rule)
    rows: dict[str, list[str]] = {
        "place": [str(place) for place in range(1, len(leaves) + 1)],
        "translation": [
            plain(outcomes.text_of(tree, node.index, search.decode)) or "\\(empty\\)"
            for node in leaves
        ],
        linked("log p", "log p"): [signed(node.total, 3) for node in leaves],
        "tokens": [str(node.length) for node in leaves],
        "penalty": [f"{tree.rule.penalty(node.length, tree.alpha):.3f}" for node in leaves],
        linked("score", "score"): [signed(node.score, 3) for node in leaves],
        linked("place at α = 0", "α"): [
            str(likely.index(place) + 1) for place in range(len(leaves))
        ],
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
    draw_chart(
        drawn(lead_by_alpha, alphas, scores, names, tree.alpha, current_theme()),
        f"Score of {len(shown)} translations minus the winner's, for α from 0 to 2; the search "
        f"used {tree.alpha:g}",
    )  # fmt: skip
    note = (
        "How they would compare under another α: a translation above 0 would beat the winner. A "
        "search with that α would drop the same candidates, since all hypotheses at a step are "
        "equally long, but it may stop at another step and so finish others."
    )
    st.caption(linked(note, "α"))


def draw_axes(trace: Trace) -> Cell:
    """Draw the controls for layer, head and units."""
    n_layers, n_heads = trace.cross.shape[:2]
    with st.container(horizontal=True, vertical_alignment="center"):
        cell = layer_and_head("beam", "cross", n_layers, n_heads, width=round(140 * text_scale()))
        units_control()
    return cell


def offer_tree(search: Search) -> None:
    """Draw the tree's download button; the file has dropped nodes if they are on screen."""
    shown = asdict(choice(search.tree))
    _offer(search, exhibits.search_tree, "beam_tree_away", file_stem("search tree"), **shown)


def offer_panel(search: Search) -> None:
    """Draw the panel's download button, unless the panel is empty."""
    tree, stored, shown = search.tree, BeamChoice.read(), choice(search.tree)
    n_layers, n_heads = search.trace.cross.shape[:2]
    cell = url_state.cell(n_layers, n_heads, "cross")
    place = {"layer": cell[0], "head": cell[1], "units": stored.units}
    if stored.panel == "node" and shown.a is not None:
        name = exhibits.node_stem(tree.node(shown.a), cell)
        _offer(search, exhibits.search_node, "beam_node_away", name, node=shown.a, **place)
    elif stored.panel == "compare" and shown.a is not None and shown.b is not None:
        name = exhibits.branches_stem(stored.look, cell)
        both = {"a": shown.a, "b": shown.b, "kind": stored.look}
        _offer(search, exhibits.search_branches, "beam_pair_away", name, **both, **place)
    elif stored.panel == "finished" and tree.leaves:
        _offer(search, exhibits.length_penalty, "beam_ended_away", file_stem("ended by alpha"))


def _offer(
    search: Search, function: Callable[..., Exhibit], key: str, name: str, **shown: object
) -> None:
    download_button(lambda: figure_for(search.view, function, **shown), key=key, name=name)
