"""The state of a view: one store in the session, mirrored in the URL.

Every setting in a link is a `Param`: a name, a parser that rejects invalid values, and a default.
The session stores raw strings and mirrors them in the URL. A URL value that this session did not
write (an opened link, the browser's back button) is adopted once; from then on the session takes
precedence. Settings therefore survive a page change, which drops the query.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

import streamlit as st

from transformer.types import ATTENTION_KINDS
from ui.components.grid import Cell
from ui.platform.session import went_back

T = TypeVar("T")

_STORE = "headlight_store"
_WRITTEN = "headlight_written"
_SHOWN = "headlight_shown"
_ARRIVED = "headlight_arrived"
_BEFORE = "headlight_before"
_GONE = "headlight_gone"
_PAGE = "headlight_page"
_ENTERED = "headlight_entered"
_OWNERS = "headlight_owners"

#: Seconds during which a slow browser may still send a URL from before a change.
_SETTLING = 5.0

#: Maximum characters of settings in a session, 100 added for each: enough for all pages with every
#: text box full. The oldest settings are dropped first.
_MOST_KEPT = 100_000

#: Longer values stay out of the URL: a character takes up to 12 bytes there, and servers reject
#: request lines of about 64 kB.
MAX_URL_CHARACTERS = 4_000


def write_value(value: object) -> str:
    """Format a text or number; None becomes ""."""
    if value is None:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


#: Names of all settings.
NAMES: set[str] = set()

#: Names of settings by owner.
_OWNED: dict[str, set[str]] = {}


@dataclass(frozen=True)
class Param(Generic[T]):
    """A setting in the URL, alone or as a field of a `ui.core.widgets.Choice`."""

    name: str  # in the URL
    parse: Callable[[str], T]  # raises `ValueError` for an invalid string
    default: T
    #: inverse of `parse`
    write: Callable[[T], str] = write_value
    #: owners, separated by spaces: another setting, or a keyword of `settle` ("model",
    #: "sentence", ...). The value is forgotten when an owner changes.
    of: str = ""

    def __post_init__(self) -> None:
        """Register the name and the owners."""
        NAMES.add(self.name)
        for owner in self.of.split():
            _OWNED.setdefault(owner, set()).add(self.name)

    @overload
    def __get__(self, choice: None, owner: type) -> Param[T]: ...
    @overload
    def __get__(self, choice: object, owner: type) -> T: ...
    def __get__(self, choice: object | None, owner: type) -> Param[T] | T:
        """Return the setting on a class, or its value on an instance."""
        return self if choice is None else vars(choice)[self.name]

    def __set__(self, choice: object, value: T) -> None:
        """Set the value of an instance under construction."""
        vars(choice)[self.name] = self.default if isinstance(value, Param) else value


def checked(parse: Callable[[str], T], good: Callable[[T], bool]) -> Callable[[str], T]:
    """Add a validity check to a parser; the result raises `ValueError`."""

    def parse_good(raw: str) -> T:
        value = parse(raw)
        if not good(value):
            raise ValueError(raw[:40])
        return value

    return parse_good


def whole(low: int, high: int) -> Callable[[str], int]:
    """Return a parser for integers from `low` to `high`."""
    digits = checked(str, lambda raw: raw.isascii() and len(raw) <= 9)
    return checked(lambda raw: int(digits(raw)), lambda value: low <= value <= high)


def number(low: float, high: float) -> Callable[[str], float]:
    """Return a parser for finite numbers from `low` to `high`."""
    return checked(lambda raw: float(raw[:40]), lambda value: low <= value <= high)


def text(most: int) -> Callable[[str], str]:
    """Return a parser for text of up to `most` characters."""
    return checked(str, lambda raw: len(raw) <= most)


class OneOf(tuple[str, ...]):
    """A parser for one of these words."""

    __slots__ = ()

    def __call__(self, raw: str) -> str:
        """Return the word. Raises `ValueError` for any other text."""
        if raw not in self:
            raise ValueError(raw[:40])
        return raw


def one_of(allowed: Iterable[str]) -> OneOf:
    """Return a parser for one of a set of words."""
    return OneOf(allowed)


def switch(name: str, of: str = "") -> Param[bool]:
    """Return a boolean setting, written as "on" or "off"."""
    return Param(
        name, lambda raw: one_of(("on", "off"))(raw) == "on", False,
        lambda value: "on" if value else "off", of,
    )  # fmt: skip


def parse_pair(raw: str, least: int = 1, most: int = 99_999) -> tuple[int, int]:
    """Parse two numbers, such as `5.2`."""
    first, _, second = raw.partition(".")
    number = whole(least, most)
    return number(first), number(second)


def write_pair(value: tuple[int, int]) -> str:
    """Format two numbers."""
    return f"{value[0]}.{value[1]}"


def place_or_mean(name: str) -> Param[int | None]:
    """Return a layer or head setting, counted from 1; None is "mean"."""
    return Param(
        name, lambda raw: None if raw == "mean" else whole(1, 999)(raw), None,
        lambda value: "mean" if value is None else str(value),
    )  # fmt: skip


def position(name: str, of: str = "") -> Param[int | None]:
    """Return a setting for a position counted from 1; None leaves it to the page. See `index`."""
    return Param(name, whole(1, 99_999), None, of=of)


#: Settings shared by pages; each page adds its own.
STEP = position("step")
LAYER, HEAD = place_or_mean("layer"), place_or_mean("head")
SHIFTED: Param[bool] = switch("shifted")
#: Attention kind of `LAYER` and `HEAD`; "both" is the decoder's two kinds.
KIND: Param[str] = Param("kind", one_of((*ATTENTION_KINDS, "both")), "cross")
#: View of Translate.
VIEW: Param[str] = Param("view", one_of(("steps", "layers", "why")), "steps")
#: Token ids of two candidates of a step: why the first, not the second?
WHY: Param[tuple[int, int] | None] = Param(
    "why", lambda raw: parse_pair(raw, 0, 9_999_999) if raw else None, None,
    lambda pair: "" if pair is None else write_pair(pair), of="step model sentence",
)  # fmt: skip


def read_url() -> None:
    """Adopt URL values that this session did not write. The frame calls it first."""
    store, written = _dict(_STORE), _dict(_WRITTEN)
    current = st.query_params.to_dict()
    late = [] if went_back() else _recent()
    arrived = {}
    for name, value in current.items():
        if all(value != url.get(name) for url in (written, *(url for _, url in late))):
            store[name] = arrived[name] = value
    left = _MOST_KEPT
    for name in reversed(list(store)):
        left -= 100 + len(name) + len(store[name])
        if left < 0:
            del store[name]
    missing = written.keys() - current.keys() if written.keys() & current.keys() else set()
    st.session_state[_GONE] = [] if late else [*missing]
    st.session_state[_ARRIVED] = arrived
    st.session_state[_SHOWN] = []


def enter(url_path: str, params: Iterable[Param[Any]]) -> None:
    """Register the current page and its settings; the default page's path is "".

    A URL on the same page that lacks settings written there was reached by the browser's back
    button; those settings are reset.
    """
    changed = st.session_state.get(_PAGE) != url_path
    if not changed:
        for name in st.session_state.get(_GONE, ()):
            _dict(_STORE).pop(name, None)
    st.session_state[_ENTERED] = changed
    st.session_state[_PAGE] = url_path
    if changed:
        # Streamlit treats widgets with the same key on two pages as different: the second would
        # show its default while the key returned the value of the first.
        for key in [key for key in st.session_state if str(key).endswith("_widget")]:
            del st.session_state[key]
    show(*params)


def page() -> str:
    """Return the address of the page that was entered last."""
    return str(st.session_state.get(_PAGE, ""))


def entered() -> bool:
    """Return True if this run opened the page."""
    return bool(st.session_state.get(_ENTERED))


def opens_plainly() -> bool:
    """Return True on the session's first page if its URL has no settings."""
    return not _dict(_WRITTEN) and not _dict(_ARRIVED)


