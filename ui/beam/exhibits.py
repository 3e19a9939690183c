"""What can be taken away from the page of the search tree. All of it is made without a session."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from figures.exhibit import Exhibit, Offline, Panel, Series, file_stem
from figures.graph import Graph
from transformer.measures.beam import Node, Tree, attention_along, beam_tree, compare
from transformer.measures.finish import ALPHAS, score_at
from transformer.measures.heads import combine
from transformer.measures.words import group_labels, merge, word_groups
from transformer.search.records import SearchRecord
from transformer.trace.records import Trace
from transformer.types import Floats
from ui.beam.maps import Cell, name_of
from ui.components.lens import Map, still_lens
from ui.components.tree import Choice, encode, encode_branches
from ui.core.view import View
from ui.export.download import snippet_header, trace_of


def _rule(tree: Tree) -> str:
    return f"Score = log P / {_base(tree, '|Y|')}^alpha; log-probabilities are in nats."


def _base(tree: Tree, length: str) -> str:
    """What the length penalty raises to alpha."""
    return length if tree.rule.plain_length else f"((5 + {length}) / 6)"


def _found(view: View) -> tuple[Trace, SearchRecord, Tree]:
    trace = trace_of(view)
    if trace.search is None:
        raise ValueError("this trace has no record of a search")
    return trace, trace.search, beam_tree(trace)


def tree_exhibit(view: View, choice: Choice) -> Exhibit:
    """The tree as it is shown: what was dropped is in it where it is on the screen."""
    trace, _, tree = _found(view)
    shown = [
        node
        for node in tree.nodes
        if choice.dropped or node.fate != "dropped" or node.index in (choice.a, choice.b)
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
        ("step", "rank", "log p", "log P", "score", "kept"),
        "token",
        scale="diverging",
        parents=tuple(place.get(node.parent, -1) for node in shown),
        lines=tuple(2 if node.index in winner else int(node.index in tree.alive) for node in shown),
        beam=tree.beam_size,
    )
    arrays, program = _tree_arrays(trace, tree)
    return Exhibit(
        name="search-tree",
        title=f"Beam search, beam {tree.beam_size}: {trace.text}",
        caption="Columns are steps, rows are ranks; below each token its log P. The path that "
        f"stands out won. {_rule(tree)}",
        parts=(graph,),
        arrays=arrays,
        snippet=snippet_header(view) + program,
        offline=Offline("tree", encode(tree, "still", choice, "Search tree")),
    )


def _tree_arrays(trace: Trace, tree: Tree) -> tuple[dict[str, np.ndarray], str]:
    """The whole search as arrays, and the program that makes them."""
    if tree.beam_size == 1:
        return (
            {
                "log_prob": np.asarray(trace.log_probs),
                "top_ids": np.asarray(trace.top_ids),
                "top_log_probs": np.asarray(trace.top_log_probs),
            },
            "\nlog_prob = trace.log_probs  # [T], of the tokens that were taken\n"
            "top_ids, top_log_probs = trace.top_ids, trace.top_log_probs  # [T, K], best first\n",
        )
    nodes = tree.nodes
    arrays = {
        "parent": np.array([node.parent for node in nodes], dtype=np.int64),
        "step": np.array([node.step for node in nodes], dtype=np.int64),
        "rank": np.array([node.rank for node in nodes], dtype=np.int64),
        "token_id": np.array([node.token_id for node in nodes], dtype=np.int64),
        "log_prob": np.array([node.log_prob for node in nodes]),
        "total": np.array([node.total for node in nodes]),
        "score": np.array([node.score for node in nodes]),
    }
    program = (
        "\n# Every candidate that the search compared, as one tree; counts start at 0.\n"
        "nodes = []\n"
        "held = {0: -1}  # row that is alive: the node that it ends in, -1 for <s>\n"
        "for t, each_step in enumerate(trace.search.steps):\n"
        "    alive = {}\n"
        "    for place, each in enumerate(each_step.candidates):\n"
        '        if each.fate == "dropped" and not np.isfinite(each.total):\n'
        "            continue\n"
        '        if each.fate == "kept" and each.row >= 0:\n'
        "            alive[each.row] = len(nodes)\n"
        "        whole = (held[each.parent], t, place, each.token_id)\n"
        "        nodes.append((*whole, each.log_prob, each.total, each.score))\n"
        "    held = alive\n"
        "parent, step, rank, token_id = np.array([node[:4] for node in nodes], dtype=np.int64).T\n"
        "log_prob, total, score = np.array([node[4:] for node in nodes]).T\n"
    )
    return arrays, program


def node_stem(node: Node, cell: Cell) -> str:
    """The file's name of a node's maps."""
    return file_stem("node", f"step {node.step + 1}", f"rank {node.rank + 1}", name_of(cell))


def branches_stem(look: str, cell: Cell) -> str:
    """The file's name of two branches."""
    return file_stem("branches", look, name_of(cell))


