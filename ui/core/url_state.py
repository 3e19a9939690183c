"""The state of a view: one store in the session, mirrored in the URL.

Every setting that a link should bring back is a `Param`: a name, a parser that refuses what is not
allowed, and a default. The session holds the raw strings; the URL shows them. A value in the URL
that this session did not write itself (an opened link, the browser's back button) is taken over
once; afterwards the session is right and the URL follows. A page change that drops the query, as
Streamlit's does, therefore loses nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

import streamlit as st

T = TypeVar("T")

_STORE = "headlight_store"
_WRITTEN = "headlight_written"
_SHOWN = "headlight_shown"
_ARRIVED = "headlight_arrived"
_BEFORE = "headlight_before"
_GONE = "headlight_gone"
_PAGE = "headlight_page"
_ENTERED = "headlight_entered"

#: For this long after a change of the URL a browser may still send the one before, in seconds.
_SETTLING = 0.5

#: Longer values stay out of the URL: servers refuse request lines of about 64 kB, and one
#: character takes up to 12 bytes there.
MAX_URL_CHARACTERS = 4_000


@dataclass(frozen=True)
class Param(Generic[T]):
    """One setting that the URL can hold.

    Attributes:
        name: as in the URL.
        parse: the value of a raw string; raises `ValueError` for what is not allowed.
        default: the value where nothing, or nothing valid, is stored.
        write: the raw string of a value, such that `parse(write(value)) == value`.
    """

    name: str
    parse: Callable[[str], T]
    default: T
    write: Callable[[T], str] = str


def whole(low: int, high: int) -> Callable[[str], int]:
    """A parser for whole numbers from `low` to `high`."""

    def parse(raw: str) -> int:
        if not raw.isascii() or len(raw) > 9:
            raise ValueError(raw)
        value = int(raw)
        if not low <= value <= high:
            raise ValueError(raw)
        return value

    return parse


def number(low: float, high: float) -> Callable[[str], float]:
    """A parser for finite numbers from `low` to `high`."""

    def parse(raw: str) -> float:
        value = float(raw[:40])
        if not (math.isfinite(value) and low <= value <= high):
            raise ValueError(raw)
        return value

    return parse


def text(most: int) -> Callable[[str], str]:
    """A parser for text of at most so many characters."""

    def parse(raw: str) -> str:
        if len(raw) > most:
            raise ValueError("too long")
        return raw

    return parse


def one_of(allowed: Iterable[str]) -> Callable[[str], str]:
    """A parser for a fixed set of words."""
    words = tuple(allowed)

    def parse(raw: str) -> str:
        if raw not in words:
            raise ValueError(raw)
        return raw

    return parse


def parse_switch(raw: str) -> bool:
    """A parser for on and off."""
    if raw not in ("on", "off"):
        raise ValueError(raw)
    return raw == "on"


def write_switch(value: bool) -> str:
    """The raw string of a switch; off is written out, so that a link can say it."""
    return "on" if value else "off"


def parse_layer(raw: str) -> int | None:
    """A layer or head: 1, 2, ... or `mean`, which is None. Records count from 0."""
    return None if raw == "mean" else whole(1, 999)(raw)


def write_layer(value: int | None) -> str:
    """The raw string of a layer or head."""
    return "mean" if value is None else str(value)


#: What the pages share. A page adds its own the same way.
STEP: Param[int | None] = Param(
    "step", whole(1, 99_999), None, lambda value: "" if value is None else str(value)
)
LAYER: Param[int | None] = Param("layer", parse_layer, None, write_layer)
HEAD: Param[int | None] = Param("head", parse_layer, None, write_layer)
SHIFTED: Param[bool] = Param("shifted", parse_switch, False, write_switch)


def read_url() -> None:
    """Take over what the URL says and this session did not. Called once, first, by the frame."""
    store, written = _dict(_STORE), _dict(_WRITTEN)
    current = st.query_params.to_dict()
    before, changed_at = st.session_state.get(_BEFORE, ({}, -math.inf))
    settling = time.monotonic() - changed_at <= _SETTLING
    if not settling:
        before = {}
    arrived = {}
    for name, value in current.items():
        if value != written.get(name) and value != before.get(name):
            store[name] = arrived[name] = value
    missing = written.keys() - current.keys() if written.keys() & current.keys() else set()
    st.session_state[_GONE] = [name for name in missing if name in before or not settling]
    st.session_state[_ARRIVED] = arrived
    st.session_state[_SHOWN] = []


def enter(url_path: str) -> None:
    """Say which page is on screen in this run; the default page has the address "".

    On the same page as before, an address that lacks what was written there is an earlier one: the
    browser's back button takes back what it did not say yet.
    """
    changed = st.session_state.get(_PAGE) != url_path
    if not changed:
        for name in st.session_state.get(_GONE, ()):
            _dict(_STORE).pop(name, None)
    st.session_state[_ENTERED] = changed
    st.session_state[_PAGE] = url_path
    if changed:
        # Two pages may have a control of one name. To Streamlit they are two widgets: this one
        # opens on its default although the key still answers with what the other one said.
        for key in [each for each in st.session_state if str(each).endswith("_widget")]:
            del st.session_state[key]


def entered() -> bool:
    """Whether the page was opened by this run: another one was on screen before it."""
    return bool(st.session_state.get(_ENTERED))


def page() -> str:
    """The url_path of the page on screen."""
    return str(st.session_state.get(_PAGE, ""))


def arrived(*params: Param[Any]) -> bool:
    """Whether the URL brought a value for one of these in this run."""
    return any(param.name in _dict(_ARRIVED) for param in params)


def get(param: Param[T]) -> T:
    """The value now, its default where none or an invalid one is stored."""
    raw = _dict(_STORE).get(param.name)
    if raw is None:
        return param.default
    try:
        return param.parse(raw)
    except ValueError:
        del _dict(_STORE)[param.name]
        return param.default


def put(param: Param[T], value: T) -> None:
    """Store a value. The URL follows at the end of the run, see `write_url`."""
    _dict(_STORE)[param.name] = param.write(value)


def stored(param: Param[Any]) -> bool:
    """Whether a value, valid or not, is there in place of the default."""
    return param.name in _dict(_STORE)


def forget(*params: Param[Any]) -> None:
    """Go back to the defaults of these."""
    for param in params:
        _dict(_STORE).pop(param.name, None)


def given() -> frozenset[str]:
    """The names of the settings that the URL brought in this run."""
    return frozenset(_dict(_ARRIVED))


def bring(values: Mapping[str, str]) -> None:
    """Store raw values as if the URL had brought them in this run: pages then go where they say."""
    _dict(_STORE).update(values)
    _dict(_ARRIVED).update(values)


def start_over(values: Mapping[str, str], keep: Collection[str]) -> None:
    """Store raw values, and forget every other setting but those named in `keep`."""
    store = _dict(_STORE)
    for name in [name for name in store if name not in keep]:
        del store[name]
    store.update(values)


def show(*params: Param[Any]) -> None:
    """Say which settings belong to the page now on screen, so that its link holds them."""
    shown = st.session_state.setdefault(_SHOWN, [])
    for param in params:
        get(param)  # drops what is not allowed
        if param.name not in shown:
            shown.append(param.name)


def write_url() -> None:
    """Make the URL say what the session holds of the settings shown. Ends a run of the frame.

    Anything else leaves the URL; settings of other pages stay in the session and come back there.
    """
    wanted = query()
    current = st.query_params.to_dict()
    if wanted != current:
        st.query_params.from_dict(wanted)
        st.session_state[_BEFORE] = (current, time.monotonic())
    st.session_state[_WRITTEN] = wanted


def query() -> dict[str, str]:
    """The settings shown that a link should hold, as raw strings."""
    store = _dict(_STORE)
    return {
        name: store[name]
        for name in st.session_state.get(_SHOWN, [])
        if name in store and store[name] and len(store[name]) <= MAX_URL_CHARACTERS
    }


def link() -> str:
    """The address that reopens this view; relative where the browser's own is not known."""
    address = (st.context.url or "").rstrip("/")
    if page():
        address = address.removesuffix(f"/{page()}")
    return f"{address}/{page()}?{urlencode(query())}"


def _dict(key: str) -> dict[str, str]:
    held: dict[str, str] = st.session_state.setdefault(key, {})
    return held
