"""The drawing of the whole model, mounted in a page."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from transformer.config import ModelConfig
from transformer.trace.records import Stream, Trace
from ui.components.mount import component, listener, message
from ui.components.plan import (
    Opened,
    PlanChoice,
    choice,
    content,
    limits_of,
    parse_choice,
    parse_opened,
)

_component = component("plan")


def model_plan(
    stream: Stream,
    trace: Trace,
    config: ModelConfig,
    *,
    chosen: PlanChoice,
    on_choose: Callable[[PlanChoice], None],
    on_open: Callable[[Opened], None],
    key: str,
) -> None:
    """Show the drawing.

    Args:
        on_choose: called with a new choice before the script runs again.
        on_open: the same with a block that has a page of its own.
    """
    limits = limits_of(stream, trace)

    def opened() -> None:
        block = parse_opened(st.session_state[key].get("open"), limits)
        if block is not None:
            on_open(block)

    _component(
        key=key,
        data=message(key, *content(stream, trace, config), choice(chosen)),
        on_held_change=listener(key, lambda said: parse_choice(said, limits), on_choose),
        on_open_change=opened,
    )
