"""The downloaded search tree: boxes, edges that reach them, and whole words."""

from __future__ import annotations

import pytest

from figures.exhibit import Exhibit
from figures.labels import plain_token
from figures.paper.page import drawn
from figures.paper.presets import LEAST_TYPE, PRESETS, Preset
from tests.figures.svg import Drawing
from tests.searched import PIECES, searched
from transformer.measures.beam import beam_tree
from transformer.trace.records import Trace
from ui.beam.exhibits import tree_exhibit
from ui.components.tree import TreeChoice
from ui.export.programs import Source

SOURCE = Source("some-model", sentence="The <b>dog</b> barks.")


def figure(trace: Trace, *, dropped: bool = False) -> Exhibit:
    return tree_exhibit(trace, TreeChoice(None, None, dropped), SOURCE)


@pytest.fixture(scope="module", params=[2, 4, 10])
def trace(request: pytest.FixtureRequest) -> Trace:
    return searched(3, request.param)


@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("preset", PRESETS.values(), ids=list(PRESETS))
def test_edges_join_boxes_that_hold_whole_words(
    trace: Trace, preset: Preset, dropped: bool
) -> None:
    drawing = Drawing(drawn(figure(trace, dropped=dropped), preset).encode())
    boxes, edges = drawing.rects("node"), drawing.ends("edge")
    nodes = [each for each in beam_tree(trace).nodes if dropped or each.fate != "dropped"]
    assert len(boxes) > len(nodes), "a box for each node, and for the root"
    assert len(edges) >= sum(each.fate != "dropped" for each in nodes)
    for x, y, u, v in edges:
        assert x < u
        assert any(box.touches(x, y) and abs(box.right - x) < 0.02 for box in boxes)
        assert any(box.touches(u, v) and abs(box.x - u) < 0.02 for box in boxes)
    tokens = drawing.text_boxes("token")
    assert {words for words, _ in tokens} <= {plain_token(piece) for piece in PIECES}
    for words, place in tokens:
        assert any(box.holds(place) for box in boxes), words


@pytest.mark.parametrize("preset", PRESETS.values(), ids=list(PRESETS))
def test_no_box_overlaps_another_or_leaves_the_page(trace: Trace, preset: Preset) -> None:
    drawing = Drawing(drawn(figure(trace, dropped=True), preset).encode())
    width, height = drawing.size()
    assert width == pytest.approx(preset.width, abs=1e-3)
    assert not preset.height or height == pytest.approx(preset.height)
    boxes = drawing.rects("node")
    assert max(box.right for box in boxes) * drawing.scale <= width * 72 - preset.margin + 0.02
    assert min(box.x for box in boxes) >= 0
    for one in boxes:
        for other in boxes:
            apart = one.right < other.x or other.right < one.x
            apart = apart or one.y + one.height < other.y or other.y + other.height < one.y
            assert apart or one is other


def test_type_on_paper_is_legible_and_the_caption_says_where_it_is_from(trace: Trace) -> None:
    for name in ("one-column", "two-columns"):
        drawing = Drawing(drawn(figure(trace), PRESETS[name]).encode())
        assert min(drawing.types()) >= LEAST_TYPE
        caption = " ".join(drawing.texts("caption"))
        assert "Sentence: “The <b>dog</b> barks.” Checkpoint: some-model." in caption
        assert "log-probabilities are in nats" in caption


def test_a_dark_slide_is_dark_and_paper_is_white(trace: Trace) -> None:
    for name, colour in (("dark-slide", "#0f0e0d"), ("two-columns", "#ffffff")):
        drawing = Drawing(drawn(figure(trace), PRESETS[name]).encode())
        assert drawing.all("rect")[0].get("fill") == colour
