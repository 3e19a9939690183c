import json
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figures.exhibit import Exhibit
from tests.factories import make_trace
from tests.messages import unpack
from transformer.measures.heads import mutual_information
from transformer.measures.words import word_groups
from transformer.types import ATTENTION_KINDS
from ui.attention import choice
from ui.attention.exhibits import attention_exhibit
from ui.attention.maps import AttentionChoice, to_pieces, to_units
from ui.core import url_state
from ui.core.url_state import KIND, Param
from ui.export.programs import Source

TRACE = make_trace(S=6, T=5, n_encoder_layers=2, n_decoder_layers=3, n_heads=3)
CHOICE = AttentionChoice(
    kind="cross", display="grid", units="tokens", how="mean", dim=True, cell=(1, None),
    chosen=False, heads=((0, 2), (1, 0)), mass=0.6, pin=("key", 1), queries=(1, 3), keys=(0, 2),
)  # fmt: skip


def exhibit(**changes: Any) -> Exhibit:
    return attention_exhibit(TRACE, replace(CHOICE, **changes), Source("tiny", sentence="The cat."))


def test_the_grid_and_the_matrix_hold_the_weights_as_they_are() -> None:
    grid, matrix = exhibit(), exhibit(display="matrix")
    np.testing.assert_array_equal(grid.arrays["maps"], TRACE.cross)
    titles = [f"Layer {layer}, head {head}" for layer in (1, 2, 3) for head in (1, 2, 3)]
    assert [part.title for part in grid.parts] == titles and grid.columns == 3
    np.testing.assert_allclose(matrix.arrays["weights"], TRACE.cross[1].mean(axis=0), atol=1e-6)
    mass = TRACE.cross[:, :, [1, 3]][..., [0, 2]].sum(-1).mean(-1)
    np.testing.assert_allclose(matrix.arrays["mass"], mass, atol=1e-6)
    assert matrix.name == "cross-attention-layer-2-mean-over-heads"


def test_the_grid_s_page_holds_every_kind_if_it_is_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    grid, lens = exhibit().views
    header, _ = unpack(grid.message)
    assert [name for name, *_ in header["kinds"]] == list(ATTENTION_KINDS)
    assert all(size for *_, size in header["kinds"])
    assert header["choice"] == [1, None, [], "cross"]
    wanted = {
        json.dumps([layer, head, kind], separators=(",", ":"))
        for kind, n_layers in (("encoder_self", 2), ("decoder_self", 3), ("cross", 3))
        for layer, head in product([*range(n_layers), None], [*range(3), None])
    }
    assert lens.follows.keys() == wanted
    assert lens.follows['[1,null,"cross"]'] == lens.message

    monkeypatch.setattr("ui.attention.exhibits.MOST_FOLLOWING", TRACE.encoder_self.size)
    grid, lens = exhibit(kind="encoder_self", cell=(1, 2)).views
    assert [name for name, *_ in unpack(grid.message)[0]["kinds"]] == [""]
    assert "[1,2]" in lens.follows and "[null,null]" in lens.follows


NUMBERS = ("", "0", "1-", "-1", "x", "1.5", "1e3")


@pytest.mark.parametrize(("param", "raws"), [
    (choice.AttentionSettings.keys, NUMBERS),
    (choice.AttentionSettings.pin, (*NUMBERS, "x1", "q", "q0", "k1.5")),
    (choice.AttentionSettings.heads,
  ("", "1", "1.", ".1", "0.1", "1.0", "1.1-1.1", "1.1-", "a.b", "1.1.1")),
])  # fmt: skip
def test_nonsense_is_refused(param: Param[Any], raws: tuple[str, ...]) -> None:
    for raw in raws:
        with pytest.raises(ValueError, match=r"^"):
            param.parse(raw)


@given(st.lists(st.sampled_from(["▁a", "b", "▁c", "."]), min_size=1, max_size=9), st.data())
def test_words_are_chosen_whole_and_tokens_alone(tokens: list[str], data: st.DataObject) -> None:
    groups = word_groups(tokens)
    chosen = tuple(sorted(data.draw(st.sets(st.integers(0, len(tokens) - 1)))))
    assert to_units(chosen, None) == to_pieces(chosen, None) == chosen
    units = to_units(chosen, groups)
    pieces = to_pieces(units, groups)
    assert set(chosen) <= set(pieces)
    assert to_units(pieces, groups) == units


@pytest.fixture(autouse=True)
def _session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamlit.session_state", {})


def test_tokens_are_forgotten_with_another_kind_only() -> None:
    pin, keys = choice.AttentionSettings.pin, choice.AttentionSettings.keys
    url_state.put(pin, ("key", 2))
    url_state.put(keys, (1,))
    url_state.put(KIND, "cross")  # the one that is shown
    assert (url_state.get(pin), url_state.get(keys)) == (("key", 2), (1,))
    url_state.put(KIND, "decoder_self")
    assert url_state.get(KIND) == "decoder_self"
    assert not url_state.stored(pin) and not url_state.stored(keys)


def test_a_chosen_mean_is_in_the_link_and_nothing_chosen_is_the_clearest_head() -> None:
    trace = make_trace(S=7, T=5, n_decoder_layers=3, n_heads=3)
    clearest = divmod(int(mutual_information(trace.cross).argmax()), 3)
    assert choice.read_choice(trace).cell == clearest
    assert choice.wanted_cell(choice.read_choice(trace)) == clearest
    choice.choose_cell((None, None))
    assert choice.read_choice(trace).cell == (None, None)
    assert url_state.everything()["layer"] == url_state.everything()["head"] == "mean"


def test_lines_open_on_the_clearest_of_the_heads_looked_at() -> None:
    trace = make_trace(S=7, T=5, n_decoder_layers=3, n_heads=3)
    bits = mutual_information(trace.cross)
    assert choice.read_choice(trace).heads == ()  # nothing is combined by default
    for cell, head in (
        ((None, None), divmod(int(bits.argmax()), 3)), ((1, None), (1, int(bits[1].argmax()))),
        ((2, 1), (2, 1)),
    ):  # fmt: skip
        choice.choose_cell(cell)
        assert choice.read_choice(trace, display="heads").heads == (head,)
    choice.mark_heads([(0, 0), (2, 1)])
    assert choice.read_choice(trace, display="heads").heads == ((0, 0), (2, 1))


def test_what_a_kind_does_not_have_is_still_wanted() -> None:
    trace = make_trace(S=4, T=5, n_encoder_layers=2, n_decoder_layers=3, n_heads=3)
    choice.choose_cell((2, 1))
    url_state.put(KIND, "encoder_self")
    assert choice.read_choice(trace).cell == (None, 1)
    assert choice.wanted_cell(choice.read_choice(trace)) == (2, 1)
    assert choice.wanted_marks(choice.read_choice(trace)) == ()
    choice.mark_heads([(0, 0), (2, 1)])
    assert choice.read_choice(trace).heads == ((0, 0),)
    assert choice.wanted_marks(choice.read_choice(trace)) == ((0, 0), (2, 1))
    url_state.put(KIND, "cross")
    assert choice.read_choice(trace).heads == ((0, 0), (2, 1))
    choice.choose_cell(choice.wanted_cell(choice.read_choice(trace)))
    assert choice.wanted_marks(choice.read_choice(trace)) == ()