def node_exhibit(view: View, index: int, cell: Cell, units: str) -> Exhibit:
    """Where the model looked while it predicted one node's token."""
    trace, record, tree = _found(view)
    node = tree.node(index)
    step = record.steps[node.step]
    cross, own = step.cross[node.row], step.decoder_self[node.row]
    prefix = ("<s>", *(each.token for each in tree.prefix(node.parent)))
    where = name_of(cell)
    panels, maps = [], []
    for name, weights, keys, special in (
        ("Cross-attention", cross, trace.src_tokens, trace.src_special),
        ("Decoder self-attention", own, prefix, (0,)),
    ):
        row = combine(weights[:, :, None], layer=cell[0], head=cell[1])
        row, query, labels = _in_units(units, row, (node.token,), (), keys, special)
        title = f"{name}, {where}"
        panels.append(Panel(title, row, query, labels, "predicted", "key"))
        maps.append(Map(row, query, labels, title, "predicted", "key"))
    return Exhibit(
        name=node_stem(node, cell),
        title=f"Step {node.step + 1}, rank {node.rank + 1}: {node.token}",
        caption=f"Where the model looked while it predicted this token ({where}). Its log p is "
        f"{node.log_prob:.3f}, log P {node.total:.3f}, score {node.score:.3f}. {_rule(tree)}",
        parts=tuple(panels),
        arrays={"cross": np.asarray(cross), "decoder_self": np.asarray(own)},
        snippet=snippet_header(view)
        + f"\n# Step {node.step + 1}; the hypothesis that this token continues held row "
        f"{node.row} (from 0).\n"
        f"recorded = trace.search.steps[{node.step}]\n"
        f"cross = recorded.cross[{node.row}]  # [layers, heads, source tokens]\n"
        f"decoder_self = recorded.decoder_self[{node.row}]  # [layers, heads, prefix]\n",
        offline=tuple(Offline("lens", still_lens(each)) for each in maps),
        columns=1,
    )


def branches_exhibit(view: View, a: int, b: int, look: str, cell: Cell, units: str) -> Exhibit:
    """Two branches: their running log P and score, and their maps."""
    trace, record, tree = _found(view)
    both = compare(tree, a, b)
    steps = np.arange(1, max(len(both.a), len(both.b)) + 1)
    where = name_of(cell)
    panels, maps = [], []
    arrays: dict[str, np.ndarray] = {}
    program = ""
    for name, path in (("A", both.a), ("B", both.b)):
        looked = attention_along(record, tree, path[-1].index)
        weights = combine(
            looked.cross if look == "cross" else looked.decoder_self, layer=cell[0], head=cell[1]
        )
        tokens = tuple(node.token for node in path)
        keys = trace.src_tokens if look == "cross" else ("<s>", *tokens[:-1])
        ends = (len(path) - 1,) if path[-1].outcome == "finished" else ()
        weights, queries, labels = _in_units(
            units, weights, tokens, ends, keys, trace.src_special if look == "cross" else (0,)
        )
        masked = look != "cross" and units == "tokens"
        title = f"{name}: {look.replace('_', ' ')} attention, {where}"
        panels.append(Panel(title, weights, queries, labels, "predicted", "key"))
        maps.append(Map(weights, queries, labels, title, "predicted", "key", causal=masked))
        small = name.lower()
        arrays[f"log_probs_{small}"] = np.array([node.log_prob for node in path])
        arrays[f"cross_{small}"] = looked.cross
        program += _path_program(small, path)
    return Exhibit(
        name=branches_stem(look, cell),
        title="Two branches of a search",
        caption=f"They share the first {both.shared} tokens. {_rule(tree)}",
        parts=(
            Series("log P", steps, _padded(both.a, both.b, len(steps), "total"), "step", "log P"),
            Series("Score", steps, _padded(both.a, both.b, len(steps), "score"), "step", "score"),
            *panels,
        ),
        arrays=arrays,
        snippet=snippet_header(view) + program,
        offline=(
            Offline("branches", encode_branches(both)),
            *(Offline("lens", still_lens(each)) for each in maps),
        ),
        columns=2,
    )


