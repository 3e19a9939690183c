"""The downloaded search tree: boxes, edges that reach them, and whole words."""

from itertools import combinations

import pytest
from matplotlib.patches import FancyBboxPatch, PathPatch

from figures.exhibit import Exhibit
from figures.labels import plain_token
from figures.paper import PRESETS, Preset
from figures.paper.presets import LEAST_TYPE
from figures.paper.style import width
from tests.figures.drawing import drawing
from tests.searched import PIECES, searched
from transformer.measures.beam import beam_tree
from transformer.trace.records import Trace
from ui.beam.exhibits import search_tree
from ui.export.programs import Source

SOURCE = Source("some-model", sentence="The <b>dog</b> barks.")


def figure(trace: Trace, *, dropped: bool = False) -> Exhibit:
    return SOURCE.of(search_tree, trace, dropped=dropped)


@pytest.mark.parametrize(
    ("beam", "dropped", "preset"),
    [(2, True, PRESETS["one-column"]), (4, False, PRESETS["dark-slide"]),
     (10, False, PRESETS["dark-slide"])],
)  # fmt: skip
def test_edges_join_boxes_that_hold_whole_words(beam: int, dropped: bool, preset: Preset) -> None:
    trace = searched(3, beam)
    nodes = [each for each in beam_tree(trace).nodes if dropped or each.fate != "dropped"]
    with drawing(figure(trace, dropped=dropped), preset) as seen:
        assert seen.size[0] == pytest.approx(preset.width)
        assert not preset.height or seen.size[1] == pytest.approx(preset.height)
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


def test_type_on_paper_is_legible_and_the_caption_says_where_it_is_from() -> None:
    for name in ("one-column", "two-columns"):
        with drawing(figure(searched(3, 4)), PRESETS[name]) as seen:
            assert min(text.get_size() for text in seen.texts) >= LEAST_TYPE
            assert "Sentence: “The <b>dog</b> barks.” Checkpoint: some-model." in seen.lines
            assert "log-probabilities are in nats" in seen.lines
