import dataclasses
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.patches import FancyBboxPatch, PathPatch

from figures.exhibit import Exhibit, Graph, Panel, Series
from figures.labels import plain_token, query_labels
from figures.paper import PRESETS, Preset
from figures.paper.presets import LEAST_TYPE
from figures.paper.style import width
from figures.positions import cosines
from tests.factories import make_trace
from tests.figures.drawing import drawing
from tests.searched import PIECES, searched
from tests.tiny_models import KINDS, SENTENCES, random_model, tokenizer_of
from transformer.config import ModelConfig
from transformer.measures.beam import beam_tree
from transformer.positions import StoredPositions, sinusoids
from transformer.trace.inspection import inspect_head
from transformer.trace.records import Trace
from transformer.translator import Translator
from transformer.types import AttentionKind
from ui.attention.maps import maps_of
from ui.beam.exhibits import branches_stem, node_stem, search_branches, search_node, search_tree
from ui.core.doubts import cut_in_short, cut_notice, first_words, headline
from ui.head.exhibits import head_name, inside_head
from ui.positions import exhibits
from ui.positions.exhibits import content_and_position
from ui.tokens import views
from ui.tours.stops import translation
from ui.translate.exhibits import decoding

SENTENCE = "the little dog sat"


@pytest.fixture(scope="module")
def trace(tiny_translator: Translator) -> Trace:
    return tiny_translator.trace(SENTENCE, beam_size=3)


def rows_in(made: Exhibit, panel: int = 0) -> list[str]:
    return list(made.parts[panel].rows)  # type: ignore[union-attr]


def test_figures_of_every_page_name_rows_alike(tiny_translator: Translator, trace: Trace) -> None:
    labels = list(query_labels(trace, "cross"))
    assert labels[0] == f"<s> → {trace.predicted_tokens[0]}"
    player = decoding(trace)
    assert rows_in(player) == rows_in(player, 1) == labels
    for kind in ("cross", "decoder_self"):
        maps = maps_of(trace, kind, "tokens")
        assert list(maps.queries) == labels
        assert maps.keys == (trace.src_tokens if kind == "cross" else trace.tgt_tokens)
    winner = beam_tree(trace).winner
    assert rows_in(search_branches(trace, winner[-1], winner[-1]), 2) == labels
    assert rows_in(search_node(trace, winner[1])) == labels[1:2]
    head = inside_head(tiny_translator, trace, query=1)
    assert head.title.endswith(f"query 2 {labels[1].replace('▁', '_')}")
    split = content_and_position(tiny_translator, trace, "decoder_self")
    assert rows_in(split) == [f"{at} {label}" for at, label in enumerate(labels, start=1)]


def test_words_are_rows_by_what_they_read_on_every_page(trace: Trace) -> None:
    pieces = ("<s>", *(f"▁{at}" if at % 2 else str(at) for at in range(1, len(trace.tgt_tokens))))
    held = trace.__class__(
        **{**vars(trace), "tgt_tokens": pieces, "predicted_tokens": (*pieces[1:], "</s>")}
    )
    maps = maps_of(held, "cross", "words")
    assert maps.queries[0] == "<s> → 12"
    assert maps.queries[1] == "12 → 34"
    np.testing.assert_allclose(maps.weights.sum(axis=-1), 1, atol=1e-5)
    winner = beam_tree(trace).winner[-1]
    both = search_branches(trace, winner, winner, units="words")
    assert rows_in(both, 2) == list(maps_of(trace, "cross", "words").queries)


