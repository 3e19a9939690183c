"""The player of one side: its position, content and reports."""

from collections.abc import Sequence
from dataclasses import asdict, astuple, replace
from functools import partial
from typing import Any

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from figures.attention import LETTERS
from figures.exhibit import Exhibit
from transformer.attribution.cells import Place
from transformer.measures.heads import mutual_information
from transformer.trace.records import Trace
from transformer.types import AttentionKind
from ui.components.mount import show
from ui.components.packing import Component
from ui.components.player import PARTS, Move, PlayerPlace, player_component, prefix_of
from ui.core import url_state
from ui.core.examples import Example
from ui.core.glossary import word_start
from ui.core.url_state import HEAD, KIND, LAYER, SHIFTED, STEP, VIEW, Param
from ui.core.view import Side, View, said_next
from ui.core.widgets import UNITS, CellChoice, cells_control, units_control, weights_alone
from ui.export.download import download_button, source_of, trace_for
from ui.frame.beside import Beside, Maker, Pair
from ui.frame.cells import about_cells, measured_side, measured_view
from ui.frame.editing import heads_taken, switch_head
from ui.frame.page import open_page
from ui.frame.steering import begin_with, decoded_text, undo
from ui.frame.through_time import finished
from ui.translate.exhibits import ORIGINS, player_exhibit, stem, why_no_player
from ui.work.desk import computed
from ui.work.results import Computation

#: Session key: sentence, model and edits drawn last, and steps as tokens read and written.
_SEEN = "headlight_player_seen"
#: Settings of the player's position, in the order of `PlayerPlace`.
PLACE: tuple[Param[Any], ...] = (STEP, LAYER, HEAD, SHIFTED, KIND)


def place_now(side: Side | None = None) -> PlayerPlace:
    """Return the player's stored position.

    Without a stored head of the decoder, a single player opens on a clear head (`_telling`),
    players of Compare on the mean.
    """
    place = PlayerPlace(url_state.get(STEP) or 1, shifted=url_state.get(SHIFTED))
    stored = url_state.stored(LAYER) or url_state.stored(HEAD)
    if stored and url_state.get(KIND) in PARTS:
        layer, head = url_state.get(LAYER), url_state.get(HEAD)
        return replace(place, layer=layer, head=head, kind=url_state.get(KIND))
    if side is None or side.letter:
        return place
    side = finished(side) or side
    example = side.view.example
    layer, head = computed(
        side.view, Computation("telling", (), lambda _, trace: _telling(trace, example))
    )
    return replace(place, layer=layer + 1, head=head + 1)


def remember(place: PlayerPlace, side: Side | None = None) -> None:
    """Store the player's position; a head that nobody chose is stored in training time only."""
    chosen = place != replace(place_now(side), step=place.step, shifted=place.shifted)
    chosen |= side is not None and side.view.entry.updates is not None
    values = dict(zip(PLACE, astuple(place), strict=True))
    url_state.store(values if chosen else {param: values[param] for param in (STEP, SHIFTED)})


def within(place: PlayerPlace, trace: Trace) -> PlayerPlace:
    """Return the position in this trace: the mean for what it lacks, and its last step at most."""
    layer, head = (
        at if at is not None and at <= count else None
        for at, count in zip((place.layer, place.head), trace.cross.shape[:2], strict=True)
    )
    return replace(place, step=min(place.step, len(trace.predicted_ids)), layer=layer, head=head)


def ensure_step(side: Side, n_steps: int, example: Example | None) -> None:
    """Store the default step of an example unless `View.step` has one of `n_steps`."""
    _follow_word(side)
    if side.view.step(n_steps) is None:
        url_state.put(STEP, default_step((finished(side) or side).trace, example))


