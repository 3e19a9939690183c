"""The view of the cost of a long text's maps in this app."""

from __future__ import annotations

import numpy as np
import streamlit as st

from figures.layer_costs import cost_lines
from figures.training import bars
from transformer.config import ModelConfig
from transformer.experiments.maps import map_bytes, time_maps
from transformer.measures.layer_costs import Reals
from transformer.types import Report
from ui.complexity.exhibits import bytes_of_maps
from ui.core.layout import current_theme, draw_chart, section
from ui.core.view import View
from ui.export.download import download_below
from ui.work.cache import end_where_stopped, errors_on_page, get_translator
from ui.work.progress import Progress, attended
from ui.work.results import CACHE, OTHERS

LENGTHS = (32, 64, 128, 256, 512)

_DOING = "Timing: pass {step} of {most}"


def draw_maps(view: View, config: ModelConfig) -> None:
    """Draw the view for a checkpoint of this project."""
    bytes_at = {n: sum(map_bytes(config, n).values()) for n in LENGTHS}
    most = map_bytes(config, LENGTHS[-1])
    heads = config.n_decoder_heads or config.n_heads
    place = section(
        "Bytes of all maps",
        "The app shows the weight of every pair of tokens, so it has to keep them. With "
        f"{LENGTHS[-1]} tokens on either side, this checkpoint has\n\n"
        f"- {config.n_encoder_layers} × {config.n_heads} maps of the source, "
        f"{most['encoder'] / 1e6:,.1f} MB\n"
        f"- {config.n_decoder_layers} × {heads} maps of the translation, "
        f"{most['decoder'] / 1e6:,.1f} MB\n"
        f"- {config.n_decoder_layers} × {heads} maps from one to the other, "
        f"{most['cross'] / 1e6:,.1f} MB\n\n"
        f"of {LENGTHS[-1]}² float32 numbers each. **Every token meets every token: twice the "
        "tokens are four times the pairs.**",
    )
    chart = bars({f"{n} tokens": size / 1e6 for n, size in bytes_at.items()},
                 "megabytes, layers × heads × n² × 4", current_theme(),
                 marked=(f"{LENGTHS[-1]} tokens",), written=",.1f")  # fmt: skip
    draw_chart(
        chart,
        f"All maps take {bytes_at[LENGTHS[0]] / 1e6:.1f} MB at {LENGTHS[0]} tokens and "
        f"{bytes_at[LENGTHS[-1]] / 1e6:.1f} MB at {LENGTHS[-1]}.",
        place,
    )
    download_below(
        place, None, "bytes-of-maps", bytes_of_maps, config=config.to_json(), lengths=LENGTHS
    )
    _draw_times(view, config)


def _draw_times(view: View, config: ModelConfig) -> None:
    place = section(
        "Seconds",
        "One reading of random tokens by this checkpoint, source and translation of n tokens each, "
        "with every map recorded and with fused attention, which makes none. Below a few hundred "
        "tokens the projections and feed-forward networks, which grow with n, cost more than the "
        "maps.",
    )
    key = ("time of maps", view.entry.ref.mark, view.device)
    found: tuple[Reals, Reals] | None = CACHE.get(key)
    if found is None:
        if not place.button(
            "Time this checkpoint", icon=":material/timer:", key="time_maps",
            help="A few seconds; others' work on this machine adds to it.",
        ) and not st.session_state.pop(_ASKED, False):  # fmt: skip
            return
        found = _timed(view, config, key)
    recorded, fused = (np.median(each, axis=1) * 1e3 for each in found)
    lengths = _lengths(config)
    chart = cost_lines(lengths, {"maps recorded": recorded, "fused": fused}, "milliseconds", 0,
                       current_theme(), height=300)  # fmt: skip
    said = (
        f"At {lengths[-1]} tokens **{recorded[-1]:,.0f} ms** with all maps, {fused[-1]:,.0f} ms "
        "without."
    )
    draw_chart(chart, said.replace("*", ""), place)
    place.caption(f"{said} Medians of three rounds on this server.")


_ASKED = "headlight_time_maps"


def _timed(view: View, config: ModelConfig, key: tuple[str, ...]) -> tuple[Reals, Reals]:
    end_where_stopped(key, "Time this checkpoint")
    model = get_translator(view).model

    def make(report: Report) -> tuple[Reals, Reals]:
        with OTHERS.turn(lambda ahead: report(ahead, 0)):
            made = time_maps(model, _lengths(config), report=report)
        CACHE.put(key, made)
        return made

    st.session_state[_ASKED] = True  # so that a rerun for another reason goes on with it
    with errors_on_page():
        made = attended(make, Progress(key, _DOING))
    st.session_state.pop(_ASKED, None)
    return made


def _lengths(config: ModelConfig) -> tuple[int, ...]:
    """Return the lengths that the model's positions reach."""
    if config.positions in ("sinusoidal", "relative"):
        return LENGTHS
    return tuple(n for n in LENGTHS if n <= config.max_positions)
