import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.pages.conftest import RunApp
from tests.pages.links import said
from tests.tiny_models import random_model
from transformer.checkpoint.folder import load_checkpoint, save_checkpoint
from transformer.config import ModelConfig
from transformer.text.tokenizer import Tokenizer
from transformer.trace.position_vectors import distance_numbers


@pytest.fixture(scope="module")
def root(
    tmp_path_factory: pytest.TempPathFactory, tiny_config: ModelConfig, tiny_tokenizer: Tokenizer
) -> Path:
    root = tmp_path_factory.mktemp("positions")
    metrics = {"training": {"longest_source": 31, "longest_target": 37}}
    concatenated = tiny_config.replace(position_layout="concatenated")
    stored = random_model(concatenated.replace(positions="stored", max_positions=50))
    stored.src_positions.table.copy_(stored.src_positions.table.half())
    stored.tgt_positions.table.copy_(stored.tgt_positions.table.bfloat16())
    learned = tiny_config.replace(positions="learned", max_positions=40)
    distances = tiny_config.replace(positions="relative", n_heads=4, d_k=None, d_v=None)
    for name, model in {
        "computed": random_model(concatenated), "learned": random_model(learned),
        "stored": stored, "relative": random_model(distances),
    }.items():  # fmt: skip
        save_checkpoint(root / name, model, tiny_tokenizer, metrics=metrics)
    return root


@pytest.fixture
def open_page(open_page: RunApp) -> RunApp:
    return lambda checkpoint="computed", **given: open_page(checkpoint=checkpoint, **given)


def test_it_opens_with_the_model_s_width_and_layout(open_page: RunApp) -> None:
    app = open_page()
    assert app.number_input(key="d_widget").value == 24
    assert app.segmented_control(key="layout_widget").value == "concatenated"
    headings = [each.value for each in app.markdown if each.value.startswith("#### ")]
    assert "had 37 positions" in said(app) and "clocks" in headings[0]


def test_the_shift_is_shown_on_numbers(open_page: RunApp) -> None:
    app = open_page(pos="7", k="-4", d="64")
    table = app.table[0].value
    assert list(table["after the turn"]) == list(table["PE(pos + k)"])
    assert list(table["after the turn"]) != list(table["sin, cos at pos"])
    assert table["turn kω"].iloc[0] == "-229.18°"  # -4 radians
    assert table["PE(pos + k)"].iloc[0] == "+0.1411, -0.9900"  # sin 3, cos 3
    errors = [float(x) for x in re.findall(r"\*\*(\d\.\de-\d+)\*\*", said(app))]
    assert len(errors) == 2
    assert max(errors) < 2e-7
    assert "Over all 64 dimensions" in said(app)


def test_a_stored_table_is_shown_as_it_is(open_page: RunApp) -> None:
    text = said(open_page("stored", side="Decoder", positions="30"))
    found = re.findall(r"(\w+) \(largest difference to the formula: (\d\.\de-\d+)\)", text)
    (encoder, near), (decoder, far) = found[:2]
    assert (encoder, decoder) == ("float16", "bfloat16") and float(near) < float(far) < 5e-3
    assert "50 × 24 numbers" in text and "after position 49" in text


@pytest.mark.parametrize(
    ("checkpoint", "side"), [("computed", "encoder"), ("learned", "decoder"), ("stored", "decoder")]
)
def test_the_split_adds_up(open_page: RunApp, checkpoint: str, side: str) -> None:
    app = open_page(checkpoint, part="model", split=side, head="2")
    text = said(app)
    residual, difference = (float(x) for x in re.findall(r"\*\*(\d\.\de[-+]\d+)\*\*", text))
    assert residual < 1e-4
    assert difference < 1e-5
    assert "position · position" in text
    assert ("are a stored table" in text) == (checkpoint == "stored")
    assert app.segmented_control(key="split_widget").value == side
    assert app.selectbox(key="split_head_box").value == 1
    app.selectbox(key="split_head_box").set_value(2).run()
    assert {"part": "model", "split": side, "head": "3"}.items() <= app.query_params.items()
    assert not app.multiselect  # the rest of the page is not computed


def test_distances_stand_first_where_nothing_is_added(open_page: RunApp, root: Path) -> None:
    model = load_checkpoint(root / "relative").model
    app = open_page("relative", side="Decoder")
    drawn = json.loads(app.main.get("plotly_chart")[0].proto.spec)["data"][0]
    numbers = distance_numbers(model, np.arange(-40, 1))["Decoder"]
    assert numbers.shape == (4, 41)
    table = model.tgt_distances.table.numpy()
    np.testing.assert_array_equal(numbers[:, 40], table[0])
    np.testing.assert_array_equal(numbers[:, 39], table[1])
    assert drawn["y"] == [1, 2, 3, 4] and drawn["x"][-1] == 0
    assert len(open_page("relative", part="model").info) == 1
