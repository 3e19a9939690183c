"""Mounts components and keeps choices in step with the browser without resending a component.

The browser shows a choice at once and reports it. If the next message contained the new choice, the
message would differ and all of it would be sent again. A message therefore keeps the choice it was
made with until its content changes or the choice comes from elsewhere (a link, a widget). A counter
of choices tells the browser which of the two is newer (`syncChoice` in shared/choice.js).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

import streamlit as st

from ui.components.files import element, script, style
from ui.components.packing import Component, pack

T = TypeVar("T")


def show(
    component: Component[T],
    *,
    key: str,
    on_choose: Callable[[T], None] | None = None,
    **events: Callable[[], None],
) -> None:
    """Show a component.

    Args:
        on_choose: called with a valid new choice before the script reruns.
        events: see `mount`.
    """
    if component.parse is None:
        mount(component.name, pack(component.header, component.body), key=key, **events)
        return
    if on_choose is not None:
        events["on_choice_change"] = _listener(key, component.parse, on_choose)
    mount(component.name, _message(key, component), key=key, **events)


def mount(name: str, data: Any, *, key: str, **events: Callable[[], None]) -> None:
    """Mount a component of `ui.components.files`.

    Args:
        data: its message, or JSON data.
        events: `on_NAME_change`, called before the script reruns once the browser has reported
            `st.session_state[key].NAME`.
    """
    _registered(name)(key=key, data=data, **events)


@cache
def _registered(name: str) -> Any:
    js = f"const IN_APP = true;\n{script(name)}"
    return st.components.v2.component(
        f"headlight.{name}", html=element(name), css=style(name), js=js
    )


def _message(key: str, component: Component[Any]) -> bytes:
    """Return a component's message; the same bytes as before if the browser is up to date."""
    header, body, choice = component.header, component.body, component.choice
    content = hashlib.blake2b(repr(dict(header)).encode("utf-8", "replace"), digest_size=16)
    content.update(body)
    record = _record(key)
    if record["content"] != content.digest() or record["known"] != choice:
        record |= {"content": content.digest(), "known": choice, "sent": (choice, record["count"])}
    sent, count = record["sent"]
    return pack({**header, "choice": sent, "count": count, "session": record["session"]}, body)


def _listener(
    key: str, parse: Callable[[Any], T | None], on_choose: Callable[[T], None]
) -> Callable[[], None]:
    def changed() -> None:
        reported = st.session_state[key].get("choice")
        if not isinstance(reported, Mapping):
            return
        count, choice = reported.get("count"), parse(reported.get("choice"))
        if choice is None or type(count) is not int:
            return
        record = _record(key)
        record["count"], record["known"] = count, reported["choice"]
        on_choose(choice)

    return changed


def _record(key: str) -> dict[str, Any]:
    fresh = {"content": b"", "known": None, "sent": None, "count": 0}
    record: dict[str, Any] = st.session_state.setdefault(
        f"{key}-choice", {**fresh, "session": secrets.token_hex(4)}
    )
    return record