def arrived(*params: Param[Any]) -> bool:
    """Return True if this run's URL brought any of these settings."""
    return any(param.name in _dict(_ARRIVED) for param in params)


def get(param: Param[T]) -> T:
    """Return the stored value, or the default if it is missing or invalid."""
    raw = _dict(_STORE).get(param.name)
    if raw is None:
        return param.default
    try:
        return param.parse(raw)
    except ValueError:
        del _dict(_STORE)[param.name]
        return param.default


def put(param: Param[T], value: T) -> None:
    """Store a value; the run's end writes it to the URL."""
    store({param: value})


def store(values: Mapping[Param[Any], Any]) -> None:
    """Store values, and forget the settings owned by those that change."""
    settings = _dict(_STORE)
    for param, value in values.items():
        for name in _OWNED.get(param.name, ()) if get(param) != value else ():
            settings.pop(name, None)
    settings.update({param.name: param.write(value) for param, value in values.items()})


def put_head(kind: str, layer: int | None, head: int | None) -> None:
    """Store a head; layer and head count from 0, None is the mean."""
    layer, head = (None if at is None else at + 1 for at in (layer, head))
    store({KIND: kind, LAYER: layer, HEAD: head})


@overload
def index(param: Param[int | None], count: int) -> int | None: ...
@overload
def index(param: Param[int | None], count: int, default: int) -> int: ...
def index(param: Param[int | None], count: int, default: int | None = None) -> int | None:
    """Return a position as an index from 0, or `default` if it is unset or beyond `count`."""
    value = get(param)
    return value - 1 if value is not None and value <= count else default


