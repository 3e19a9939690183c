"""The view of path lengths: how a signal travels between two positions."""

from __future__ import annotations

from typing import cast

import streamlit as st

from figures.layer_costs import path_picture
from figures.numbers import count
from figures.training import bars
from transformer.measures.layer_costs import PATHS, PathKind, path_length
from ui.complexity.choice import KINDS, PathChoice, ends, size_of
from ui.complexity.exhibits import path_lengths
from ui.core import url_state
from ui.core.layout import current_theme, draw_chart, section
from ui.core.widgets import bound, choose_one
from ui.export.download import download_below


@st.fragment
def draw_path() -> None:
    """Draw the view; a fragment, so a step reruns only this."""
    PathChoice.show()
    names = {kind: PATHS[kind][0] for kind in KINDS}
    kind = cast(PathKind, choose_one("Layer", PathChoice.kind, names))
    n = _draw_choices(kind)
    start, end = ends(n)
    steps = path_length(kind, end - start, size_of(kind))
    chosen = url_state.get(PathChoice.walked)
    walked = steps if chosen is None else min(steps, chosen)
    _draw_walk(kind, n, start, end, walked, steps)
    _draw_lengths(kind, end - start, n)
    url_state.write_url()


def _draw_choices(kind: PathKind) -> int:
    places = st.columns([3, 5, 3], gap="large")
    places[0].slider(
        "Length n", 4, 32, help="Positions of the sequence.", **bound(PathChoice.length)
    )
    n = url_state.get(PathChoice.length)
    start, end = ends(n)
    url_state.put(PathChoice.between, (start + 1, end + 1))
    places[1].slider("From one position to another", 1, n, **bound(PathChoice.between))
    if kind in ("convolution", "dilated"):
        places[2].select_slider(
            "Kernel k", (3, 5, 7), help="Positions that one layer reads.",
            **bound(PathChoice.kernel),
        )  # fmt: skip
    elif kind == "restricted":
        places[2].select_slider(
            "Window r", (2, 4, 6, 8), help="Neighbours that one layer reads, half on each side.",
            **bound(PathChoice.window),
        )  # fmt: skip
    return n


def _draw_walk(kind: PathKind, n: int, start: int, end: int, walked: int, steps: int) -> None:
    def go(to: int) -> None:
        url_state.put(PathChoice.walked, min(steps, max(0, to)))

    with st.container(horizontal=True, vertical_alignment="center"):
        for label, icon, to, disabled in (
            ("Start", "first_page", 0, walked == 0),
            ("Back", "chevron_left", walked - 1, walked == 0),
            ("Step", "chevron_right", walked + 1, walked == steps),
        ):
            st.button(label, icon=f":material/{icon}:", key=f"path_{label.lower()}", on_click=go,
                      args=(to,), disabled=disabled)  # fmt: skip
        word = "step" if kind == "recurrent" else "layer"
        st.markdown(f"**{walked}** of {count(steps, word)}")
    draw_chart(
        path_picture(kind, start, end, walked, n, size_of(kind), current_theme()),
        f"{PATHS[kind][0]}: a signal from position {start + 1} to {end + 1} after {walked} of "
        f"{count(steps, word)}.",
    )
    st.caption(_SAID[kind])


_SAID: dict[PathKind, str] = {
    "recurrent": "A state is computed from the one before it, so a signal passes through every "
    "position between the two, in a layer that reads from left to right.",
    "convolution": "A layer reads its k nearest positions, so a signal moves (k-1)/2 positions a "
    "layer at most; the paper's n/k leaves out the factor 2.",
    "dilated": "Layer by layer the positions read lie 1, k, k² apart, here to the left only. Each "
    "layer carries one digit of the distance, written to the base k.",
    "restricted": "A layer reads r neighbours, half of them on each side; the paper's n/r leaves "
    "out the factor 2.",
    "attention": "A layer reads every position, so one is enough, however far apart the two are.",
}  # fmt: skip


def _draw_lengths(kind: PathKind, distance: int, n: int) -> None:
    place = section(
        "Why short paths",
        "What happens at one end has to be learned from an error at the other, through every node "
        "between. The shorter that way, the easier it is to learn what belongs together far apart "
        "(section 4): a pronoun and its noun, say.\n\n"
        f"These are the ways over a distance of {distance}.",
    )
    lengths = {PATHS[each][0]: path_length(each, distance, size_of(each)) for each in KINDS}
    chart = bars(lengths, "layers or steps", current_theme(), marked=(PATHS[kind][0],),
                 written="d", height=220)  # fmt: skip
    said = "; ".join(f"{name} {length}" for name, length in lengths.items())
    draw_chart(chart, f"{said}.", place)
    kernel, window = size_of("convolution"), size_of("restricted")
    download_below(place, None, "path-lengths", path_lengths, n=n, kernel=kernel, window=window)
