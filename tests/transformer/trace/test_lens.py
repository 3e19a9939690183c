import copy
import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.factories import make_trace
from tests.tiny_models import CONFIGS, SENTENCES, random_model
from transformer.config import ModelConfig
from transformer.edits.language import parse_edit
from transformer.edits.model import edited
from transformer.model import Transformer
from transformer.positions import pair_columns
from transformer.trace import position_vectors, removals
from transformer.trace.parts import Part
from transformer.trace.position_vectors import embedding_tables, stack_input
from transformer.trace.records import Trace
from transformer.trace.stream import changes_without, lens, logit_shares
from transformer.translator import Translator
from transformer.types import InputError

SRC, TGT, NEXT = (5, 9, 7, 12, 21, 2), (1, 6, 11, 28), (6, 11, 28, 2)


@pytest.fixture
def trace() -> Trace:
    made = make_trace(S=len(SRC), T=len(TGT))
    return dataclasses.replace(made, src_ids=SRC, tgt_ids=TGT, predicted_ids=NEXT)


def logits_of(model: Transformer) -> torch.Tensor:
    with torch.inference_mode():  # another kernel runs outside it
        return model(torch.tensor([SRC]), torch.tensor([TGT]))[0]


def test_the_last_row_of_the_lens_is_the_models_own(model: Transformer, trace: Trace) -> None:
    found, own = lens(model, trace), logits_of(model).log_softmax(-1)
    assert found.ranks.shape == (1 + model.config.n_decoder_layers, len(TGT))
    assert np.array_equal(found.top_ids[-1], own.argmax(-1))
    assert np.array_equal(found.top_log_probs[-1], own.max(-1).values)
    assert np.array_equal(found.log_probs[-1], own[range(len(TGT)), list(NEXT)])
    order = own.argsort(-1, descending=True)
    assert [order[t].tolist().index(token) + 1 for t, token in enumerate(NEXT)] == (
        found.ranks[-1].tolist()
    )
    # A row before it is the last one of a decoder without the layers above.
    skipped = edited(model, f"skip decoder.{model.config.n_decoder_layers}")
    np.testing.assert_allclose(lens(skipped, trace).log_probs[-1], found.log_probs[-2], atol=1e-5)


@pytest.mark.parametrize("edits", [
    "", "no residual decoder.1; skip decoder.2; scale cross.1 0.5",
    "off cross.1.1; uniform decoder", "cut cross k2; ffn off decoder.1",
    "neuron decoder.1.3 4; no positions", "no mask; swap qk cross",
    "no scaling; skip decoder.1; shift positions 2",
])  # fmt: skip
def test_shares_add_up_to_the_difference(model: Transformer, trace: Trace, edits: str) -> None:
    if model.config.n_decoder_layers == 1:
        edits = edits.replace("skip decoder.2; ", "")
    if model.config.positions == "relative":
        edits = edits.replace("; shift positions 2", "")
    other = edited(model, edits)
    for step in (0, 3):
        found = logit_shares(other, trace, step, 11, 28)
        assert found.difference == pytest.approx(difference_of(other, step), abs=1e-5)
        parts = found.parts
        heads = model.config.decoder_heads
        assert len({part for part, _ in parts}) == (2 * heads + 1) * len(model.decoder) + 3
        assert sum(share for _, share in parts) == pytest.approx(found.difference, abs=1e-4)
        sizes = [abs(share) for _, share in parts]
        assert sizes == sorted(sizes, reverse=True)
    with pytest.raises(ValueError, match="token"):
        logit_shares(model, trace, 0, 1, 10_000)


def difference_of(model: Transformer, step: int) -> float:
    logits = logits_of(model)[step].double()
    return float(logits[11] - logits[28])


@pytest.mark.parametrize("edits", ["", "scale decoder.1 0.5; cut cross q2"])
def test_changes_equal_those_of_models_without_the_part(
    model: Transformer, trace: Trace, edits: str
) -> None:
    model = edited(model, edits)
    last = model.config.n_decoder_layers
    shares = logit_shares(model, trace, 2, 11, 28)
    found = changes_without(model, trace, shares, [
        Part("decoder", "head", "cross", last - 1, 0),
        Part("decoder", "head", "decoder_self", 0, model.config.decoder_heads - 1),
        Part("decoder", "feed_forward", None, last - 1),
    ])  # fmt: skip
    without = (f"off cross.{last}.1", f"off decoder.1.{model.config.decoder_heads}",
               f"ffn off decoder.{last}")  # fmt: skip
    before = difference_of(model, 2)
    expected = [difference_of(edited(model, edit), 2) - before for edit in without]
    assert found == pytest.approx(expected, abs=1e-5)