def _follow_word(side: Side) -> None:
    """After an edit, store the nearest step that reads and writes the same."""
    entry, trace = side.view.entry, side.trace
    steps = [*zip(trace.tgt_tokens, trace.predicted_tokens, strict=True)]
    now = (side.view.sentence, entry.whole, entry.ref.edits)
    last, old = st.session_state.get(_SEEN, (now, steps))
    st.session_state[_SEEN] = now, steps
    if last != now and last[:2] == now[:2] and (row := side.view.step(len(old))) is not None:
        was = old[row]
        ranks = [(new != was, new[0] != was[0], abs(at - row)) for at, new in enumerate(steps)]
        url_state.put_index(STEP, ranks.index(min(ranks)))


def player_of(side: Side, *, words: bool, follows: bool = False) -> Computation[Component[Move]]:
    """Return the computation of the player; see `ui.components.player.player_component`."""
    of, origin = side.view.request.name, ORIGINS[side.view.kind]
    never, steerable, group = _never_taken(side), _steerable(side), "compare" if side.letter else ""
    return Computation(
        "player", (words, never, origin, group, follows),
        lambda _, trace: player_component(
            trace, PlayerPlace(1), of=of, words=words, never=never,
            steerable=steerable, origin=origin, group=group, follows=follows, asks=not group,
            out=heads_taken(side.view, trace),
        ),
    )  # fmt: skip


def places_of(place: PlayerPlace) -> tuple[Place, ...]:
    """Return the places of both maps on screen, the head's own first."""
    layer, head = (None if index is None else index - 1 for index in (place.layer, place.head))
    parts: tuple[AttentionKind, AttentionKind] = ("cross", "decoder_self")
    of = {part: (layer, head) if place.kind in (part, "both") else (None, None) for part in parts}
    order = parts if place.kind != "decoder_self" else parts[::-1]
    return tuple((part, of[part][0], of[part][1]) for part in order)


def measured_player(side: Side, place: PlayerPlace | None = None) -> Side:
    """Return a side whose player shows the chosen measure at a place, by default the stored one."""
    return side if weights_alone() else measured_side(side, places_now(side, place))


def about_player(side: Side) -> str:
    """Return what the cells on screen show; see `about_cells`."""
    return "" if weights_alone() else about_cells(side.view, places_now(side))


def places_now(side: Side, place: PlayerPlace | None = None) -> tuple[Place, ...]:
    """Return `places_of` a place, by default the stored one."""
    return places_of(within(place or place_now(side), side.trace))


def _steerable(side: Side) -> bool:
    return side.view.kind == "checkpoint" and not side.letter


def _never_taken(side: Side) -> tuple[int, ...]:
    config = side.view.entry.config
    return (config.pad_id, config.bos_id) if _steerable(side) and config is not None else ()


def draw_player(side: Side, *, words: bool, follows: bool = False) -> None:
    """Show the player, store reported positions, and steer when another token is chosen."""
    never, now = _never_taken(side), place_now(side)

    def follow(move: Move) -> None:
        remember(move.place, side)
        if move.ask is not None:
            pair = {"queries": str(move.place.step), "keys": str(move.ask + 1)}
            open_page("attention", {"kind": move.of, "display": "grid", "find": "pair", **pair})

    def steer(move: Move) -> None:
        follow(move)
        if move.take == "undo":
            undo()
        elif move.take == "switch" and move.place.layer and move.place.head:
            kind: AttentionKind = "decoder_self" if move.place.kind == "decoder_self" else "cross"
            switch_head(side.trace, kind, move.place.layer - 1, move.place.head - 1)
        elif (prefix := prefix_of(side.trace, move, never)) is not None:
            begin_with(prefix)

    # `steer` keeps the trace alive, so only players that can be steered get it.
    shown = measured_player(side, now)
    show(
        computed(shown.view, player_of(shown, words=words, follows=follows)),
        key=side.key("player"),
        choice=asdict(now if side.letter else within(now, side.trace)),
        on_choose=steer if _steerable(side) else follow,
        together=[f"player_{letter}" for letter in LETTERS if side.letter],
    )


