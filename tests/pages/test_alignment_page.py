import json
from pathlib import Path

import numpy as np

from tests.pages.conftest import CAT, RunApp
from transformer.evaluation.alignment import error_grid, measured_maps
from transformer.measures.pharaoh import read_linked, written
from transformer.measures.words import links, word_maps
from transformer.translator import Translator
from ui.alignment.exhibits import drawing_of, hard, word_for_word
from ui.alignment.views import joined
from ui.attention.maps import maps_of


def test_a_link_reopens_a_map_with_its_links(run_app: RunApp, tiny_checkpoint: Path) -> None:
    query = {"layer": "2", "head": "3", "kind": "cross", "row": "predicting", "cell": "norm"}
    app = run_app(at="alignment", checkpoint="alpha", sentence=CAT, target="in Hund rennt.",
                  soft="on", **query)  # fmt: skip
    assert {name: app.query_params[name] for name in query} == query
    trace = (model := Translator.load(tiny_checkpoint, "cpu")).trace(CAT, "in Hund rennt.")
    values = measured_maps(model, trace, "norm", 1, 2)
    maps = word_maps(trace, "predicting", values, "words")
    assert app.code[0].value == written(links(maps))
    text = "".join(element.value for element in app.main.markdown)
    assert "read most while" in text and "in ← " in text and "The given translation has" in text
    figure = word_for_word(model, trace, measure="norm", layer=1, head=2, row="predicting")
    np.testing.assert_allclose(figure.arrays["maps"], maps, atol=1e-6)
    assert {tuple(link) for link in figure.arrays["links"].tolist()} == links(maps)
    labels = drawing_of(trace, "predicting", maps, soft=True).header["query_tokens"]
    every, weights = maps_of(trace, "cross", "words"), word_maps(trace, "predicting", units="words")
    (at,) = {*labels} & {*every.queries}  # the row that reads and predicts one piece
    there = every.weights[:, :, every.queries.index(at), :-1]
    np.testing.assert_allclose(weights[:, :, labels.index(at)], there, atol=1e-6)
    only = hard(maps)
    assert ((only > 0).sum(1) == 1).all() and (only.max(1) == maps.max(1)).all()


def test_every_head_is_measured_against_own_links(run_app: RunApp, tiny_checkpoint: Path) -> None:
    text = "A dog runs. ||| Ein Hund rennt. ||| 1-1 2-2\nA cat. ||| Eine Katze. ||| 1-1 2p2\n"
    app = run_app(at="alignment", checkpoint="alpha", sentence="A dog runs.", gold="own")
    assert not [button for button in app.button if button.key == "errors_asked"]
    app.text_area(key="own_links").set_value(text).run()
    assert "has word 0" not in app.main.markdown[-1].value
    app.selectbox(key="own_first").set_value(1).run()
    app.button(key="errors_asked").click().run()
    rows = [*read_linked(text, 1)]
    grid = error_grid(Translator.load(tiny_checkpoint, "cpu"), joined(rows))
    best = grid.best()
    said = "".join(element.value for element in app.main.markdown)
    assert f"on the other half it is **{best.error:.3f}**" in said
    assert f"a guess along the diagonal has {best.diagonal:.3f}" in said
    assert said.count("| reading |") == said.count("| predicting |") == 4
    copied = json.loads(app.code[-1].value)
    assert copied["alignment_heads"] == grid.alignment_heads()
    assert app.query_params["errors"] == "on"
    app.button(key="use_best").click().run()
    assert [app.query_params[name] for name in ("row", "cell")] == [best.row, best.measure]
    app.text_area(key="own_links").set_value("A ||| B ||| 1-9").run()
    assert "Line 1: a link joins" in app.warning[0].value.replace("\\", "")
