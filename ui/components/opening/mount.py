"""The opening, mounted in a page."""

from __future__ import annotations

from collections.abc import Callable

from ui.components.mount import component

_component = component("opening")


def opening(
    message: bytes,
    *,
    key: str,
    on_covers_change: Callable[[], None],
    on_second_change: Callable[[], None],
    on_over_change: Callable[[], None],
) -> None:
    """Mount the opening.

    Args:
        message: from `encode`.
        on_covers_change: called when it stands, and the page may be drawn behind it.
        on_second_change: called when the second scene is asked for.
        on_over_change: called when it is over, by itself or skipped.
    """
    _component(
        key=key,
        data=message,
        on_covers_change=on_covers_change,
        on_second_change=on_second_change,
        on_over_change=on_over_change,
    )
