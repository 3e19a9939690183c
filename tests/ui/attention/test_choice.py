"""Settings of the Attention page: valid links are restored, nonsense is ignored."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import make_trace
from transformer.measures.heads import mutual_information
from transformer.measures.words import word_groups
from ui.attention.choice import (
    AttentionSettings,
    choose_cell,
    mark_heads,
    read_choice,
    take_kind,
    wanted_cell,
    wanted_marks,
)
from ui.attention.maps import to_pieces, to_units
from ui.core import url_state
from ui.core.url_state import HEAD, KIND, LAYER, Param

NUMBERS = ("", "0", "1-", "-1", "x", "1.5", "1e3")


@pytest.mark.parametrize(("param", "raws"), [
    (AttentionSettings.keys, NUMBERS),
 (AttentionSettings.pin, (*NUMBERS, "x1", "q", "q0", "k1.5")),
 (AttentionSettings.heads,
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
    pin, keys = AttentionSettings.pin, AttentionSettings.keys
    url_state.put(pin, ("key", 2))
    url_state.put(keys, (1,))
    take_kind("cross")  # the one that is shown
    assert (url_state.get(pin), url_state.get(keys)) == (("key", 2), (1,))
    assert not url_state.stored(KIND)
    take_kind("decoder_self")
    assert url_state.get(KIND) == "decoder_self"
    assert not url_state.stored(pin) and not url_state.stored(keys)


def test_a_choice_that_repeats_what_is_shown_needs_no_place_in_the_link() -> None:
    for cell, layer in (((None, None), ()), ((2, None), (3,)), ((None, None), (None,))):
        choose_cell(cell)
        assert url_state.stored(LAYER) == bool(layer)
        assert not layer or url_state.get(LAYER) == layer[0]
        assert not any(map(url_state.stored, (HEAD, AttentionSettings.map)))


def test_lines_open_on_the_clearest_of_the_heads_looked_at() -> None:
    trace = make_trace(S=7, T=5, n_decoder_layers=3, n_heads=3)
    bits = mutual_information(trace.cross)
    assert read_choice(trace).heads == ()  # nothing is combined by default
    for cell, head in (
        ((None, None), divmod(int(bits.argmax()), 3)), ((1, None), (1, int(bits[1].argmax()))),
        ((2, 1), (2, 1)),
    ):  # fmt: skip
        choose_cell(cell)
        assert read_choice(trace, display="heads").heads == (head,)
    mark_heads([(0, 0), (2, 1)])
    assert read_choice(trace, display="heads").heads == ((0, 0), (2, 1))


def test_what_a_kind_does_not_have_is_still_wanted() -> None:
    trace = make_trace(S=4, T=5, n_encoder_layers=2, n_decoder_layers=3, n_heads=3)
    choose_cell((2, 1))
    take_kind("encoder_self")
    assert read_choice(trace).cell == (None, 1)
    assert wanted_cell() == (2, 1)
    assert wanted_marks(read_choice(trace)) == ()
    mark_heads([(0, 0), (2, 1)])
    assert read_choice(trace).heads == ((0, 0),)
    assert wanted_marks(read_choice(trace)) == ((0, 0), (2, 1))
    take_kind("cross")
    assert read_choice(trace).heads == ((0, 0), (2, 1))
    choose_cell(wanted_cell())
    assert wanted_marks(read_choice(trace)) == ()
