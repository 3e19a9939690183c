"""Downloads of the search tree: nodes, branches and their maps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from figures.graph import Graph
from figures.paper import to_svg
from tests.searched import searched
from transformer.measures.beam import attention_along, beam_tree
from transformer.trace.records import Trace
from transformer.translator import Translator
from ui.beam.exhibits import (
    branches_stem,
    node_stem,
    search_branches,
    search_node,
    search_tree,
)

SENTENCE = "The cat <b> sat."


@pytest.fixture(scope="module")
def found(tiny_translator: Translator) -> Callable[[int], Trace]:
    """Search with a given beam."""
    return lambda beam: tiny_translator.trace(SENTENCE, beam_size=beam, alpha=0.6)


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("dropped", [False, True])
def test_the_tree(found: Callable[[int], Trace], beam: int, dropped: bool) -> None:
    trace = found(beam)
    exhibit = search_tree(trace, 0, dropped=dropped)
    (graph,) = exhibit.parts
    assert isinstance(graph, Graph)
    tree = beam_tree(trace)
    shown = [node for node in tree.nodes if dropped or node.fate != "dropped"]
    assert graph.rows == tuple(node.token for node in shown)
    np.testing.assert_allclose(graph.values[:, 3], [node.total for node in shown], atol=1e-5)
    for row, node in enumerate(shown):
        parent = graph.parents[row]
        assert (parent < 0) == (node.parent < 0)
        assert parent < 0 or shown[parent].index == node.parent
    drawn = to_svg(exhibit).decode()
    assert drawn.count("</s>") == 0  # escaped
    assert "&lt;/s&gt;" in drawn


@pytest.mark.parametrize("units", ["tokens", "words"])
def test_a_node(found: Callable[[int], Trace], units: str) -> None:
    trace = found(3)
    tree = beam_tree(trace)
    node = next(node for node in tree.nodes if node.outcome == "outranked" and node.step == 3)
    exhibit = search_node(trace, node.index, 1, units=units)
    assert exhibit.name == node_stem(node, (1, None))
    cross, own = exhibit.parts
    np.testing.assert_allclose(cross.values.sum(), 1, atol=1e-5)  # type: ignore[union-attr]
    np.testing.assert_allclose(own.values.sum(), 1, atol=1e-5)  # type: ignore[union-attr]
    if units == "tokens":
        wanted = exhibit.arrays["cross"][1].mean(axis=0)
        np.testing.assert_allclose(cross.values[0], wanted, atol=1e-5)  # type: ignore[union-attr]


@pytest.mark.parametrize("look", ["cross", "decoder_self"])
@pytest.mark.parametrize("units", ["tokens", "words"])
def test_two_branches(found: Callable[[int], Trace], look: str, units: str) -> None:
    trace = found(3)
    tree = beam_tree(trace)
    a, b = tree.leaves[0], tree.leaves[1]
    exhibit = search_branches(trace, a, b, look, head=2, units=units)
    assert exhibit.name == branches_stem(look, (None, 2))
    total, score, *maps = exhibit.parts
    for series, what in ((total, "total"), (score, "score")):
        for name, leaf in (("A", a), ("B", b)):
            line = series.lines[name]  # type: ignore[union-attr]
            known = line[~np.isnan(line)]
            assert known[-1] == getattr(tree.node(leaf), what)
            assert len(known) == tree.node(leaf).length
    for panel in maps:
        np.testing.assert_allclose(panel.values.sum(axis=1), 1, atol=1e-5)  # type: ignore


def test_a_graph_has_its_parents_first() -> None:
    tree = beam_tree(searched(1, 2))
    n = len(tree.nodes)
    values = np.zeros((n, 4))
    good = {
        "rows": tuple(node.token for node in tree.nodes),
        "columns": ("step", "rank", "log P", "score"),
        "scale": "diverging",
        "parents": tuple(node.parent for node in tree.nodes),
        "lines": (0,) * n,
        "kept": (True,) * n,
        "ends": ("",) * n,
    }
    Graph("", values, **good)  # type: ignore[arg-type]
    for wrong in (
        {"parents": (n,) * n}, {"parents": ()}, {"lines": (1,)}, {"kept": ()}, {"ends": ()},
        {"columns": ("step", "rank", "log P", "x")},
    ):  # fmt: skip
        with pytest.raises(ValueError, match="graph"):
            Graph("", values, **{**good, **wrong})  # type: ignore[arg-type]


def test_attention_along_needs_a_node() -> None:
    trace = searched(1, 2)
    assert trace.search is not None
    with pytest.raises(ValueError, match="not in the tree"):
        attention_along(trace.search, beam_tree(trace), -1)
