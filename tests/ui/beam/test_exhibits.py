"""Downloads of the search tree: nodes, branches and their maps."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from figures.exhibit import Graph, Panel, Series
from figures.paper import to_svg
from tests.searched import searched
from transformer.measures.beam import beam_tree
from ui.beam.exhibits import branches_stem, node_stem, search_branches, search_node, search_tree


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("dropped", [False, True])
def test_the_tree_has_every_node_on_screen_under_its_parent(beam: int, dropped: bool) -> None:
    trace = searched(1, beam)
    exhibit = search_tree(trace, 0, dropped=dropped)
    (graph,) = exhibit.parts
    assert isinstance(graph, Graph)
    nodes = beam_tree(trace).nodes
    shown = [each for each in nodes if dropped or each.fate != "dropped" or each.index == 0]
    assert graph.rows == tuple(node.token for node in shown)
    np.testing.assert_allclose(graph.values[:, 3], [node.total for node in shown], atol=1e-5)
    for parent, node in zip(graph.parents, shown, strict=True):
        assert (parent < 0) == (node.parent < 0)
        assert parent < 0 or shown[parent].index == node.parent


def test_tokens_in_the_drawing_are_escaped() -> None:
    drawn = to_svg(search_tree(searched(1, 2))).decode()
    assert "</s>" not in drawn and "&lt;/s&gt;" in drawn


@pytest.mark.parametrize("units", ["tokens", "words"])
def test_a_node_looks_at_source_and_prefix(units: str) -> None:
    trace = searched(3, 3)
    node = next(each for each in beam_tree(trace).nodes if each.step == 3)
    exhibit = search_node(trace, node.index, 1, units=units)
    assert exhibit.name == node_stem(node, (1, None))
    for panel in exhibit.parts:
        assert isinstance(panel, Panel) and len(panel.rows) == 1
        np.testing.assert_allclose(panel.values.sum(), 1, atol=1e-5)
    if units == "tokens":
        wanted = exhibit.arrays["cross"][1].mean(axis=0)
        np.testing.assert_allclose(exhibit.parts[0].values[0], wanted, atol=1e-5)  # type: ignore


@pytest.mark.parametrize("look", ["cross", "decoder_self"])
@pytest.mark.parametrize("units", ["tokens", "words"])
def test_two_branches_have_curves_and_maps_as_long_as_they_are(look: str, units: str) -> None:
    trace = searched(3, 3)
    tree = beam_tree(trace)
    leaves = {"A": tree.node(tree.leaves[0]), "B": tree.node(tree.leaves[1])}
    a, b = (leaf.index for leaf in leaves.values())
    exhibit = search_branches(trace, a, b, look, head=2, units=units)
    assert exhibit.name == branches_stem(look, (None, 2))
    total, score, *maps = exhibit.parts
    for series, what in ((total, "total"), (score, "score")):
        assert isinstance(series, Series)
        for name, leaf in leaves.items():
            known = series.lines[name][~np.isnan(series.lines[name])]
            assert known[-1] == getattr(leaf, what) and len(known) == leaf.length
    for panel in maps:
        assert isinstance(panel, Panel)
        np.testing.assert_allclose(panel.values.sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize(
    "wrong",
    [{"parents": (9,) * 9}, {"parents": ()}, {"lines": (1,)}, {"kept": ()}, {"ends": ()},
     {"columns": ("step", "rank", "log p", "log P", "x", "kept")}],
)  # fmt: skip
def test_a_graph_has_its_parents_first_and_all_of_each_node(wrong: dict[str, Any]) -> None:
    (graph,) = search_tree(searched(1, 2)).parts
    assert isinstance(graph, Graph)
    with pytest.raises(ValueError, match="graph"):
        replace(graph, **wrong)
