"""Sets of edits for one sentence, which share passes where gates can say them."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from tests.factories import make_trace
from tests.tiny_models import CONFIGS, random_model
from transformer.config import ModelConfig
from transformer.edits.model import edited
from transformer.errors import InputError
from transformer.model import Transformer
from transformer.trace.records import Trace
from transformer.trace.removals import heads_of, log_probs, with_edits, without_heads

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
    """Counts the passes through decoders, and their rows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: list[int] = []
        decode = Transformer.decode

        def counted(model: Transformer, tgt_in: torch.Tensor, *given: Any, **options: Any) -> Any:
            self.rows.append(len(tgt_in))
            return decode(model, tgt_in, *given, **options)

        monkeypatch.setattr(Transformer, "decode", counted)


@pytest.mark.parametrize("config", [UNEVEN, CONFIGS["post-norm"]])
def test_sets_in_one_batch_are_a_loop_of_edited_models(
    config: ModelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, trace = random_model(config, seed=2), trace_of(7, 5)
    n = config.n_decoder_layers
    sets = [
        "off cross", f"scale decoder.{n} 0.5; scale decoder.{n}.2 3; off encoder.1.1", "",
        f"cut cross.{n} k2", "scale cross 0; scale encoder 2", "skip decoder.1; off encoder.1.2",
        ["off cross.1.1", "off cross.1.2"],
    ]  # fmt: skip
    own = log_probs(model, trace)
    plain = [log_probs(edited(model, each), trace) - own for each in sets]
    seen, done = Passes(monkeypatch), []
    found = with_edits(model, trace, sets, progress=lambda *at: done.append(at))
    np.testing.assert_allclose(found, plain, atol=1e-5)
    assert seen.rows == [1, 5, 1, 1] and done[-1] == (7, 7)
    assert with_edits(model, trace, []).shape == (0, 5)
    with pytest.raises(InputError, match=r"“off cross.9.1”: cross has layers 1 to"):
        with_edits(model, trace, ["off cross.9.1"])


@pytest.mark.parametrize("length", [12, 70])
def test_heads_of_a_base_model_take_under_twenty_passes(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many layers, heads and neurons as the paper's base model, which bound a batch."""
    base = ModelConfig()
    model = random_model(base.replace(vocab_size=50, d_model=16, d_k=2, d_v=2))
    seen = Passes(monkeypatch)
    trace = trace_of(length, length, 40)
    ninety_six = [
        [head.off] for head in heads_of(model.config.head_shapes) if head.kind != "encoder_self"
    ]
    assert len(ninety_six) == 96
    with_edits(model, trace, ninety_six)
    assert len(seen.rows) < 20
    seen.rows.clear()
    without_heads(model, trace)
    assert len(seen.rows) < 20
