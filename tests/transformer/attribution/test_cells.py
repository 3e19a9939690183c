"""Maps of a measure in place of weights, on models with random weights."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headlight
from tests.shipped import FOLDER, STACKS
from tests.transformer.conftest import Command
from transformer.attribution.cells import Place, measured, why_no_effect, why_weight_only
from transformer.attribution.edges import edges, effects, row_shares
from transformer.hooks import Site, as_hooks
from transformer.measures.heads import combine, key_classes, mass_by_class
from transformer.models.arrays.trace_file import load_arrays, load_measured, save_arrays
from transformer.models.catalogue import open_tracer
from transformer.trace.records import CELL_MEASURES, CellMeasure, Cells, Trace
from transformer.translator import Translator
from transformer.types import ATTENTION_KINDS, CheckpointError, InputError

SENTENCE = "The cat sat on the mat, because it was tired."


@pytest.fixture(scope="module")
def translator(tiny_checkpoint: Path) -> Translator:
    return Translator.load(tiny_checkpoint, device="cpu")


@pytest.fixture(scope="module")
def trace(translator: Translator) -> Trace:
    return translator.trace(SENTENCE, "Die Katze schläft.")


def cells_of(trace: Trace) -> Cells:
    assert trace.cells is not None
    return trace.cells


@pytest.mark.parametrize("name", ["norm", "zeroing", "contribution"])
def test_maps_are_shares_and_a_block_is_not_the_mean_of_its_heads(
    translator: Translator, trace: Trace, name: CellMeasure
) -> None:
    of, made = edges(translator.model, trace, name), measured(translator, trace, name)
    wide = cells_of(made).wide
    assert cells_of(made).gap == of.gap < 1e-3
    for kind in ATTENTION_KINDS:
        shares = row_shares(of.blocks[kind], of.streams[kind])
        np.testing.assert_array_equal(made.attention(kind), row_shares(of.heads[kind]))
        np.testing.assert_array_equal(wide[kind][:-1, -1], shares)
        np.testing.assert_allclose(wide[kind][-1, -1], shares.mean(0), atol=1e-6)
        sums = wide[kind].sum(-1)
        assert sums.max() < 1 + 1e-5
        if name != "contribution" or kind != "cross":  # there, the stream has a share
            np.testing.assert_allclose(sums[:-1, -1], 1, atol=1e-5)
    assert np.abs(wide["cross"][0, -1] - combine(made.cross, "mean", 0)).max() > 1e-4


def test_weights_are_the_same_in_place_of_weights(translator: Translator, trace: Trace) -> None:
    made = measured(translator, trace)
    for kind in ATTENTION_KINDS:
        np.testing.assert_array_equal(made.attention(kind), trace.attention(kind))
        np.testing.assert_allclose(
            cells_of(made).wide[kind][1, -1], combine(trace.attention(kind), "mean", 1), atol=1e-6
        )


def test_words_only_leaves_words_alone(translator: Translator, trace: Trace) -> None:
    for name in CELL_MEASURES[:-1]:
        made = measured(translator, trace, name, words_only=True)
        words = [of == "word" for of in key_classes(trace.src_tokens, trace.src_special)]
        assert 0 < sum(words) < len(words) - 1, "a comma and the end are no words"
        assert not made.cross[..., ~np.array(words)].any()
        np.testing.assert_allclose(made.cross.sum(-1), 1, atol=1e-5)
        # the first position of the decoder sees `<s>` alone, which is left out
        assert not made.decoder_self[:, :, 0].any()


def test_effects_are_those_of_the_places_alone(translator: Translator, trace: Trace) -> None:
    places: list[Place] = [("cross", 1, 0), ("decoder_self", None, None)]
    made = measured(translator, trace, "effect", places=places)
    wide = cells_of(made).wide
    assert cells_of(made).signed
    np.testing.assert_array_equal(
        wide["cross"][1, 0], effects(translator.model, trace, "cross", 1, 0)
    )
    np.testing.assert_array_equal(
        wide["decoder_self"][-1, -1], effects(translator.model, trace, "decoder_self")
    )
    wide["cross"][1, 0] = wide["decoder_self"][-1, -1] = 0
    assert not any(maps.any() for maps in wide.values())


@pytest.mark.parametrize(("name", "places", "passes"), [
    ("weight", (), 0), ("norm", (), 1), ("zeroing", (), 1), ("contribution", (), 1),
    ("effect", (("cross", 0, 1),), 3), ("effect", (("cross", None, None),), 3),
    ("effect", (("cross", 0, None), ("decoder_self", 0, None)), 5),
])  # fmt: skip
def test_a_measure_costs_few_passes(
    translator: Translator, trace: Trace, name: CellMeasure, places: tuple[Place, ...], passes: int
) -> None:
    """An effect reads the sentence once, then its edges, up to 320 at once."""
    assert 320 < trace.cross[0, 0].size <= 640 and len(trace.tgt_ids) < 25
    calls: list[None] = []
    reports: list[tuple[int, int]] = []
    last = translator.model.decoder[-1]
    counting = last.register_forward_hook(lambda *_: calls.append(None))
    measured(translator, trace, name, places=places, progress=lambda *at: reports.append(at))
    counting.remove()
    assert len(calls) == passes
    shares = [done / most for done, most in reports]
    assert shares == sorted(shares) and (name == "weight" or shares[-1] == 1)


def test_what_has_no_measure_says_why(translator: Translator, trace: Trace, tmp_path: Path) -> None:
    assert why_weight_only(translator) is None
    recorded = open_tracer(save_arrays(trace, tmp_path / "a.npz"), device="cpu")
    with pytest.raises(InputError, match="holds recorded attention"):
        measured(recorded, trace, "norm")
    assert measured(recorded, trace, words_only=True).cells is not None
    with pytest.raises(InputError, match="belongs to no step"):
        measured(translator, trace, "effect", places=[("encoder_self", 0, 0)])
    assert "up to 65,536 edges" in str(why_no_effect("cross", 300, 300))


def test_a_file_keeps_a_measure_beside_the_weights(
    translator: Translator, tiny_checkpoint: Path, command: Command, tmp_path: Path
) -> None:
    path, damaged = tmp_path / "a.npz", tmp_path / "b.npz"
    where = ["--checkpoint", tiny_checkpoint, "--src", SENTENCE, "--out", path, "--cell"]
    assert "measure 'most' is not one of weight" in command("trace", *where, "most").err
    assert command("trace", *where, "effect").status == 0
    recorded, trace = load_arrays(path), translator.trace(SENTENCE)
    shown, made = load_measured(path, recorded), cells_of(measured(translator, trace, "effect"))
    np.testing.assert_allclose(recorded.cross, trace.cross, atol=1e-5)
    for kind in ATTENTION_KINDS:
        np.testing.assert_allclose(cells_of(shown).wide[kind], made.wide[kind], atol=1e-5)
    assert made.at("cross").any()
    assert b"effect in nats" in headlight.show(path).html
    arrays = dict(np.load(path))
    for name, value in (("cell", np.array("most")), ("cross_cells", arrays["cross_cells"][1:])):
        np.savez(damaged, **{**arrays, name: value})
        with pytest.raises(CheckpointError, match="is damaged or unknown"):
            load_measured(damaged, recorded)


@pytest.mark.parametrize("name", STACKS)
def test_models_of_one_stack_have_every_measure_that_their_data_allow(name: str) -> None:
    model: Any = open_tracer(FOLDER / name, device="cpu")
    trace = model.trace("The cat sleeps.")
    (kind,) = model.kinds
    for measure in ("norm", "zeroing", "contribution"):
        cells = cells_of(measured(model, trace, measure))
        assert cells.gap < 1e-3
        np.testing.assert_allclose(cells.at(kind).sum(-1), 1, atol=1e-5)
    assert measured(model, trace, words_only=True).cells is not None
    if kind == "encoder_self":
        return
    changes = cells_of(measured(model, trace, "effect", places=[(kind, 1, 0)])).at(kind, 1, 0)
    ids, own = torch.tensor([trace.tgt_ids]), trace.predicted_ids
    step = len(own) - 1

    def log_prob(key: int | None) -> float:
        def cut(site: Site, scores: torch.Tensor) -> torch.Tensor | None:
            if key is None or site != Site.of(kind, 1, "scores"):
                return None
            scores = scores.clone()
            scores[0, 0, step, key] = -torch.inf
            return scores

        with torch.inference_mode():
            logits = model.model.logits(model.model.read(ids, hooks=as_hooks(cut)))
        return float(logits[0, step].log_softmax(-1)[own[step]])

    expected = [log_prob(key) - log_prob(None) for key in range(step + 1)]
    np.testing.assert_allclose(changes[step], expected, atol=1e-4)


def test_keys_have_classes() -> None:
    tokens = ("<s>", "▁the", "▁,", "2", ">>de<<", "de_DE", "。", "</s>")
    classes = key_classes(tokens, (0, 7))
    assert classes == ("<s>", "word", "punctuation", "word", "tag", "tag", "punctuation", "</s>")
    maps = np.arange(1, 9, dtype=np.float32)[None]
    assert mass_by_class(maps, classes) == pytest.approx(
        {"word": 6 / 36, "punctuation": 10 / 36, "</s>": 8 / 36, "<s>": 1 / 36, "tag": 11 / 36}
    )
