"""Mount components and synchronise choices with the browser without resending content.

The browser applies a choice at once and reports it. A message with the new choice would differ from
the last one and be sent in full. A message therefore keeps its original choice until its content
changes or the choice comes from elsewhere (a link, a widget). A choice counter tells the browser
which of the two is newer (`syncChoice` in shared/choice.js).
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import streamlit as st

from ui.components.packing import Component, element, pack, script, style

T = TypeVar("T")


def show(
    component: Component[T], *, key: str, on_choose: Callable[[T], None] | None = None,
    choice: Any = None, together: Sequence[str] = (), **events: Callable[[], None],
) -> None:  # fmt: skip
    """Show a component.

    Args:
        on_choose: callback for a valid new choice, before the script reruns.
        choice: choice to show instead of the component's own.
        together: keys of components that the browser moves together with this one.
        events: `on_NAME_change` callbacks, before the script reruns, for the browser's reports in
            `st.session_state[key].NAME`.
    """
    if component.parse is None:
        data = pack(component.header, component.body)
    else:
        data = _message(key, component, component.choice if choice is None else choice)
        if on_choose is not None:
            events["on_choice_change"] = _listener((key, *together), component.parse, on_choose)
    _registered(component.name)(key=key, data=data, **events)


@cache
def _registered(name: str) -> Any:
    js = f"const IN_APP = true;\n{script(name)}export default view.default;"
    css = f"/* Streamlit takes a single line for a path. */\n{style(name)}"
    return st.components.v2.component(f"headlight.{name}", html=element(name), css=css, js=js)


def _message(key: str, component: Component[Any], choice: Any) -> bytes:
    """Return a component's message, unchanged if the browser is up to date."""
    record, content = _record(key), (component.of, component.digest)
    if record["of"] != component.of:
        record |= {"of": component.of, "session": secrets.token_hex(4)}
    if record["content"] != content or record["known"] != choice:
        record |= {"content": content, "known": choice, "sent": (choice, record["count"])}
    sent, count = record["sent"]
    header = {**component.header, "choice": sent, "count": count, "session": record["session"]}
    return pack(header, component.body)


def _listener(
    keys: Sequence[str], parse: Callable[[Any], T | None], on_choose: Callable[[T], None]
) -> Callable[[], None]:
    def changed() -> None:
        reported = st.session_state[keys[0]].get("choice")
        if not isinstance(reported, Mapping):
            return
        if reported.get("session") != _record(keys[0])["session"]:
            return
        count, choice = reported.get("count"), parse(reported.get("choice"))
        if choice is None or type(count) is not int:
            return
        for key in keys:
            _record(key).update(count=count, known=reported["choice"])
        on_choose(choice)

    return changed


def _record(key: str) -> dict[str, Any]:
    fresh = {"content": None, "known": None, "sent": None, "count": 0, "of": None, "session": ""}
    record: dict[str, Any] = st.session_state.setdefault(f"{key}-choice", fresh)
    return record
