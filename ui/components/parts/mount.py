"""The sum of parts, mounted in a page."""

from __future__ import annotations

from ui.components.mount import component

_component = component("parts")


def sum_of_parts(message: bytes, *, key: str) -> None:
    """Show a message of `parts_message`."""
    _component(key=key, data=message)