def test_an_embedding_a_position_and_biases_are_taken_out(model: Transformer, trace: Trace) -> None:
    one = dataclasses.replace(trace, tgt_ids=TGT[:1], predicted_ids=NEXT[:1])
    shares, before = logit_shares(model, one, 0, 11, 28), difference_of(model, 0)
    parts = [Part("decoder", "embedding"), Part("decoder", "position"), Part("decoder", "bias")]
    found = changes_without(model, one, shares, parts)
    with torch.no_grad():
        other = copy.deepcopy(model)
        other.tgt_embedding = copy.deepcopy(other.tgt_embedding)  # apart from the output's
        other.tgt_embedding.weight[TGT[0]] = 0
        assert found[0] == pytest.approx(difference_of(other, 0) - before, abs=1e-4)
        if model.config.positions != "relative":
            nowhere = edited(model, "no positions decoder")
            assert found[1] == pytest.approx(difference_of(nowhere, 0) - before, abs=1e-5)
        other = copy.deepcopy(model)
        for name, weight in other.named_parameters():
            kept = name.startswith("encoder") or ".w_q" in name or ".w_k" in name or ".w_v" in name
            read = "around" in name and model.config.norm == "pre"
            if name.endswith("bias") and not (kept or read or "feed_forward.w" in name):
                weight.zero_()
        assert found[2] == pytest.approx(difference_of(other, 0) - before, abs=1e-5)


def test_the_batch_of_removals_is_a_loop_of_edits(model: Transformer, trace: Trace) -> None:
    heads = removals.heads_of(model.config.head_shapes)
    found = removals.without_heads(model, trace)
    loop = removals.with_edits(model, trace, [[head.off] for head in heads])
    batch = [found[head.kind][head.layer, head.head] for head in heads]
    np.testing.assert_allclose(np.stack(batch), loop, rtol=0, atol=1e-6)


def test_needs_are_single_edits(model: Transformer, trace: Trace) -> None:
    found = removals.needs(model, trace)
    own = removals.log_probs(model, trace)
    assert removals.Head("cross", 1, 2).off == parse_edit("off cross.2.3")
    for changes, edit in (
        (found.words[1], "cut cross k2"),
        (found.networks["encoder"][0], "ffn off encoder.1"),
        (found.layers["decoder"][-1], f"skip decoder.{model.config.n_decoder_layers}"),
    ):
        other = removals.log_probs(edited(model, edit), trace)
        np.testing.assert_allclose(changes, other - own, atol=1e-6)
    assert found.of(found.words, None) == pytest.approx(found.words.sum(1))
    assert np.array_equal(found.of(found.heads["cross"], 2), found.heads["cross"][..., 2])


def test_pruning_takes_every_head_least_harmful_first(trace: Trace) -> None:
    model = random_model(CONFIGS["post-norm"], seed=4)
    every = list(removals.pruned(model, [trace, trace]))
    assert {each.head for each in every} == set(removals.heads_of(model.config.head_shapes))
    singles = {head: float(removals.log_probs(edited(model, [head.off]), trace).sum())
               for head in removals.heads_of(model.config.head_shapes)}  # fmt: skip
    assert every[0].log_prob == pytest.approx(2 * max(singles.values()), abs=1e-4)
    bare = edited(model, "off encoder; off decoder; off cross")
    assert every[-1].log_prob == pytest.approx(
        2 * float(removals.log_probs(bare, trace).sum()), abs=1e-4
    )


@pytest.mark.parametrize("edits", ["", "off cross.2.1; scale encoder.1 0.5"])
def test_encoder_layers_equal_shorter_encoders(tiny_translator: Translator, edits: str) -> None:
    translator, config = tiny_translator.edited(edits), tiny_translator.config
    found = translator.from_encoder_layers(SENTENCES[1], 3, 0.8)
    assert len(found) == config.n_encoder_layers
    for depth, each in enumerate(found, 1):
        short = copy.deepcopy(translator.model)
        short.encoder = short.encoder[:depth]
        short.config = config.replace(n_encoder_layers=depth)
        plain = Translator(short, tiny_translator.tokenizer, device="cpu")
        expected = plain.translate([SENTENCES[1]], 3, 0.8)[0]
        assert each.ids == expected.ids
        assert each.log_probs == pytest.approx(expected.log_probs, abs=1e-4)
    assert found[-1] == translator.translate([SENTENCES[1]], 3, 0.8)[0]
    assert found[0].log_probs != found[-1].log_probs


#: Unequal depths, other heads in the decoder than in the encoder.
UNEVEN = ModelConfig(
    vocab_size=40, d_model=24, n_heads=3, n_decoder_heads=6, d_ff=20, n_encoder_layers=1,
    n_decoder_layers=3, norm="pre", attention_bias=True,
)  # fmt: skip