def draw_steps(
    side: Side, place: PlayerPlace, units: DeltaGenerator, download: DeltaGenerator
) -> DeltaGenerator:
    """Draw a single player with a caption on decoding; return the container between the two.

    Args: place: the stored position.  units, download: containers of its controls, drawn last.
    """
    view, trace, words = side.view, side.trace, url_state.get(UNITS) == "words"
    shown = measured_view(view, places_of(place))
    if hint := said_next(view.sentence):
        st.caption(hint)
    draw_player(side, words=words)
    between = st.container()
    about = about_player(side) or "Attention is not by itself an explanation."
    also = ", or take another candidate." if view.kind == "checkpoint" else "."
    omitted = ""
    if trace.search is None and not trace.forced and view.kind == "checkpoint":
        omitted = (
            " The other hypotheses of this long search were left out, so How it chose cannot "
            "show its tree."
        )
    n_source, n_steps = len(trace.src_tokens), len(trace.predicted_tokens)
    st.caption(
        "Light marks where the decoder looks as it picks the next token. Step through "
        f"it{also} {n_source} source and {n_steps} target tokens, pieces and `</s>`; "
        f"{decoded_text(view, trace)}. {word_start(trace.src_tokens)} {about}{omitted}"
    )
    with units:
        cells_control(units=True)
    with download:
        download_button(
            partial(figure_of, shown, place, words=words), key="player_figure",
            name=stem(place, words=words, measure=str(dict(shown.cells).get("measure", ""))),
            n_numbers=n_steps * (n_source + n_steps + 4),
        )  # fmt: skip
    return between


def default_step(trace: Trace, example: Example | None) -> int:
    """Return the step, from 1, at which an example's player opens.

    It is the step with the most attention on the example's word or, without one, on any source
    token. Other sentences open on the first step.
    """
    if example is None:
        return 1
    if not example.watch:
        at_words = trace.cross.mean(axis=(0, 1))
        at_words[:, list(trace.src_special)] = 0
        at_words[trace.n_words :] = 0  # exclude the end
        return int(np.argmax(at_words.max(axis=1))) + 1
    if not (watched := example.watched(trace.src_tokens)):
        return 1
    return int(np.argmax(trace.cross.mean(axis=(0, 1))[:, watched].sum(axis=1))) + 1


def _telling(trace: Trace, example: Example | None) -> tuple[int, int]:
    """Return (layer, head), from 0, of the cross-attention head that the player shows first.

    Maximises mutual information of query and key times attention on one word at the default step.
    """
    row = trace.cross[:, :, default_step(trace, example) - 1].copy()
    row[..., list(trace.src_special)] = 0
    watched = example.watched(trace.src_tokens) if example else []
    lit = row[..., watched].sum(axis=-1) if watched else row.max(axis=-1)
    layer, head = np.unravel_index(np.argmax(mutual_information(trace.cross) * lit), lit.shape)
    return int(layer), int(head)


def figure_of(view: View, place: PlayerPlace, *, words: bool) -> Exhibit:
    """Return the figure of a view's player. Needs no session."""
    trace = trace_for(view)
    return player_exhibit(trace, within(place, trace), source_of(view), words=words)


def _leader(sides: Sequence[Side]) -> Side:
    """Return the side with more steps, whose player has the buttons."""
    return max(sides, key=lambda side: len(side.trace.predicted_tokens))


def _draw_controls(pair: Pair) -> None:
    with pair.controls:
        units_control()
        cells_control()
    if pair.shown:
        steps = len(_leader(pair.shown).trace.predicted_tokens)
        ensure_step(pair.shown[0], steps, pair.shown[0].view.example)


def _draw_side(side: Side) -> None:
    st.caption(f"{side.lead}{decoded_text(side.view, side.trace)}")
    words = url_state.get(UNITS) == "words"
    draw_player(side, words=words, follows=side is not _leader(side.beside))


def _figure(side: Side) -> Maker:
    view = measured_player(side).view
    return partial(figure_of, view, place_now(), words=url_state.get(UNITS) == "words")


#: Two players that move together.
BESIDE = Beside(
    (_draw_side,), _figure, "steps", "Step by step", above=_draw_controls,
    settings=lambda side: {VIEW: "steps"}, params=(*PLACE, UNITS, *CellChoice.params()),
    lacks=lambda side: why_no_player(side.trace),
)  # fmt: skip
