"""Figures of the Beam search page: the tree, a node, two branches, finished hypotheses."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from figures.exhibit import End, Exhibit, Graph, Series, file_stem
from figures.labels import KIND_NAMES, READS_PREDICTS, cell_name, row_labels, signed
from transformer.measures.beam import Comparison, Node, Tree, attention_along, beam_tree, compare
from transformer.measures.finish import ALPHAS, score_at
from transformer.measures.heads import combine
from transformer.measures.words import Units, group_labels, merge, predicted_words, word_groups
from transformer.search.records import SearchRecord
from transformer.trace.records import Trace
from transformer.types import Floats
from ui.components.grid import Cell
from ui.components.lens import Map
from ui.components.tree import TreeChoice, branch_components, tree_component
from ui.export.programs import facts_of

Look = Literal["cross", "decoder_self"]
#: Maps of a search by kind.
LOOKS: dict[str, str] = {"cross": KIND_NAMES["cross"], "decoder_self": KIND_NAMES["decoder_self"]}

_KEPT = frozenset({"continued", "exhausted", "finished", "cut"})
_ENDS: dict[str, End] = {"finished": "finished", "cut": "cut"}


def _rule(tree: Tree) -> str:
    base = "|Y|" if tree.rule.plain_length else "((5 + |Y|) / 6)"
    return f"Score = log p / {base}^alpha; log-probabilities are in nats."


def _recorded(trace: Trace) -> SearchRecord:
    if trace.search is None:
        raise ValueError("this trace has no record of a search")
    return trace.search


def search_tree(
    trace: Trace, a: int | None = None, b: int | None = None, *, dropped: bool = False
) -> Exhibit:
    """Return the tree of a beam search as a figure.

    Args:
        a, b: marked nodes, which are drawn even if they were dropped.
        dropped: draw all candidates that left the beam.
    """
    tree = beam_tree(trace)
    for marked in (a, b):
        if marked is not None:
            tree.node(marked)
    shown = [
        node for node in tree.nodes if dropped or node.fate != "dropped" or node.index in (a, b)
    ]
    place = {node.index: row for row, node in enumerate(shown)}
    winner = frozenset(tree.winner)
    values = [
        (n.step + 1, n.rank + 1, n.log_prob, n.total, n.score, n.fate != "dropped") for n in shown
    ]
    graph = Graph(
        "",
        np.array(values, dtype=np.float64),
        tuple(node.token for node in shown),
        ("step", "rank", "log p", "log p so far", "score", "kept"),
        "token",
        scale="diverging",
        parents=tuple(place.get(node.parent, -1) for node in shown),
        lines=tuple(2 if node.index in winner else int(node.index in tree.alive) for node in shown),
        beam=tree.beam_size,
        kept=tuple(node.outcome in _KEPT for node in shown),
        ends=tuple(_ENDS.get(node.outcome, "") for node in shown),
        root=tree.root,
    )
    return Exhibit(
        name="search-tree",
        title=f"Beam search, beam {tree.beam_size}: {trace.text}",
        caption=f"Columns are steps and rows are ranks. The highlighted path won. {_rule(tree)}",
        parts=(graph,),
        arrays=_tree_arrays(trace, tree),
        offline=tree_component(tree, TreeChoice(a, b, dropped), "Search tree").offline(),
        facts=facts_of(trace),
    )


def _tree_arrays(trace: Trace, tree: Tree) -> dict[str, np.ndarray]:
    """Return all candidates that the search compared; steps and ranks count from 0."""
    if tree.beam_size == 1:
        return {
            "log_prob": np.asarray(trace.log_probs),
            "top_ids": np.asarray(trace.top_ids),
            "top_log_probs": np.asarray(trace.top_log_probs),
        }
    whole = ("parent", "step", "rank", "token_id")
    return {
        name: np.array(
            [getattr(node, name) for node in tree.nodes], np.int64 if name in whole else np.float64
        )
        for name in (*whole, "log_prob", "total", "score")
    }


def node_stem(node: Node, cell: Cell) -> str:
    """Return the file name stem for a node's maps."""
    return file_stem("node", f"step {node.step + 1}", f"rank {node.rank + 1}", cell_name(cell))


