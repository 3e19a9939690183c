import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pages.conftest import RunApp
from transformer.evaluation.parsing import load_parser, parse
from transformer.measures.parse import calibrated
from ui.components.parse import Drawing


@pytest.fixture
def root(tmp_path: Path, tiny_parser: Path, tiny_checkpoint: Path) -> Path:
    shutil.copytree(tiny_parser, tmp_path / "parser")
    shutil.copytree(tiny_checkpoint, tmp_path / "alpha")
    return tmp_path


def test_the_tree_and_its_brackets(open_page: RunApp, root: Path, recorded: Any) -> None:
    drawn = recorded(Drawing, "component")
    app = open_page(checkpoint="parser", sentence="The cat didn't run.", layer="2", node="3")
    drawing, chosen = drawn[-1].values()
    assert drawing.words == ("The", "cat", "did", "n't", "run", ".")
    assert chosen == 2 and drawing.where == "layer 2, mean over heads"
    expected = parse(load_parser(root / "parser", "cpu"), [drawing.words], 2, 0.3)[0]
    assert str(drawing.reading.parse) == str(expected)
    assert drawing.weights.shape == (len(drawing.trace.tgt_tokens), len(drawing.trace.src_tokens))
    shown = drawing.component(chosen)
    header = shown.header
    rows = np.frombuffer(shown.body, "<f4").reshape(len(header["nodes"]), len(drawing.words) + 1)
    assert np.allclose(rows.sum(1), 1, atol=1e-4)  # the words and `</s>` share all of it
    nodes = zip(header["nodes"], drawing.reading.nodes, strict=True)
    for drawn_node, node in nodes:  # a tag's probability; that of a phrase's brackets, calibrated
        rows = [row for row in (node.row, node.closed) if row is not None]
        total = drawing.trace.log_probs[rows].sum()
        wanted = np.exp(total) if node.is_word else calibrated(total[None])[0]
        assert len(rows) == 2 - node.is_word and drawn_node["p"] == pytest.approx(wanted, abs=1e-4)
    assert any("on GUM's trees" in each.value for each in app.caption)
    assert header["nodes"][0]["end"] == 6 and header["nodes"][0]["parent"] == -1
    assert len(app.main.get("download_button")) == 7
    assert any("no repairs were needed" in each.value for each in app.caption)
    assert shown.parse is not None
    assert [shown.parse(each) for each in (4, True, len(header["nodes"]))] == [4, None, None]


def test_a_translator_lends_the_page_to_a_parser(open_page: RunApp) -> None:
    app = open_page(sentence="A dog runs.")
    assert any("this tree is by **Parser" in each.value for each in app.caption)
    assert len(app.main.get("download_button")) == 7  # the tree is there
    app.button(key="parser parser").click().run()
    assert app.query_params["checkpoint"] == "parser"
    assert not any("this tree is by" in each.value for each in app.caption)


def test_parsers_are_offered_beside_other_languages(open_page: RunApp, root: Path) -> None:
    metrics = root / "alpha" / "metrics.json"
    metrics.write_text('{"training": {"recipe": {"data": {"src": "de", "tgt": "en"}}}}')
    app = open_page(sentence="Ein Hund rennt.")
    assert "Choose a parser" in app.info[0].value
    app.button(key="parser parser").click().run()
    assert not app.info
