"""What is taken away from the search tree: valid figures, and programs that make their numbers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from figures.exhibit import Exhibit
from figures.graph import Graph
from figures.paper import to_svg
from figures.tables import to_csv, to_npz
from tests.searched import searched
from tests.views import make_view
from transformer.measures.beam import Tree, attention_along, beam_tree
from transformer.translator import Translator
from ui.beam.exhibits import (
    branches_exhibit,
    branches_stem,
    finished_exhibit,
    node_exhibit,
    node_stem,
    tree_exhibit,
)
from ui.components.tree import Choice
from ui.core.view import View
from ui.export.html import to_html
from ui.work.lru import Lru


@pytest.fixture
def view(
    tmp_path: Path, tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[int], View]:
    """A view of a given beam, on a folder where the snippets look for checkpoints."""
    shutil.copytree(tiny_checkpoint, tmp_path / "tiny")
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(tmp_path))
    monkeypatch.setattr("ui.work.results.CACHE", Lru(2**26))
    return lambda beam: make_view(tmp_path / "tiny", "The cat <b> sat.", beam_size=beam)


def tree_of(view: View) -> Tree:
    model = Translator.load(view.path, "cpu")
    return beam_tree(model.trace(view.sentence, beam_size=view.beam_size))


def check(exhibit: Exhibit) -> dict[str, object]:
    """Every format can be made, and the program leaves the arrays. Returns: its variables."""
    for write in (to_csv, to_npz, to_svg, to_html):
        assert len(write(exhibit)) > 500
    held: dict[str, object] = {}
    exec(exhibit.snippet, held)  # noqa: S102
    for name, values in exhibit.arrays.items():
        np.testing.assert_allclose(held[name], values, atol=1e-5, err_msg=name)  # type: ignore
    return held


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("dropped", [False, True])
def test_the_tree(view: Callable[[int], View], beam: int, dropped: bool) -> None:
    exhibit = tree_exhibit(view(beam), Choice(0, None, dropped))
    check(exhibit)
    (graph,) = exhibit.parts
    assert isinstance(graph, Graph)
    tree = tree_of(view(beam))
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
def test_a_node(view: Callable[[int], View], units: str) -> None:
    tree = tree_of(view(3))
    node = next(node for node in tree.nodes if node.outcome == "outranked" and node.step == 3)
    exhibit = node_exhibit(view(3), node.index, (1, None), units)
    assert exhibit.name == node_stem(node, (1, None))
    held = check(exhibit)
    cross, own = exhibit.parts
    np.testing.assert_allclose(cross.values.sum(), 1, atol=1e-5)  # type: ignore[union-attr]
    np.testing.assert_allclose(own.values.sum(), 1, atol=1e-5)  # type: ignore[union-attr]
    if units == "tokens":
        wanted = np.asarray(held["cross"])[1].mean(axis=0)
        np.testing.assert_allclose(cross.values[0], wanted, atol=1e-5)  # type: ignore[union-attr]


@pytest.mark.parametrize("look", ["cross", "decoder_self"])
@pytest.mark.parametrize("units", ["tokens", "words"])
def test_two_branches(view: Callable[[int], View], look: str, units: str) -> None:
    tree = tree_of(view(3))
    a, b = tree.leaves[0], tree.leaves[1]
    exhibit = branches_exhibit(view(3), a, b, look, (None, 2), units)
    assert exhibit.name == branches_stem(look, (None, 2))
    check(exhibit)
    total, score, *maps = exhibit.parts
    for series, what in ((total, "total"), (score, "score")):
        for name, leaf in (("A", a), ("B", b)):
            line = series.lines[name]  # type: ignore[union-attr]
            known = line[~np.isnan(line)]
            assert known[-1] == getattr(tree.node(leaf), what)
            assert len(known) == tree.node(leaf).length
    for panel in maps:
        np.testing.assert_allclose(panel.values.sum(axis=1), 1, atol=1e-5)  # type: ignore


def test_what_ended(view: Callable[[int], View]) -> None:
    check(finished_exhibit(view(3)))
    check(finished_exhibit(view(1)))


def test_a_graph_has_its_parents_first() -> None:
    tree = beam_tree(searched(1, 2))
    n = len(tree.nodes)
    values = np.zeros((n, 3))
    good = {
        "rows": tuple(node.token for node in tree.nodes),
        "columns": ("step", "rank", "log P"),
        "scale": "diverging",
        "parents": tuple(node.parent for node in tree.nodes),
        "lines": (0,) * n,
    }
    Graph("", values, **good)  # type: ignore[arg-type]
    for wrong in (
        {"parents": (n,) * n}, {"parents": ()}, {"lines": (1,)}, {"columns": ("step", "x", "y")},
    ):  # fmt: skip
        with pytest.raises(ValueError, match="graph"):
            Graph("", values, **{**good, **wrong})  # type: ignore[arg-type]


def test_attention_along_needs_a_node() -> None:
    trace = searched(1, 2)
    assert trace.search is not None
    with pytest.raises(ValueError, match="not in the tree"):
        attention_along(trace.search, beam_tree(trace), -1)