def branches_stem(look: str, cell: Cell) -> str:
    """Return the file name stem for two branches."""
    return file_stem("branches", look, cell_name(cell))


def search_node(
    trace: Trace, node: int, layer: int | None = None, head: int | None = None, *,
    units: Units = "tokens",
) -> Exhibit:  # fmt: skip
    """Return the attention of one prediction of a search as a figure.

    Args:
        node: index in `beam_tree(trace)`.
        layer, head: from 0; None is the mean over all.
        units: "tokens" or "words".
    """
    tree = beam_tree(trace)
    chosen = tree.node(node)
    step, where = _recorded(trace).steps[chosen.step], cell_name((layer, head))
    cross, own = step.cross[chosen.row], step.decoder_self[chosen.row]
    maps = node_maps(trace, tree, chosen, (layer, head), units)
    return Exhibit(
        name=node_stem(chosen, (layer, head)),
        title=f"Step {chosen.step + 1}, rank {chosen.rank + 1}: {chosen.token}",
        caption=f"Where the model looked while it predicted this token ({where}). Its log p is "
        f"{signed(chosen.log_prob, 3)}, so far {signed(chosen.total, 3)}, "
        f"score {signed(chosen.score, 3)}. {_rule(tree)}",
        parts=tuple(shown.panel() for shown in maps),
        arrays={"cross": np.asarray(cross), "decoder_self": np.asarray(own)},
        offline=tuple(shown.lens().offline() for shown in maps),
        columns=1,
        facts=facts_of(trace, where),
    )


def search_branches(
    trace: Trace, a: int, b: int, kind: str = "cross", layer: int | None = None,
    head: int | None = None, *, units: Units = "tokens",
) -> Exhibit:  # fmt: skip
    """Return two branches of a search as a figure: running log p, score and maps.

    Args:
        a, b: indices of nodes on the branches in `beam_tree(trace)`.
        kind: "cross" or "decoder_self".
        layer, head: from 0; None is the mean over all.
        units: "tokens" or "words".
    """
    record, tree = _recorded(trace), beam_tree(trace)
    both = compare(tree, a, b)
    steps = np.arange(1, max(len(both.a), len(both.b)) + 1)
    maps = branch_maps(trace, tree, both, kind, (layer, head), units)
    arrays: dict[str, np.ndarray] = {}
    for letter, path in (("a", both.a), ("b", both.b)):
        arrays[f"log_probs_{letter}"] = np.array([node.log_prob for node in path])
        arrays[f"cross_{letter}"] = attention_along(record, tree, path[-1].index).cross
    return Exhibit(
        name=branches_stem(kind, (layer, head)),
        title="Two branches of a search",
        caption=f"They share the first {both.shared} tokens. {_rule(tree)}",
        parts=(
            Series(
                "log p so far", steps, _padded(both.a, both.b, len(steps), "total"), "step", "nats"
            ),
            Series("Score", steps, _padded(both.a, both.b, len(steps), "score"), "step", "score"),
            *(shown.panel() for shown in maps),
        ),
        arrays=arrays,
        offline=(
            *(branch.offline() for branch in branch_components(both)),
            *(shown.lens().offline() for shown in maps),
        ),
        columns=2,
        facts=facts_of(trace, cell_name((layer, head))),
    )


