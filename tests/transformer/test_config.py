import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.tiny_models import CONFIGS
from transformer.checkpoint.weights import about_stored
from transformer.config import (
    DISTANCE_BUCKETS,
    MAX_PARAMETERS,
    PRESETS,
    ConfigError,
    ModelConfig,
    PositionLayout,
    preset,
)
from transformer.model import Transformer
from transformer.positions import (
    FURTHEST,
    LearnedPositions,
    RelativePositions,
    StoredPositions,
    angular_frequencies,
    distance_buckets,
    make_positions,
    sinusoidal,
)

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
    counts = {
        ModelConfig(vocab_size=9, d_model=20, n_heads=heads, n_decoder_heads=others).heads_in_words
        for heads, others in ((1, None), (5, 2), (5, 5), (4, None))
    }
    assert counts == {"1 head", "5 and 2 heads", "5 heads", "4 heads"}


_TWO = CONFIGS["two vocabularies, one head"]
COUNTED = CONFIGS | PRESETS | {
    "stored positions": CONFIGS["post-norm"].replace(positions="stored", max_positions=11),
    "nothing tied": _TWO.replace(tie_embeddings="none", output_bias=True),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED)
def test_counted_parameters_equal_the_models_and_json_holds_every_setting(name: str) -> None:
    with torch.device("meta"):
        model = Transformer(COUNTED[name])
    assert COUNTED[name].n_parameters == model.n_parameters
    config = COUNTED[name].replace(suppressed_ids=(4, 0), renormalise=True)
    assert ModelConfig.from_json(config.to_json()) == config
    assert len(json.loads(config.to_json())) == len(ModelConfig.__dataclass_fields__)


