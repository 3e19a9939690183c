import pytest
from streamlit.testing.v1 import AppTest

from figures.labels import signed
from figures.outcomes import penalty_of, why_it_went
from tests.pages.conftest import CAT, RunApp
from tests.pages.links import said, unlinked
from transformer.measures.beam import Tree, beam_tree, compare
from transformer.translator import Translator
from ui.work.lru import Lru


@pytest.fixture(scope="module")
def tree(tiny_translator: Translator) -> Tree:
    return beam_tree(tiny_translator.trace(CAT))


def cells(app: AppTest) -> list[str]:
    return [
        unlinked(str(value).replace("\\", ""))
        for table in app.table
        for column in table.value.columns
        for value in table.value[column]
    ]


def test_a_link_reopens_any_node_with_its_own_numbers(open_page: RunApp, tree: Tree) -> None:
    for outcome in ("continued", "outranked", "finished"):
        node = next(node for node in tree.nodes if node.outcome == outcome and node.step > 1)
        mark = f"{node.step + 1}.{node.rank + 1}"
        app = open_page(a=mark, panel="node", dropped="off", layer="2", head="1")
        assert why_it_went(tree, node) in said(app)
        assert f"**Step {node.step + 1}: " in said(app)
        numbers = cells(app)
        assert signed(node.total, 3) in numbers and signed(node.score, 3) in numbers
        assert penalty_of(node.length, tree.alpha) in numbers
        assert f"{node.rank + 1} of {len(tree.steps[node.step])}" in numbers
        assert "layer 2, head 1" in said(app)


def test_two_branches_side_by_side(open_page: RunApp, tree: Tree) -> None:
    a, b = (tree.node(tree.leaves[place]) for place in (0, 1))
    marks = [f"{node.step + 1}.{node.rank + 1}" for node in (a, b)]
    app = open_page(a=marks[0], b=marks[1], panel="compare", look="decoder_self")
    both = compare(tree, a.index, b.index)
    assert f"They share {both.shared} token" in said(app)
    assert signed(both.a[both.shared].log_prob) in said(app)
    assert "A: decoder self-attention" in said(app)
    assert [box.value for box in app.selectbox if box.label in "AB"] == [a.index, b.index]


def test_without_b_the_best_that_a_did_not_lead_to_is_taken(open_page: RunApp, tree: Tree) -> None:
    app = open_page()
    app.segmented_control(key="panel_widget").set_value("compare").run()
    assert "They share" in said(app)
    third = tree.leaves[2]
    box = next(box for box in app.selectbox if box.label == "B")
    box.set_value(third).run()
    node = tree.node(third)
    assert app.query_params["b"] == f"{node.step + 1}.{node.rank + 1}"


def test_going_on_from_a_node_steers_the_search(open_page: RunApp, tree: Tree) -> None:
    node = next(node for node in tree.nodes if node.outcome == "outranked" and node.step == 2)
    app = open_page(a=f"{node.step + 1}.{node.rank + 1}", panel="node")
    app.button(key="beam_go_on").click().run()
    ids = [each.token_id for each in tree.prefix(node.index)]
    assert app.query_params["prefix"] == ".".join(map(str, ids))


def test_a_beam_of_one_is_a_chain(open_page: RunApp) -> None:
    app = open_page(beam="1")
    for panel in ("compare", "finished"):
        app.segmented_control(key="panel_widget").set_value(panel).run()
    assert not open_page(target="Die Katze saß.").table  # given, not searched for


def test_too_large_a_record_is_missing(open_page: RunApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.work.results.CACHE", Lru(1000))
    app = open_page()
    assert "beam of 4" in app.info[0].value and not app.table