def trace_of(n_source: int, n_target: int, vocab: int = 30) -> Trace:
    rng = np.random.default_rng(n_source)
    src, tgt = (tuple(rng.integers(4, vocab, n).tolist()) for n in (n_source, n_target))
    made = make_trace(S=n_source, T=n_target)
    return dataclasses.replace(made, src_ids=src, tgt_ids=(1, *tgt[:-1]), predicted_ids=tgt)


class Passes:
    """Counts passes through decoders and their rows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: list[int] = []
        decode = Transformer.decode

        def counted(model: Transformer, tgt_in: torch.Tensor, *given: Any, **options: Any) -> Any:
            self.rows.append(len(tgt_in))
            return decode(model, tgt_in, *given, **options)

        monkeypatch.setattr(Transformer, "decode", counted)


@pytest.mark.parametrize("config", [UNEVEN, CONFIGS["post-norm"]])
def test_a_batch_of_sets_equals_a_loop(
    config: ModelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, trace = random_model(config, seed=2), trace_of(7, 5)
    n = config.n_decoder_layers
    sets = [
        "off cross", f"scale decoder.{n} 0.5; scale decoder.{n}.2 3; off encoder.1.1", "",
        f"cut cross.{n} k2", "scale cross 0; scale encoder 2", "skip decoder.1; off encoder.1.2",
        ["off cross.1.1", "off cross.1.2"],
    ]  # fmt: skip
    own = removals.log_probs(model, trace)
    plain = [removals.log_probs(edited(model, each), trace) - own for each in sets]
    seen, done = Passes(monkeypatch), []
    found = removals.with_edits(model, trace, sets, progress=lambda *at: done.append(at))
    np.testing.assert_allclose(found, plain, atol=1e-5)
    assert seen.rows == [1, 5, 1, 1] and done[-1] == (7, 7)
    assert removals.with_edits(model, trace, []).shape == (0, 5)
    with pytest.raises(InputError, match=r"“off cross.9.1”: cross has layers 1 to"):
        removals.with_edits(model, trace, ["off cross.9.1"])


@pytest.mark.parametrize("length", [12, 70])
def test_a_base_model_takes_under_twenty_passes(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layers, heads and neurons are as in the paper's base model, which bound a batch."""
    model = random_model(ModelConfig().replace(vocab_size=50, d_model=16, d_k=2, d_v=2))
    seen = Passes(monkeypatch)
    trace = trace_of(length, length, 40)
    ninety_six = [
        [head.off]
        for head in removals.heads_of(model.config.head_shapes)
        if head.kind != "encoder_self"
    ]
    assert len(ninety_six) == 96
    removals.with_edits(model, trace, ninety_six)
    assert len(seen.rows) < 20
    seen.rows.clear()
    removals.without_heads(model, trace)
    assert len(seen.rows) < 20


@pytest.mark.parametrize("changed", [{}, {"scale_embedding": False}, {"positions": "learned"}])
def test_both_parts_add_up(tiny_config: ModelConfig, changed: dict[str, object]) -> None:
    model = random_model(tiny_config.replace(**changed))
    ids = [5, 9, 5, 2, 17]
    for side in ("source", "translation"):
        parts = stack_input(model, ids, side)
        embed = (model.embed_source if side == "source" else model.embed_target)(
            torch.tensor([ids])
        )
        np.testing.assert_allclose(parts.content + parts.positions, embed[0], atol=1e-5)
        np.testing.assert_array_equal(parts.content[0], parts.content[2])
        assert parts.scale == (24**0.5 if tiny_config.replace(**changed).scale_embedding else 1)


@pytest.mark.parametrize("tying", ["all", "decoder", "none"])
def test_shared_matrices_appear_once(tiny_config: ModelConfig, tying: str) -> None:
    model = random_model(tiny_config.replace(tie_embeddings=tying))
    tables = embedding_tables(model)
    assert list(tables) == {
        "all": ["source, target and output"], "decoder": ["source", "target and output"],
        "none": ["source", "target", "output"],
    }[tying]  # fmt: skip
    assert {table.shape for table in tables.values()} == {(tiny_config.vocab_size, 24)}
    (target,) = (table for name, table in tables.items() if "target" in name)
    content = stack_input(model, [7], "translation").content[0]
    np.testing.assert_allclose(content, target[7] * 24**0.5, rtol=1e-6)


LAYOUTS = ("interleaved", "concatenated")