@pytest.mark.parametrize(("changes", "message"), [
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
    ({"d_model": 2, "n_heads": 1, "position_frequencies": "endpoint"}, "at least 4"),
    ({"d_model": 15, "n_heads": 3}, "odd"),
    ({"n_heads": True}, "n_heads=True"),
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
    ({"depth": 6}, "unknown setting 'depth'"),
    ({"n_encoder_layers": 10**9}, f"{MAX_PARAMETERS:,}"),
    ({"d_model": 10**3_000, "n_heads": 1}, "d_model is far too large"),
])  # fmt: skip
def test_refuses_what_cannot_be_built(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ModelConfig.from_dict(changes)
    assert message in str(caught.value) and "\n" not in str(caught.value)


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


LAYOUTS: tuple[PositionLayout, ...] = ("interleaved", "concatenated")
SMALL = ModelConfig(vocab_size=9, d_model=6, n_heads=1, d_ff=4)


def test_is_the_papers_formula_for_even_widths_in_both_layouts() -> None:
    for d_model in (0, 1, 7):
        with pytest.raises(ValueError, match="even"):
            sinusoidal(3, d_model)
    table = sinusoidal(9, 10)
    for pos in range(9):
        for i in range(5):
            angle = pos / 10_000 ** (2 * i / 10)
            expected = [math.sin(angle), math.cos(angle)]
            assert table[pos, 2 * i : 2 * i + 2].tolist() == pytest.approx(expected, abs=1e-6)
    interleaved, joined = (sinusoidal(7, 12, layout=layout) for layout in LAYOUTS)
    assert torch.equal(torch.cat([interleaved[:, 0::2], interleaved[:, 1::2]], dim=1), joined)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_stored_positions_say_what_they_are(dtype: torch.dtype) -> None:
    config = SMALL.replace(positions="stored", max_positions=20)
    positions = make_positions(config)
    assert isinstance(positions, StoredPositions)
    assert not [*positions.parameters()] and [*positions.state_dict()] == ["table"]
    exact = positions.table.clone()
    torch.testing.assert_close(exact, sinusoidal(20, 6), atol=0, rtol=0)
    with pytest.raises(ValueError, match="position 21 exceeds the 20 stored positions"):
        positions(14, 7)
    rounded = exact.to(dtype).float()
    about = about_stored({"encoder": rounded, "decoder": rounded}, config)
    assert f"16 bits each, as {str(dtype).removeprefix('torch.')}" in about
    both = about_stored({"encoder": exact, "decoder": rounded}, config)
    assert "20 × 6 numbers" in both and "encoder's holds exactly the sinusoids" in both
    assert "no sinusoids (largest" in about_stored({"encoder": rounded.flip(0)}, config)
    assert "less than float32's precision" in about_stored({"encoder": exact + 1e-4}, config)


def test_learned_positions_end_with_their_table() -> None:
    positions = make_positions(SMALL.replace(d_model=7, positions="learned", max_positions=6))
    assert isinstance(positions, LearnedPositions)
    assert torch.equal(positions(2, 4), positions.table[2:])
    with pytest.raises(ValueError, match="position 7 exceeds the 6 learned positions"):
        positions(2, 5)


def test_frequencies_fall_from_one_and_may_reach_the_end_point() -> None:
    frequencies = angular_frequencies(16)
    assert frequencies[0] == 1 and bool((frequencies.diff() < 0).all())
    frequencies = angular_frequencies(18, "endpoint")
    assert frequencies[0] == 1 and frequencies[-1].item() == pytest.approx(1e-4)
    steps = frequencies[1:] / frequencies[:-1]
    torch.testing.assert_close(steps, steps[:1].expand_as(steps))
    with pytest.raises(ValueError, match="needs two"):
        angular_frequencies(2, "endpoint")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_positions_that_start_elsewhere(layout: PositionLayout) -> None:
    config = SMALL.replace(
        d_model=10, max_positions=6, position_layout=layout, position_offset=2,
        position_frequencies="endpoint",
    )  # fmt: skip
    positions = make_positions(config)
    assert not positions.state_dict()  # sinusoids are no weights
    for first, length in ((0, 6), (4, 30), (0, 6)):  # the second lies beyond the table
        expected = sinusoidal(length, 10, start=first + 2, layout=layout, frequencies="endpoint")
        torch.testing.assert_close(positions(first, length), expected)
    angle = 7 / 10_000 ** (3 / 4)  # position 5 is number 7, and frequency 3 of 0..4
    at = {"interleaved": [6, 7], "concatenated": [3, 8]}[layout]
    expected = [math.sin(angle), math.cos(angle)]
    assert positions(5, 1)[0, at].tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("causal", [True, False])
def test_near_distances_are_told_apart_and_far_ones_share(causal: bool) -> None:
    apart = torch.arange(-300, 301)
    buckets = distance_buckets(apart, causal=causal)
    classes = dict(zip(apart.tolist(), buckets.tolist(), strict=True))
    assert set(classes.values()) == set(range(DISTANCE_BUCKETS)) - ({16} - {16 * causal})
    exact = 16 if causal else 8
    assert [classes[-n] for n in range(exact)] == list(range(exact))
    assert len({classes[-n] for n in range(FURTHEST, 301)}) == 1
    back = [classes[-n] for n in range(301)]
    assert back == sorted(back)
    if causal:
        assert {classes[n] for n in range(301)} == {0}
    else:
        # 16 + log(n / 8) / log(128 / 8) * 8 of the classes for keys ahead
        assert [classes[n] - classes[-n] for n in range(1, 301)] == [16] * 300
        assert classes[-64] == 8 + int(math.log(64 / 8) / math.log(16) * 8)


def test_relative_positions_depend_on_distance_alone() -> None:
    module = RelativePositions(3, causal=True)
    torch.nn.init.normal_(module.table)
    whole = module(9, 9)
    assert torch.equal(whole[:, :, :5, :5], module(5, 5))
    assert torch.equal(whole[:, :, 7:], module(2, 9))
    assert torch.equal(whole[0, :, 4, 1], whole[0, :, 7, 4])
