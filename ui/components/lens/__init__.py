"""One attention map, large, with labels on both axes and exact values on hover.

A canvas and not a Plotly chart: the first Plotly chart of a visit takes seconds to appear, and this
is the first thing a page shows. Maps of more than `MOST_TOKENS` a side are better read in
`figures.attention.heatmap`, where one can zoom.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import streamlit as st

from figures.attention import check_map, describe
from figures.labels import show_token
from figures.palette import CHROME, THEMES
from transformer.records import Floats
from ui.components.packing import attention_colours, pack, script

#: Sides up to this long keep cells that a pointer can hit and labels that an eye can read.
MOST_TOKENS = 64

_HERE = Path(__file__).parent
_component = st.components.v2.component(
    "headlight.lens",
    html='<div class="lens"></div>',
    css=(_HERE / "lens.css").read_text("utf-8"),
    js=script(_HERE / "lens.js"),
)


def attention_lens(
    weights: Floats,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    name: str,
    query_title: str,
    key_title: str,
    key: str,
    query_notes: Sequence[str] = (),
    dimmed_keys: Sequence[int] = (),
    causal: bool = False,
    max_height: int = 520,
) -> None:
    """Show one map, [queries, keys].

    Args:
        name: what it is ("Layer 2, head 3"), for screen readers.
        query_title, key_title: what the axes hold; shown after "query:" and "key:".
        query_notes: [queries] or nothing: said about a query when the pointer is in its row.
        dimmed_keys: columns covered in grey; hovering still tells their values.
        causal: keys after the query are masked; they are drawn apart from weights of 0.
        max_height: pixels that labels and cells may take together.

    Raises: `ValueError` where the shape is not [queries, keys].
    """
    check_map(weights, query_tokens, key_tokens)
    described = describe(weights, query_tokens, key_tokens)
    header = {
        "label": f"{name}: {described}. Arrow keys read the values.",
        "hint": "Point at a cell to read its exact weight.",
        "query_tokens": [show_token(token, 18) for token in query_tokens],
        "key_tokens": [show_token(token, 18) for token in key_tokens],
        "query_notes": [show_token(note, 40) for note in query_notes],
        "query_title": f"query: {query_title}",
        "key_title": f"key: {key_title}",
        "dimmed": sorted(dimmed_keys),
        "causal": causal,
        "max_height": max_height,
        "colours": attention_colours(),
        "cover": {theme: CHROME[theme].rule.lstrip("#") for theme in THEMES},
    }
    _component(key=key, data=pack(header, np.ascontiguousarray(weights, dtype="<f4").tobytes()))
