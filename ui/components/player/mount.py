"""The player, mounted in a page."""

from __future__ import annotations

from collections.abc import Callable

from ui.components.mount import component

_component = component("player")


def player(
    message: bytes,
    *,
    key: str,
    on_view_change: Callable[[], None],
    on_steer_change: Callable[[], None],
) -> None:
    """Mount the player.

    Args:
        message: from `encode`.
        on_view_change: called once the user pauses; `place_in(st.session_state[key])` is the place.
        on_steer_change: called when the user takes another token or takes one back, see `taken_in`
            and `undone_in`.
    """
    _component(
        key=key,
        data=message,
        on_view_change=on_view_change,
        on_steer_change=on_steer_change,
    )