def test_a_head_is_drawn_over_keys_and_masked_ones_lack_logits(tiny_translator: Translator) -> None:
    trace = tiny_translator.trace("The cat <b> sat.", target="Ein Hund rennt.")
    made = inside_head(tiny_translator, trace, "decoder_self", 1, 2, 3)
    stages = inspect_head(tiny_translator.model, trace, "decoder_self", 1, 2, 3)
    assert made.name == head_name("decoder_self", 1, 2, 3)
    assert "layer 2, head 3: query 4" in made.title
    products, logits, weights, weighted = made.parts
    assert isinstance(products, Panel) and isinstance(weighted, Panel)
    np.testing.assert_array_equal(products.values, stages.products.T)
    np.testing.assert_array_equal(weighted.values, stages.scaled.weighted.T)
    assert products.columns == tuple(f"{i} {token}" for i, token in enumerate(trace.tgt_tokens, 1))
    assert isinstance(logits, Series) and isinstance(weights, Series)
    for line in logits.lines.values():
        np.testing.assert_array_equal(np.isnan(line), ~stages.mask)
    np.testing.assert_array_equal(weights.lines["not divided"], stages.unscaled.weights)


def test_the_entropy_of_the_player_is_in_bits_as_on_screen(trace: Trace) -> None:
    made = decoding(trace)
    nats, bits = (part for part in made.parts if isinstance(part, Series))
    assert (nats.y_title, bits.y_title) == ("nats", "bits")
    np.testing.assert_allclose(bits.lines["entropy"], trace.entropy / np.log(2), rtol=1e-6)
    np.testing.assert_allclose(made.arrays["entropy"], bits.lines["entropy"])
    assert nats.lines["score so far"][-1] == pytest.approx(trace.score, rel=1e-6)
    unknown = decoding(replace(trace, penalties=trace.penalties[:0]))  # a file of another program
    assert "score" not in unknown.arrays and len(unknown.parts) == len(made.parts)


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("dropped", [False, True])
def test_the_tree_has_every_node_on_screen_under_its_parent(beam: int, dropped: bool) -> None:
    trace = searched(1, beam)
    (graph,) = search_tree(trace, 0, dropped=dropped).parts
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


@pytest.mark.parametrize("kind", ["encoder_self", "decoder_self"])
def test_the_parts_of_a_split_add_up(kind: AttentionKind, tiny_translator: Translator) -> None:
    trace = tiny_translator.trace("The cat sat on the mat.", target="Ein Hund rennt.")
    made = exhibits.content_and_position(tiny_translator, trace, kind, 1)
    panels = [part for part in made.parts if isinstance(part, Panel)]
    assert len(panels) == 5
    assert [row.split(" ", 1)[1] for row in panels[0].rows] == list(query_labels(trace, kind))
    total = np.sum([panel.values for panel in panels[:-1]], axis=0)
    np.testing.assert_allclose(total, panels[-1].values, rtol=1e-5, atol=1e-5)
    assert np.isnan(total).any() == (kind == "decoder_self")


def with_tables(*tables: torch.Tensor, config: ModelConfig | None = None) -> Any:
    model: Any = torch.nn.Module()
    model.src_positions, model.tgt_positions = map(StoredPositions, tables)
    model.config = config
    return SimpleNamespace(model=model)


def test_learned_tables_are_compared_and_end() -> None:
    generator = torch.Generator().manual_seed(0)
    learned = [torch.randn(20, 7, generator=generator) for _ in range(2)]
    for side, table in zip(("Encoder", "Decoder"), learned, strict=True):
        made = exhibits.learned_positions(with_tables(*learned), side)
        np.testing.assert_allclose(made.arrays["learned"], cosines(table.numpy()), atol=1e-6)
        assert made.arrays["formula"].shape == (20, 20)
    beyond = exhibits.stored_positions_beyond(with_tables(*learned), 12, 8).arrays["curves"]
    assert np.isnan(beyond[20:, -1]).all() and not np.isnan(beyond[:20]).any()