def node_maps(trace: Trace, tree: Tree, node: Node, cell: Cell, units: str) -> tuple[Map, Map]:
    """Return the attention of the query that predicted a node, over the source and the prefix."""
    step = _recorded(trace).steps[node.step]
    prefix = (trace.tgt_tokens[0], *(earlier.token for earlier in tree.prefix(node.parent)))
    reads, predicts = prefix[-1:], (node.token,)

    def shown(
        kind: str, maps: Floats, keys: tuple[str, ...], special: Sequence[int], of: str
    ) -> Map:
        row = combine(maps[node.row][:, :, None], layer=cell[0], head=cell[1])
        axes = _in_units(units, row, reads, predicts, keys, special)
        return Map(*axes, f"{LOOKS[kind]}, {cell_name(cell)}", READS_PREDICTS, of)

    return (
        shown("cross", step.cross, trace.src_tokens, trace.src_special, "source"),
        shown("decoder_self", step.decoder_self, prefix, (0,), "its own prefix"),
    )


def branch_maps(
    trace: Trace, tree: Tree, both: Comparison, kind: str, cell: Cell, units: str
) -> tuple[Map, Map]:
    """Return the attention along both branches; see `search_branches`."""

    def shown(name: str, path: Sequence[Node]) -> Map:
        attention = attention_along(_recorded(trace), tree, path[-1].index)
        tokens = tuple(node.token for node in path)
        own = (trace.tgt_tokens[0], *tokens[:-1])
        cross = kind == "cross"
        maps = attention.cross if cross else attention.decoder_self
        keys, special = (trace.src_tokens, trace.src_special) if cross else (own, (0,))
        weights = combine(maps, layer=cell[0], head=cell[1])
        return Map(
            *_in_units(units, weights, own, tokens, keys, special, path[-1].fate == "finished"),
            f"{name}: {LOOKS[kind].lower()}, {cell_name(cell)}", READS_PREDICTS,
            "source" if cross else "its prefix", causal=not cross and units == "tokens",
        )  # fmt: skip

    return shown("A", both.a), shown("B", both.b)


def _in_units(
    units: str, weights: Floats, reads: tuple[str, ...], predicts: tuple[str, ...],
    keys: tuple[str, ...], key_special: Sequence[int], ended: bool = False,
) -> tuple[Floats, tuple[str, ...], tuple[str, ...]]:  # fmt: skip
    """Return a map with row and column labels, by tokens or words; a single row stays a token."""
    if units == "tokens":
        return weights, row_labels(reads, predicts), keys
    columns = word_groups(keys, key_special)
    labels = group_labels(keys, columns)
    if len(reads) == 1:
        return merge(weights, None, columns), row_labels(reads, predicts), labels
    rows = word_groups(reads, (0,))
    names = row_labels(group_labels(reads, rows), predicted_words(predicts, rows, ended))
    return merge(weights, rows, columns), names, labels


def _padded(a: Sequence[Node], b: Sequence[Node], length: int, what: str) -> dict[str, np.ndarray]:
    """Return the nodes' attribute `what` along both paths, padded with NaN."""
    return {
        name: np.array([getattr(node, what) for node in path] + [np.nan] * (length - len(path)))
        for name, path in (("A", a), ("B", b))
    }


def length_penalty(trace: Trace) -> Exhibit:
    """Return scores of finished hypotheses over the length-penalty exponent as a figure."""
    tree = beam_tree(trace)
    leaves = [tree.node(index) for index in tree.leaves]
    alphas = np.linspace(*ALPHAS, 41)
    scores = np.array([[score_at(node, alpha, tree.rule) for node in leaves] for alpha in alphas])
    names = [f"#{place}" for place in range(1, len(leaves) + 1)]
    return Exhibit(
        name="ended-by-alpha",
        title="Finished hypotheses under other length penalties",
        facts=facts_of(trace),
        caption=f"The search used alpha = {tree.alpha:g}. {_rule(tree)}",
        parts=(
            Series(
                "Score", alphas, {n: scores[:, i] for i, n in enumerate(names)}, "alpha", "score"
            ),
        ),
        arrays={
            "log_p": np.array([node.total for node in leaves]),
            "length": np.array([node.length for node in leaves], dtype=np.int64),
            "alphas": alphas,
            "scores": scores,
        },
    )
