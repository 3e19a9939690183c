"""Configs: parameter counts of the paper's table 3, and invalid settings."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.tiny_models import CONFIGS
from transformer.config import MAX_PARAMETERS, PRESETS, ConfigError, ModelConfig, preset
from transformer.model import Transformer

#: Table 3's parameter column fits this shared vocabulary to within a million in every row but big.
FITTED_VOCABULARY = 41_200

#: Of table 3, a row for each size that changes: what differs from base, and millions of parameters.
TABLE_3 = {
    "base": ({}, 65),
    "A h=1": ({"n_heads": 1, "d_k": 512, "d_v": 512}, 65),
    "B d_k=16": ({"d_k": 16}, 58),
    "C N=2": ({"n_encoder_layers": 2, "n_decoder_layers": 2}, 36),
    "C d_model=1024": ({"d_model": 1024, "d_k": 128, "d_v": 128}, 168),
    "C d_ff=4096": ({"d_ff": 4096}, 90),
    "E learned": ({"positions": "learned", "max_positions": 512}, 65),
}


@pytest.mark.parametrize("row", TABLE_3)
def test_table_3_parameter_counts(row: str) -> None:
    changes, millions = TABLE_3[row]
    config = preset("base", vocab_size=FITTED_VOCABULARY, **changes)
    # The paper counts no learned positions: its row (E) has base's 65 million.
    positions = 2 * config.d_model * config.max_positions if row.startswith("E") else 0
    assert (config.n_parameters - positions) / 1e6 == pytest.approx(millions, abs=1.0)


def test_presets_have_the_papers_vocabulary_and_heads_are_counted() -> None:
    assert preset("big", vocab_size=36_000).n_parameters / 1e6 == pytest.approx(213, abs=0.5)
    assert PRESETS["base"].vocab_size == PRESETS["big"].vocab_size == 37_000
    assert PRESETS["base"].n_parameters / 1e6 == pytest.approx(63.1, abs=0.1)
    assert PRESETS["big"].n_parameters / 1e6 == pytest.approx(214, abs=0.5)
    assert PRESETS["small"].n_parameters / 1e6 == pytest.approx(2.6, abs=0.6)
    with pytest.raises(ConfigError, match="unknown preset 'huge'; known: base, big"):
        preset("huge")
    said = {
        ModelConfig(vocab_size=9, d_model=20, n_heads=heads, n_decoder_heads=others).heads_in_words
        for heads, others in ((1, None), (5, 2), (5, 5), (4, None))
    }
    assert said == {"1 head", "5 and 2 heads", "5 heads", "4 heads"}


COUNTED = (
    CONFIGS
    | PRESETS
    | {
        "stored positions": CONFIGS["post-norm"].replace(positions="stored", max_positions=11),
        "nothing tied": CONFIGS["two vocabularies, one head"].replace(
            tie_embeddings="none", output_bias=True
        ),
    }
)


@pytest.mark.parametrize("name", COUNTED)
def test_counted_parameters_equal_the_models_and_json_holds_every_setting(name: str) -> None:
    with torch.device("meta"):
        model = Transformer(COUNTED[name])
    assert COUNTED[name].n_parameters == model.n_parameters
    config = COUNTED[name].replace(suppressed_ids=(4, 0), renormalise=True)
    assert ModelConfig.from_json(config.to_json()) == config
    assert len(json.loads(config.to_json())) == len(ModelConfig.__dataclass_fields__)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab_size": 0}, "vocab_size=0"),
        ({"d_model": 10, "n_heads": 4}, "multiple of n_heads"),
        ({"d_model": 16, "n_decoder_heads": 3}, "multiple of n_decoder_heads"),
        ({"decoder_d_ff": 0}, "decoder_d_ff=0"),
        ({"suppressed_ids": [40_000]}, "suppressed_ids holds 40000"),
        ({"suppressed_ids": [2]}, "suppressed_ids holds 2"),
        ({"suppressed_ids": ["a"]}, "not a list of token ids"),
        ({"forced_eos": 1}, "true or false"),
        ({"position_offset": -1}, "position_offset=-1"),
        ({"position_offset": 10**7}, "position_offset=10000000; at most"),
        ({"position_frequencies": "t2t"}, "paper, endpoint"),
        ({"d_model": 2, "n_heads": 1, "position_frequencies": "endpoint"}, "needs 4"),
        ({"d_model": 15, "n_heads": 3}, "odd"),
        ({"n_heads": True}, "n_heads=True"),
        ({"d_ff": 2.0}, "d_ff=2.0"),
        ({"d_k": 0}, "d_k=0"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"dropout": float("nan")}, "dropout=nan"),
        ({"attention_dropout": "a"}, "attention_dropout='a'"),
        ({"activation": "tanh"}, "relu, gelu, silu"),
        ({"norm": ["post"]}, "post, pre"),
        ({"tie_embeddings": "all", "tgt_vocab_size": 50}, "tgt_vocab_size must be None"),
        ({"pad_id": 37_000}, "outside the vocabulary"),
        ({"tie_embeddings": "none", "vocab_size": 9, "tgt_vocab_size": 50, "unk_id": 20}, "unk_id"),
        ({"layer_norm_eps": 0.0}, "layer_norm_eps"),
        ({"layer_norm_eps": 1}, "layer_norm_eps"),
        ({"scale_embedding": 1}, "true or false"),
        ({"depth": 6}, "unknown setting 'depth'"),
        ({"n_encoder_layers": 10**9}, f"{MAX_PARAMETERS:,}"),
        ({"d_model": 10**3_000, "n_heads": 1}, "d_model is far too large"),
    ],
)
def test_refuses_what_cannot_be_built(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ModelConfig.from_dict(changes)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[", "[1]", "null", "[" * 100_000, "9" * 5_000, '{"a": 1}'])
def test_refuses_text_that_is_no_config(text: str) -> None:
    with pytest.raises(ConfigError):
        ModelConfig.from_json(text)


@given(
    st.dictionaries(
        st.sampled_from(sorted(ModelConfig.__dataclass_fields__)),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
        | st.lists(st.integers(), max_size=2),
        max_size=4,
    )
)  # fmt: skip
def test_any_values_make_a_config_or_a_config_error(values: dict[str, object]) -> None:
    try:
        config = ModelConfig.from_dict(values)
    except ConfigError:
        return
    assert config.n_parameters <= MAX_PARAMETERS
