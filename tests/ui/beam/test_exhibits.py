"""Downloads of the search tree: valid figures, and programs that make their numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from figures.exhibit import Exhibit
from figures.graph import Graph
from figures.paper import to_svg
from figures.tables import to_csv, to_npz
from tests.searched import searched
from transformer.measures.beam import Tree, attention_along, beam_tree
from transformer.trace.records import Trace
from transformer.translator import Translator
from ui.beam.exhibits import (
    branches_exhibit,
    branches_stem,
    finished_exhibit,
    node_exhibit,
    node_stem,
    tree_exhibit,
)
from ui.components.tree import TreeChoice
from ui.export.html import to_html
from ui.export.programs import Source

SENTENCE = "The cat <b> sat."


@dataclass(frozen=True)
class Searched:
    """A trace and its source."""

    trace: Trace
    source: Source

    @property
    def tree(self) -> Tree:
        return beam_tree(self.trace)


@pytest.fixture
def search(tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Searched]:
    """Search with a given beam, in a folder where programs look for checkpoints."""
    monkeypatch.setenv("HEADLIGHT_CHECKPOINTS", str(tiny_checkpoint.parent))
    model = Translator.load(tiny_checkpoint, "cpu")

    def of(beam: int) -> Searched:
        arguments = (("beam_size", beam), ("alpha", 0.6))
        return Searched(
            model.trace(SENTENCE, beam_size=beam, alpha=0.6),
            Source(tiny_checkpoint.name, sentence=SENTENCE, arguments=arguments),
        )

    return of


def check(exhibit: Exhibit) -> dict[str, object]:
    """Check that every format can be made, and the program its arrays; return its variables."""
    for write in (to_csv, to_npz, to_svg, to_html):
        assert len(write(exhibit)) > 500
    held: dict[str, object] = {}
    exec(exhibit.snippet, held)  # noqa: S102
    for name, values in exhibit.arrays.items():
        np.testing.assert_allclose(held[name], values, atol=1e-5, err_msg=name)  # type: ignore
    return held


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("dropped", [False, True])
def test_the_tree(search: Callable[[int], Searched], beam: int, dropped: bool) -> None:
    found = search(beam)
    exhibit = tree_exhibit(found.trace, TreeChoice(0, None, dropped), found.source)
    check(exhibit)
    (graph,) = exhibit.parts
    assert isinstance(graph, Graph)
    tree = found.tree
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
def test_a_node(search: Callable[[int], Searched], units: str) -> None:
    found = search(3)
    tree = found.tree
    node = next(node for node in tree.nodes if node.outcome == "outranked" and node.step == 3)
    exhibit = node_exhibit(found.trace, node.index, (1, None), units, found.source)
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
def test_two_branches(search: Callable[[int], Searched], look: str, units: str) -> None:
    found = search(3)
    tree = found.tree
    a, b = tree.leaves[0], tree.leaves[1]
    exhibit = branches_exhibit(found.trace, a, b, look, (None, 2), units, found.source)
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


def test_what_ended(search: Callable[[int], Searched]) -> None:
    for beam in (3, 1):
        found = search(beam)
        check(finished_exhibit(found.trace, found.source))


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