def by_hand(pos: int, dimension: int, d_model: int) -> float:
    angle = pos / 10_000 ** ((dimension - dimension % 2) / d_model)
    return math.cos(angle) if dimension % 2 else math.sin(angle)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_names_and_pairs_find_the_columns(layout: str) -> None:
    table = position_vectors.encoding(4, 10, layout)
    names = position_vectors.dimension_names(10, layout)
    for pair, (sine, cosine) in enumerate(pair_columns(10, layout).tolist()):
        assert (names[sine], names[cosine]) == (f"sin of pair {pair}", f"cos of pair {pair}")
        for pos in range(4):
            assert table[pos, sine] == pytest.approx(by_hand(pos, 2 * pair, 10), abs=1e-6)
            assert table[pos, cosine] == pytest.approx(by_hand(pos, 2 * pair + 1, 10), abs=1e-6)


def test_wavelengths_and_products_of_the_formula() -> None:
    waves = position_vectors.wavelengths(512)
    assert waves[0] == pytest.approx(2 * math.pi)
    assert waves[-1] == pytest.approx(2 * math.pi * 10_000 ** (510 / 512))
    values = position_vectors.offset_products((0, 10, 400), 30, 64)
    np.testing.assert_allclose(values, np.broadcast_to(values[:, :1], values.shape), atol=1e-4)
    assert values[0, 0] == pytest.approx(32, abs=1e-4)  # d / 2


@settings(max_examples=40, deadline=None)
@given(
    pos=st.integers(0, 5_000),
    k=st.integers(-500, 500),
    half=st.integers(1, 40),
    layout=st.sampled_from(LAYOUTS),
)
def test_a_turned_encoding_is_the_shifted_one(pos: int, k: int, half: int, layout: str) -> None:
    result = position_vectors.shift(pos, k, 2 * half, layout, n=16)
    assert result.largest_error < 2e-7
    assert result.largest_error_anywhere < 2e-7
    np.testing.assert_allclose(result.after, result.expected, atol=2e-7)
    # Turning by hand: sine goes up, cosine to the right.
    angles = np.arctan2(result.before[:, 0], result.before[:, 1]) + result.angles
    np.testing.assert_allclose(np.sin(angles), result.expected[:, 0], atol=1e-6)


def test_the_error_is_measured_and_not_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        position_vectors, "shift_matrix", lambda k, d, layout: torch.eye(d).double()
    )
    assert position_vectors.shift(3, 5, 8, "interleaved").largest_error > 0.1


@pytest.mark.parametrize("kind", ["learned", "stored"])
def test_tables_are_read_from_the_model(tiny_config: ModelConfig, kind: str) -> None:
    model = random_model(tiny_config.replace(positions=kind, max_positions=20))
    tables = position_vectors.tables_of(model)
    assert list(tables) == ["Encoder", "Decoder"]
    assert tables["Encoder"].shape == (20, tiny_config.d_model)
    decoder = model.state_dict()["tgt_positions.table"]
    np.testing.assert_array_equal(tables["Decoder"], decoder.numpy())
    assert position_vectors.tables_of(random_model(tiny_config)) == {}
    assert bool(position_vectors.stored_note(model)) == (kind == "stored")


def test_sinusoids_unlike_the_papers_are_told_of(tiny_config: ModelConfig) -> None:
    assert position_vectors.unlike_the_paper(tiny_config) == ""
    other = tiny_config.replace(position_offset=2, position_frequencies="endpoint")
    note = position_vectors.unlike_the_paper(other)
    assert "counts its positions from 2 and has frequencies that end at exactly 1/10000" in note
    assert position_vectors.unlike_the_paper(other.replace(positions="learned")) == ""


def test_length_of_training() -> None:
    for training, expected in (
        ({"longest_source": 40, "longest_target": 44}, 44), ({"longest_source": 40}, 40),
        ({"longest_source": "many", "longest_target": True}, None), (None, None),
    ):  # fmt: skip
        assert position_vectors.trained_positions({"training": training}) == expected
    assert position_vectors.trained_positions({}) is None


def test_around_the_end_of_training_the_formula_goes_on_and_a_table_stops() -> None:
    table = np.arange(1, 41, dtype=np.float32).reshape(20, 2)
    values, names = position_vectors.around(15, 64, {"Decoder": table})
    assert values.shape == (30, len(names))
    assert names[-1].startswith("Decoder, learned dimension 0")
    assert not np.isnan(values[:, :-1]).any()
    np.testing.assert_allclose(values[:20, -1], table[:, 0] / 39)
    assert np.isnan(values[20:, -1]).all()
    for column, name in enumerate(names[:-1]):
        pair = int(name.split("pair ")[1].split(",")[0])
        assert values[29, column] == pytest.approx(by_hand(29, 2 * pair, 64), abs=1e-6)
