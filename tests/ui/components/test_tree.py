"""The view of a search tree: its message and colours."""

import pytest

from figures.outcomes import OUTCOMES
from figures.palette import CHROME, THEMES, contrast
from tests.searched import searched
from transformer.measures.beam import Tree, beam_tree
from ui.components.tree import TreeChoice, branch_colours, tree_component


@pytest.fixture(scope="module")
def tree() -> Tree:
    return beam_tree(searched(3, 3))


def test_the_message_holds_every_node(tree: Tree) -> None:
    shown = tree_component(tree, TreeChoice(2, None, True), "x", single=True)
    header = shown.header
    assert header["single"]
    assert shown.choice == {"a": 2, "b": None, "dropped": True}
    assert header["beam"] == 3
    for node in tree.nodes:
        i = node.index
        assert header["parent"][i] == node.parent
        assert (header["step"][i], header["rank"][i]) == (node.step, node.rank)
        assert header["texts"][header["text"][i]].strip("\u2068\u2069") == node.token
        assert header["total"][i] == pytest.approx(node.total, abs=1e-4)
        assert header["score"][i] == pytest.approx(node.score, abs=1e-4)
        assert header["log_prob"][i] == pytest.approx(node.log_prob, abs=1e-4)
        assert header["outcomes"][header["kind"][i]] == OUTCOMES[node.outcome]
        line = header["line"][i]
        assert (line == 2) == (i in tree.winner)
        assert (line > 0) == (i in tree.alive)


def test_kinds_that_the_script_counts_on() -> None:
    # draw.js: kinds up to 3 are in the beam, 2 and 3 end a path.
    assert list(OUTCOMES)[:4] == ["continued", "exhausted", "finished", "cut"]


def test_sixty_steps_of_a_beam_of_ten_are_a_message_of_modest_size() -> None:
    wide = beam_tree(searched(0, 10, max_length=60, end=-30.0))
    assert len(wide.steps) == 60 and len(wide.nodes) > 4_000
    assert len(tree_component(wide, TreeChoice(None, None, False), "").message()) < 400_000


@pytest.mark.parametrize("theme", THEMES)
def test_a_and_b_can_be_seen_and_told_from_the_winner(theme: str) -> None:
    a, b = branch_colours(theme)
    chrome = CHROME[theme]  # type: ignore[index]
    assert len({a, b, chrome.accent}) == 3
    for colour in (a, b):
        assert contrast(colour, chrome.surface) >= 3