def _in_units(
    units: str,
    weights: Floats,
    queries: tuple[str, ...],
    query_special: Sequence[int],
    keys: tuple[str, ...],
    key_special: Sequence[int],
) -> tuple[Floats, tuple[str, ...], tuple[str, ...]]:
    """A map, its rows and its columns, as tokens or as words; a single row stays as it is."""
    if units == "tokens":
        return weights, queries, keys
    rows = word_groups(queries, query_special) if len(queries) > 1 else None
    columns = word_groups(keys, key_special)
    names = queries if rows is None else group_labels(queries, rows)
    return merge(weights, rows, columns), names, group_labels(keys, columns)


def _path_program(name: str, path: Sequence[Node]) -> str:
    rows, ids = [node.row for node in path], [node.token_id for node in path]
    return (
        f"\n# Branch {name.upper()}: the row it held at each step, and the tokens it took.\n"
        f"rows_{name} = {rows!r}\n"
        f"ids_{name} = {ids!r}\n"
        f"log_probs_{name} = []\n"
        f"for step, row, token in zip(trace.search.steps, rows_{name}, ids_{name}):\n"
        "    seen = {(each.parent, each.token_id): each.log_prob for each in step.candidates}\n"
        "    top = dict(zip(step.top_ids[row].tolist(), step.top_log_probs[row].tolist()))\n"
        f"    log_probs_{name}.append(seen.get((row, token), top.get(token)))\n"
        f"log_probs_{name} = np.array(log_probs_{name})\n"
        f"cross_{name} = np.stack(\n"
        f"    [step.cross[row] for step, row in zip(trace.search.steps, rows_{name})], axis=2\n"
        ")  # [layers, heads, tokens, source tokens]\n"
    )


def _padded(a: Sequence[Node], b: Sequence[Node], length: int, what: str) -> dict[str, np.ndarray]:
    """A number of each node of two paths, with NaN where the shorter one has ended."""
    lines = {}
    for name, path in (("A", a), ("B", b)):
        values = [float(getattr(node, what)) for node in path]
        lines[name] = np.array(values + [np.nan] * (length - len(path)))
    return lines


def finished_exhibit(view: View) -> Exhibit:
    """What ended, over the exponent of the length penalty."""
    _, _, tree = _found(view)
    leaves = [tree.node(index) for index in tree.leaves]
    alphas = np.linspace(*ALPHAS, 41)
    scores = np.array([[score_at(node, alpha, tree.rule) for node in leaves] for alpha in alphas])
    names = [f"#{place}" for place in range(1, len(leaves) + 1)]
    ended = "cut" if leaves[0].outcome == "cut" else "finished"
    test = 'each.fate == "finished"' if ended == "finished" else 'each.fate == "kept"'
    steps = "trace.search.steps" if ended == "finished" else "trace.search.steps[-1:]"
    start = "1" if ended == "finished" else "len(trace.search.steps)"
    return Exhibit(
        name="ended-by-alpha",
        title="What ended, with another length penalty",
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
        snippet=snippet_header(view)
        + "\n# All that ended, best first: log P and the number of tokens.\n"
        "ended = [\n"
        "    (each.score, each.total, n_tokens)\n"
        f"    for n_tokens, step in enumerate({steps}, start={start})\n"
        "    for each in step.candidates\n"
        f"    if {test}\n"
        "]\n"
        "ended.sort(key=lambda each: -each[0])\n"
        "log_p = np.array([total for _, total, _ in ended])\n"
        "length = np.array([n_tokens for _, _, n_tokens in ended])\n"
        f"alphas = np.linspace({ALPHAS[0]}, {ALPHAS[1]}, 41)\n"
        f"scores = log_p / {_base(tree, 'length')} ** alphas[:, None]\n",
    )
