"""Mounts components and keeps choices in step with the browser without resending a view.

The browser shows a choice at once and reports it. If the next message contained the new choice, the
message would differ and all of it would be sent again. A message therefore keeps the choice it was
made with until its content changes or the choice comes from elsewhere (a link, a widget). A counter
of choices tells the browser which of the two is newer (`agree` in shared/held.js).
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
    """Return a component of `ui.components.files`, to be called with `key` and `data`."""
    root = COMPONENTS[name].root
    return st.components.v2.component(
        f"headlight.{name}",
        html=f'<div class="{root}"></div>' if root else "",
        css=style(name),
        js=f"const IN_APP = true;\n{script(name)}",
    )


def message(key: str, header: Mapping[str, Any], body: bytes, held: Any) -> bytes:
    """Return a component's message; the same bytes as before if the browser is up to date.

    Args:
        key: the component's key.
        header, body: its content, see `pack`.
        held: the choice, as JSON would return it (lists, no tuples).
    """
    content = hashlib.blake2b(repr(dict(header)).encode("utf-8", "replace"), digest_size=16)
    content.update(body)
    record = _record(key)
    if record["content"] != content.digest() or record["known"] != held:
        record |= {"content": content.digest(), "known": held, "sent": (held, record["count"])}
    sent, count = record["sent"]
    return pack({**header, "held": sent, "count": count, "session": record["session"]}, body)


def listener(key: str, parse: Callable[[Any], Any], take: Callable[[Any], None]) -> Any:
    """Return the callback `on_held_change` of a component.

    Args:
        parse: checks the reported choice; returns None if it is not valid.
        take: called with the result of `parse`, before the script reruns.
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