def test_a_difference_that_small_has_a_scale_of_its_own() -> None:
    config = ModelConfig(d_model=8, positions="stored", max_positions=9, position_offset=2)
    rounded = sinusoids(config).half(), sinusoids(config).to(torch.bfloat16)
    made = exhibits.stored_positions(with_tables(*rounded, config=config), "Decoder", n=7)
    assert 1e-5 < np.abs(made.arrays["difference"]).max() < 0.1
    limits = [panel.quantity for panel in made.parts if isinstance(panel, Panel)]
    assert len(set(limits)) == 2


def test_what_a_row_shares_does_not_count() -> None:
    values = np.array([[1.0, 3.0, 9.0], [5.0, 5.0, 5.0], [0.0, 2.0, 4.0]], dtype=np.float32)
    mask = np.tril(np.ones((3, 3), dtype=bool))
    expected = np.sqrt((0 + 0 + 0 + 4 + 0 + 4) / 6)
    assert exhibits.within_rows(values, mask) == pytest.approx(expected)
    shifted = values + np.array([[7.0], [-3.0], [100.0]], dtype=np.float32)
    assert exhibits.within_rows(shifted, mask) == pytest.approx(expected)


WORDS = ["Ein", "Mann", *["und", "der", "Hund"] * 5, "un"]
TRACE = make_trace()
LOOPED = dataclasses.replace(TRACE, text=" ".join(WORDS), complete=False)
UNFINISHED = dataclasses.replace(TRACE, text="Ein Mann", complete=False)


def test_a_loop_is_cut_and_told_but_not_one_that_ends_by_itself() -> None:
    assert headline(LOOPED) == "Ein Mann und der Hund …"
    assert translation(LOOPED) == "“Ein Mann und der Hund …”"
    assert "`und der Hund` 5 times" in cut_notice(LOOPED)
    assert cut_in_short(LOOPED).endswith(": `und der Hund` 5 times, shown once")
    whole = dataclasses.replace(LOOPED, complete=True)
    assert headline(whole) == LOOPED.text
    assert cut_in_short(whole) == cut_notice(whole) == ""


def test_a_cut_without_a_loop_is_told() -> None:
    assert headline(UNFINISHED) == "Ein Mann"
    assert cut_notice(UNFINISHED).endswith("the model did not finish the sentence by itself.")
    assert cut_in_short(UNFINISHED) == f"Cut at {len(TRACE.predicted_tokens)} tokens"


@pytest.mark.parametrize("word", ["{}", "▁{}"])
def test_as_many_words_stand_on_compare_as_in_the_headline(word: str) -> None:
    words = [word.format(each) for each in WORDS]
    assert first_words(LOOPED, words) == 5
    assert first_words(dataclasses.replace(LOOPED, complete=True), words) == len(words)


HOSTILE = (SENTENCES[0], "a 👩‍👩‍👧 ﬁne e\u0301 שלום\nnext <script>x</script>", "x" * 200, "?")


def make(kind: str) -> Translator:
    tokenizer = tokenizer_of(kind)
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size, d_model=24, n_heads=3, d_k=6, d_v=10, d_ff=40,
        n_encoder_layers=2, n_decoder_layers=3, output_bias=True, tie_embeddings="none",
    )  # fmt: skip
    return Translator(random_model(config), tokenizer, device="cpu")


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest) -> Translator:
    return make(request.param)


@pytest.mark.parametrize("sentence", HOSTILE)
def test_a_reading_keeps_the_text_and_marks_unknowns(model: Translator, sentence: str) -> None:
    trace = model.trace(sentence, beam_size=1, max_length=6)
    tokenizer = model.tokenizer
    reading = views.read_side(model, trace, "source", sentence)
    assert "".join(reading.texts) == reading.normal == tokenizer.normalize(sentence)
    assert reading.own_cut
    assert reading.n_pieces == len(reading.ids) - 1 == len(tokenizer.encode(sentence))
    assert reading.n_words == len(reading.normal.replace("▁", " ").split())
    shown = views.pieces_shown(reading, tokenizer)
    assert [each.id for each in shown] == list(reading.ids)
    assert shown[-1].mark == "special"
    strange = [i for i, each in enumerate(shown) if each.mark in ("byte", "unknown")]
    assert tuple(strange) == reading.unknown
    scored = [tokenizer.kind == "unigram" and not each.mark for each in shown]
    assert [bool(each.score) for each in shown] == scored
    assert (("ﬁ", "fi") in reading.changed) == ("ﬁ" in sentence)
    translated = views.read_side(model, trace, "translation", sentence)
    assert (translated.ids, translated.typed) == (trace.predicted_ids, trace.text)


