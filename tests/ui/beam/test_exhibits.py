"""Downloads of the search tree: nodes, branches, their maps, and the drawing's boxes and edges."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from matplotlib.patches import FancyBboxPatch, PathPatch

from figures.exhibit import Graph, Panel, Series
from figures.labels import plain_token
from figures.paper import PRESETS, Preset
from figures.paper.presets import LEAST_TYPE
from figures.paper.style import width
from tests.figures.drawing import drawing
from tests.searched import PIECES, searched
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


@pytest.mark.parametrize("wrong", [
    {"parents": (9,) * 9}, {"parents": ()}, {"lines": (1,)}, {"kept": ()}, {"ends": ()},
 {"columns": ("step", "rank", "log p", "log p so far", "x", "kept")},
])  # fmt: skip
def test_a_graph_has_its_parents_first_and_all_of_each_node(wrong: dict[str, Any]) -> None:
    (graph,) = search_tree(searched(1, 2)).parts
    assert isinstance(graph, Graph)
    with pytest.raises(ValueError, match="graph"):
        replace(graph, **wrong)


@pytest.mark.parametrize(("beam", "dropped", "preset"), [
    (2, True, PRESETS["one-column"]), (4, False, PRESETS["dark-slide"]),
 (10, False, PRESETS["dark-slide"]),
])  # fmt: skip
def test_edges_join_boxes_that_hold_whole_words(beam: int, dropped: bool, preset: Preset) -> None:
    trace = searched(3, beam)
    nodes = [each for each in beam_tree(trace).nodes if dropped or each.fate != "dropped"]
    made = replace(search_tree(trace, dropped=dropped), facts={"Checkpoint": "some-model"})
    with drawing(made, preset) as seen:
        assert seen.size[0] == pytest.approx(preset.width)
        assert not preset.height or seen.size[1] == pytest.approx(preset.height)
        assert preset.height or min(text.get_size() for text in seen.texts) >= LEAST_TYPE
        for said in ("log-probabilities are in nats", "Checkpoint: some-model."):
            assert said in seen.lines
        (ax,) = seen.figure.axes
        boxes = [
            ((x, y), (x + patch.get_width(), y + patch.get_height()))
            for patch in ax.patches if isinstance(patch, FancyBboxPatch)
            for x, y in [(patch.get_x(), patch.get_y())]
        ]  # fmt: skip
        assert len(boxes) > len(nodes), "a box for each node, and for the root"
        assert min(x for (x, _), _ in boxes) >= 0
        assert max(x for _, (x, _) in boxes) <= preset.room + 0.02
        for ((x, y), (u, v)), ((s, t), (p, q)) in combinations(boxes, 2):
            assert u < s or p < x or v < t or q < y, "no box overlaps another"
        edges = [patch.get_path().vertices for patch in ax.patches if isinstance(patch, PathPatch)]
        assert len(edges) >= sum(each.fate != "dropped" for each in nodes)
        starts = {(round(u), round((y + v) / 2)) for (_, y), (u, v) in boxes}
        ends = {(round(x), round((y + v) / 2)) for (x, y), (_, v) in boxes}
        for edge in edges:
            assert tuple(edge[0].round()) in starts and tuple(edge[-1].round()) in ends
        words = {plain_token(piece) for piece in PIECES}
        frames = [
            patch.get_window_extent() for patch in ax.patches if isinstance(patch, FancyBboxPatch)
        ]
        tokens = [text for text in ax.texts if text.get_text() in words]
        assert len(tokens) >= len(nodes)
        for token in tokens:
            box = seen.box(token)  # as wide as hinted type, which on a slide is a bit wider
            right = box.x0 + width(token.get_text(), token.get_size(), bold=True)
            assert any(
                frame.x0 <= box.x0 and right <= frame.x1 for frame in frames
                if frame.y0 <= (box.y0 + box.y1) / 2 <= frame.y1
            ), token  # fmt: skip
