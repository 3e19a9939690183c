"""What the reader chose inside a component, kept here and there without sending the view again.

The browser shows a choice at once and reports it. If the next message repeated it, the message
would differ and everything in it would travel again; so a message keeps saying what was chosen
when it was made, until its content changes or the choice comes from elsewhere (a link, a widget).
A counter of choices tells the browser which of the two is newer (`agree` in shared/held.js).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from ui.components.files import COMPONENTS, script, style
from ui.components.packing import pack


def component(name: str) -> Any:
    """The component of this name in `ui.components.files`, to be mounted with `key` and `data`."""
    root = COMPONENTS[name].root
    return st.components.v2.component(
        f"headlight.{name}",
        html=f'<div class="{root}"></div>' if root else "",
        css=style(name),
        js=script(name),
    )


def message(key: str, header: Mapping[str, Any], body: bytes, held: Any) -> bytes:
    """The component's message, the same bytes as before where the browser knows it all.

    Args:
        key: the component's.
        header, body: its content, see `pack`.
        held: what is chosen, as JSON would give it back (lists, no tuples).
    """
    content = hashlib.blake2b(repr(dict(header)).encode("utf-8", "replace"), digest_size=16)
    content.update(body)
    record = _record(key)
    if record["content"] != content.digest() or record["known"] != held:
        record |= {"content": content.digest(), "known": held, "sent": (held, record["count"])}
    sent, count = record["sent"]
    return pack({**header, "held": sent, "count": count, "session": record["session"]}, body)


def listener(key: str, parse: Callable[[Any], Any], take: Callable[[Any], None]) -> Any:
    """The callback `on_held_change` of a component.

    Args:
        parse: the choice that the browser reports, or None where it says nothing that fits.
        take: called with what `parse` returned, before the script runs again.
    """

    def changed() -> None:
        reported = st.session_state[key].get("held")
        if not isinstance(reported, Mapping):
            return
        count, chosen = reported.get("count"), parse(reported.get("held"))
        if chosen is None or not isinstance(count, int) or isinstance(count, bool):
            return
        record = _record(key)
        record["count"], record["known"] = count, reported["held"]
        take(chosen)

    return changed


def _record(key: str) -> dict[str, Any]:
    fresh = {"content": b"", "known": None, "sent": None, "count": 0}
    record: dict[str, Any] = st.session_state.setdefault(
        f"{key}-held", {**fresh, "session": secrets.token_hex(4)}
    )
    return record
