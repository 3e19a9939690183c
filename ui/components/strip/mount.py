"""The sentence in a row, mounted in a page."""

from __future__ import annotations

from ui.components.mount import component

_component = component("strip")


def strip(message: bytes, *, key: str) -> None:
    """Show a message of `strip_message`."""
    _component(key=key, data=message)