@pytest.mark.parametrize("sentence", HOSTILE)
def test_other_cuts_spell_the_same_text(model: Translator, sentence: str) -> None:
    tokenizer = model.tokenizer
    cuts = views.cuts_of(tokenizer, sentence, 0.3, 5)
    assert list(cuts[0].ids) == tokenizer.encode(sentence)
    assert len({cut.ids for cut in cuts}) == len(cuts)
    assert views.cuts_of(tokenizer, sentence, 0.3, 5) == cuts
    for cut in cuts:
        assert "".join(cut.texts) == tokenizer.normalize(sentence)
        assert len(cut.texts) == len(cut.ids)
        assert tokenizer.decode(cut.ids) == tokenizer.decode(cuts[0].ids)
    if tokenizer.kind == "unigram":
        shares = [cut.share or 0.0 for cut in cuts]
        assert shares == sorted(shares, reverse=True) and shares[-1] > 0 and sum(shares) <= 1.01
    assert tokenizer.kind != "char" or len(cuts) == 1
    first, *others = views.cuts_shown(cuts)
    assert first.text and not first.stretches and all(row.stretches for row in others)


def test_bpe_cuts_follow_dropout_and_seed() -> None:
    tokenizer = make("bpe").tokenizer
    assert len(views.cuts_of(tokenizer, SENTENCES[0], 0, 0)) == 1
    one, other = (views.cuts_of(tokenizer, SENTENCES[0], 0.2, seed) for seed in (0, 1))
    assert len(one) == 6 and one[1:] != other[1:]
    assert views.cuts_of(tokenizer, "cat", 1, 0)[1].texts == ("▁", "c", "a", "t")


def test_neighbours_in_every_matrix_and_never_padding() -> None:
    model = make("unigram")
    found = views.near(model, 9, 12)
    assert list(found) == ["source", "target", "output"]
    for each in found.values():
        assert len(each.ids) == 12 and not {0, 9} & set(each.ids.tolist())
    assert views.near(model, 0, 3)["source"].ids.size == 3


@pytest.mark.parametrize("side", ["source", "translation"])
def test_the_plane_keeps_repeats_together_until_positions_part_them(side: str) -> None:
    model = make("unigram")
    trace = model.trace("the cat the cat", beam_size=1, max_length=8)
    found = views.plane_of(model, trace, "source" if side == "source" else "translation", 20)
    assert found.axes.shares.sum() <= 1 + 1e-6
    assert len(found.background) == len(found.background_ids) == 20
    for i, k in combinations(range(len(found.ids)), 2):
        if found.ids[i] == found.ids[k]:
            np.testing.assert_allclose(found.content[i], found.content[k], atol=1e-5)
            assert not np.allclose(found.entering[i], found.entering[k], atol=1e-3)
    assert found.position_norm == pytest.approx(12**0.5)  # sin^2 + cos^2, 12 pairs
    assert found.scale == pytest.approx(24**0.5)


def test_the_most_frequent_pieces_are_ordinary_ones() -> None:
    tokenizer = make("bytes").tokenizer
    frequent = views.most_frequent(tokenizer, 10)
    scores = [tokenizer.scores[index] for index in frequent]
    assert scores == sorted(scores, reverse=True)
    assert not set(frequent) & {0, 1, 2, 3, *tokenizer.byte_ids}
    assert views.most_frequent(tokenizer, 0) == ()