def indices(places: Iterable[int | None], counts: Iterable[int]) -> tuple[int | None, ...]:
    """Return positions from 1 as indices from 0; positions beyond their count become None."""
    return tuple(
        place - 1 if place is not None and place <= count else None
        for place, count in zip(places, counts, strict=False)
    )


def cell(n_layers: int, n_heads: int, kind: str = "") -> Cell:
    """Return the stored layer and head as indices; None is the mean.

    Args: kind: attention kind; a stored head of another kind counts as the mean.
    """
    if kind and get(KIND) not in (kind, "both"):
        return None, None
    return index(LAYER, n_layers), index(HEAD, n_heads)


def put_index(param: Param[int | None], at: int | None) -> None:
    """Store an index from 0, or None."""
    put(param, None if at is None else at + 1)


def settle(**owners: object) -> None:
    """Forget the settings whose owners have changed since the last call (see `Param.of`).

    Settings that the URL brought in this run stay.
    """
    notes = _dict(_OWNERS)
    for owner, now in owners.items():
        if notes.setdefault(owner, now) != now:
            for name in _OWNED.get(owner, set()) - _dict(_ARRIVED).keys():
                _dict(_STORE).pop(name, None)
        notes[owner] = now


def stored(param: Param[Any]) -> bool:
    """Return True if a value is stored, even an invalid one."""
    return param.name in _dict(_STORE)


def forget(*params: Param[Any]) -> None:
    """Reset settings to their defaults."""
    for param in params:
        _dict(_STORE).pop(param.name, None)


def everything() -> dict[str, str]:
    """Return a copy of the session's settings as raw strings."""
    return _dict(_STORE).copy()


def given() -> frozenset[str]:
    """Return the names of settings that this run's URL brought."""
    return frozenset(_dict(_ARRIVED))


def bring(values: Mapping[str, str]) -> None:
    """Store raw values as if this run's URL had brought them."""
    _dict(_STORE).update(values)
    _dict(_ARRIVED).update(values)


def start_over(values: Mapping[str, str], keep: Collection[str]) -> None:
    """Store raw values and reset all other settings except those in `keep`."""
    store = _dict(_STORE)
    st.session_state.pop(_OWNERS, None)  # these values belong to the next owners
    for name in [name for name in store if name not in keep]:
        del store[name]
    store.update(values)


def show(*params: Param[Any], only: bool = False) -> None:
    """Include settings in the page's URL; with `only`, no others."""
    names = st.session_state[_SHOWN] = [] if only else st.session_state.get(_SHOWN, [])
    for param in params:
        get(param)  # removes an invalid value
        if param.name not in names:
            names.append(param.name)


def write_url() -> None:
    """Write the page's settings to the URL at the end of a run.

    Settings of other pages leave the URL but stay in the session.
    """
    settings = query()
    current, written = st.query_params.to_dict(), _dict(_WRITTEN)
    if settings != current:
        replaced = [(time.monotonic(), url) for url in (current, written)]
        st.session_state[_BEFORE] = [*_recent(), *replaced]
    st.session_state[_WRITTEN] = settings
    if settings != current:  # noted first: a run may end at any of these lines
        st.query_params.from_dict(settings)


def query(changes: Mapping[Param[Any], Any] | None = None) -> dict[str, str]:
    """Return the page's settings as raw strings, with changes applied."""
    store, names = _dict(_STORE), st.session_state.get(_SHOWN, [])
    raws = {name: raw for name in names if len(raw := store.get(name, "")) <= MAX_URL_CHARACTERS}
    raws |= {param.name: param.write(value) for param, value in (changes or {}).items()}
    return {name: raw for name, raw in raws.items() if raw}


def written_beside(params: Iterable[Param[Any]]) -> dict[str, str]:
    """Return the URL's settings without these."""
    own = {param.name for param in params}
    return {name: raw for name, raw in _dict(_WRITTEN).items() if name not in own}


def _recent() -> list[tuple[float, dict[str, str]]]:
    """Return the URLs that the last changes replaced, here or in the browser, with their times."""
    replaced, now = st.session_state.get(_BEFORE, ()), time.monotonic()
    return [(at, url) for at, url in replaced if now - at <= _SETTLING]


def _dict(key: str) -> dict[str, Any]:
    stored: dict[str, Any] = st.session_state.setdefault(key, {})
    return stored
