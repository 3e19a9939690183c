"""Settings of a page as one record, and widgets bound to settings.

The fields of a frozen dataclass derived from `Choice` are `Param`s:

    @dataclass(frozen=True)
    class TokensChoice(Choice):
        token: Param[int | None] = Param("token", whole(0, 9_999_999), None, of="model")
        count: Param[int] = Param("neighbours", whole(3, 30), 10)

    TokensChoice.read().count  # an int
    st.slider("Neighbours", 3, 30, **bound(TokensChoice.count))  # the Param itself

Side B of Compare stores the same fields under other names, see `ui.core.view.Side.own`.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from html import escape
from typing import Any, Self, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from figures.palette import ROLES, Theme
from transformer.measures.compare import not_shared
from transformer.measures.words import WORD_RULE
from transformer.trace.records import CELL_MEASURES, CellMeasure
from ui.components.grid import Cell
from ui.core import url_state
from ui.core.glossary import CELL_TEXTS, HINTS, term
from ui.core.layout import current_theme
from ui.core.url_state import HEAD, KIND, LAYER, Param
from ui.platform.session import reports


@dataclass(frozen=True)
class Choice:
    """Base class of a page's settings; `Choice()` has the defaults."""

    @classmethod
    def params(cls) -> tuple[Param[Any], ...]:
        """Return the settings in field order."""
        return tuple(getattr(cls, field.name) for field in fields(cls))

    @classmethod
    def of(cls, owner: str) -> tuple[Param[Any], ...]:
        """Return the settings of an owner, see `Param.of`."""
        return tuple(param for param in cls.params() if owner in param.of.split())

    @classmethod
    def read(cls) -> Self:
        """Return the stored values; unset or invalid settings have their defaults."""
        return cls(*map(url_state.get, cls.params()))

    @classmethod
    def show(cls) -> None:
        """Include all settings in the page's URL."""
        url_state.show(*cls.params())

    def put(self) -> None:
        """Store all values."""
        names = (field.name for field in fields(self))
        url_state.store({
            param: getattr(self, name) for param, name in zip(self.params(), names, strict=True)
        })  # fmt: skip


@dataclass(frozen=True)
class PlaceChoice(Choice):
    """A page's settings with the attention head that all pages share."""

    kind: Param[str] = KIND
    layer: Param[int | None] = LAYER
    head: Param[int | None] = HEAD


T = TypeVar("T")

#: Unit of map rows and columns.
UNITS: Param[str] = Param("units", url_state.one_of(("tokens", "words")), "tokens")


@dataclass(frozen=True)
class CellChoice(Choice):
    """URL settings of all maps."""

    cell: Param[str] = Param("cell", url_state.one_of(CELL_MEASURES), "weight")
    words_only: Param[bool] = url_state.switch("words_only")
    #: the second of two measures side by side
    against: Param[str] = Param("against", url_state.one_of(CELL_MEASURES), "effect")
    check: Param[bool] = url_state.switch("check")  # whether measures are compared with the effect


def fill(key: str, value: object) -> None:
    """Set a widget's value unless the browser already has it.

    A browser reports the widgets that it has drawn. One that it has not, such as in a closed
    popover, takes the value of the latest run.
    """
    if not reports(key) or st.session_state[key] != value:
        st.session_state[key] = value


def filled(key: str, value: object, take: Callable[[Any], object]) -> dict[str, Any]:
    """Fill a widget that is never empty, and return its key and callback as arguments.

    Args: take: called with the chosen value. None, reported by a browser that has not drawn the
        current options, is ignored.
    """
    fill(key, value)

    def changed() -> None:
        if (chosen := st.session_state[key]) is not None:
            take(chosen)

    return {"key": key, "on_change": changed}


def bound(
    param: Param[T], key: str = "", then: Callable[[], None] = lambda: None, value: Any = None,
) -> dict[str, Any]:  # fmt: skip
    """Bind a widget to a setting, and return its key and callback as arguments.

    Args:
        key: for a widget that outlives the page; by default the page's own.
        then: called after a choice.
        value: the value on screen, by default the stored value.
    """
    key = key or f"{param.name}_widget"

    def store(value: T) -> None:
        url_state.put(param, value)
        then()

    return filled(key, url_state.get(param) if value is None else value, store)


def stores(param: Param[int | None]) -> Callable[[int | None], None]:
    """Return a callback that stores an index from 0, or None."""
    return lambda at: url_state.put_index(param, at)


def sets(param: Param[T], value: T | None) -> dict[str, Any]:
    """Return the arguments of a button that stores a value; None restores the default."""
    if value is None:
        return {"on_click": url_state.forget, "args": (param,)}
    return {"on_click": url_state.put, "args": (param, value)}


def choose_one(
    label: str, param: Param[T], options: Mapping[Any, str] | Sequence[Any],
    where: DeltaGenerator | None = None, *, chosen: T | None = None, **arguments: Any,
) -> T:  # fmt: skip
    """Draw buttons that choose one option, and return the choice.

    Args:
        label: for screen readers; shown only with `label_visibility`.
        options: their display names, or a plain sequence.
        where: container, by default the current one.
        chosen: the option on screen, by default the stored value.
        arguments: passed to `st.segmented_control`.
    """
    names = options if isinstance(options, Mapping) else {option: str(option) for option in options}
    draw: Any = st.segmented_control if where is None else where.segmented_control
    binding = bound(param, value=chosen)
    arguments = {"label_visibility": "collapsed", "wrap": True} | arguments
    draw(label, list(names), format_func=names.__getitem__, required=True, **binding, **arguments)
    return url_state.get(param) if chosen is None else chosen


def numbered(
    page: str, param: Param[int | None], label: str, names: Sequence[str], chosen: int,
    on_change: Callable[[], None] = lambda: None, **arguments: Any,
) -> None:  # fmt: skip
    """Draw a selectbox for a position that `param` counts from 1.

    Args:
        page: prefix of the widget's key.
        names: display names of the positions.
        chosen: index of the position on screen.
        on_change: called before a new position is stored.
        arguments: passed to `st.selectbox`.
    """

    def store(at: int) -> None:
        on_change()
        url_state.put_index(param, at)

    st.selectbox(
        label, range(len(names)), format_func=names.__getitem__,
        **filled(f"{page}_{param.name}_box", chosen, store), **arguments,
    )  # fmt: skip


def layer_and_head(
    page: str, kind: str, n_layers: int, n_heads: int,
    wheres: Sequence[DeltaGenerator | None] = (None, None), over: str = "",
    then: Callable[[], None] = lambda: None, cell: Cell | None = None, **arguments: Any,
) -> Cell:  # fmt: skip
    """Draw selectboxes for a layer and a head, or their means, and return the choice.

    Args:
        page: prefix of the widgets' keys.
        kind: of attention.
        wheres: containers of the two boxes, by default the current one.
        over: start of the label for all layers or heads, such as "Maximum".
        then: called after a choice.
        cell: the choice on screen, by default the stored one.
        arguments: passed to `st.selectbox`; labels are hidden by default.
    """
    arguments = {"label_visibility": "collapsed"} | arguments
    cell = cell or url_state.cell(n_layers, n_heads, kind)
    chosen = ((LAYER, n_layers, cell[0]), (HEAD, n_heads, cell[1]))

    def take(param: Param[int | None], layer_or_head: int | None) -> None:
        url_state.put_head(kind, *cell)  # the other setting may belong to another kind
        url_state.put(param, layer_or_head)
        then()

    for where, (param, count, at) in zip(wheres, chosen, strict=True):
        _mean_or_one(page, param, count, at, where, over, take, arguments)
    return cell


def _mean_or_one(
    page: str, param: Param[int | None], count: int, at: int | None,
    where: DeltaGenerator | None, over: str, take: Callable[[Param[int | None], int | None], None],
    arguments: Mapping[str, Any],
) -> None:  # fmt: skip
    key, name = f"{page}_{param.name}_box", param.name.capitalize()
    all_of_them = f"{over} of all" if over else f"{name}: mean"
    (st.selectbox if where is None else where.selectbox)(
        name, range(count + 1), help=term(name),
        **filled(key, 0 if at is None else at + 1, lambda value: take(param, value or None)),
        format_func=lambda value: f"{name} {value}" if value else all_of_them, **arguments,
    )  # fmt: skip


def units_control() -> str:
    """Draw the Whole words switch and return "tokens" or "words"."""
    url_state.show(UNITS)
    st.toggle(
        "Whole words", help=WORD_RULE,
        **filled("units_widget", url_state.get(UNITS) == "words",
                 lambda on: url_state.put(UNITS, "words" if on else "tokens")),
    )  # fmt: skip
    return url_state.get(UNITS)


def cell_measure() -> CellMeasure:
    """Return the stored measure."""
    return next(name for name in CELL_MEASURES if name == url_state.get(CellChoice.cell))


def weights_alone() -> bool:
    """Return True if maps show plain weights, without a check."""
    return CellChoice.read() == CellChoice()


def cells_control(*, units: bool = False) -> None:
    """Draw the control of what a cell shows, closed: its label names the measure.

    Args: units: with the switch for whole words, where there is no room beside it.
    """
    label = CELL_TEXTS[cell_measure()]["label"].lower()
    label += ", words only" * url_state.get(CellChoice.words_only)
    label += ", by words" * (units and url_state.get(UNITS) == "words")
    icon = ":material/opacity:"
    with st.popover(f"A cell shows: {label}", icon=icon, type="tertiary", key="cells"):
        if units:
            units_control()
        cells_options()


def cells_options() -> None:
    """Draw the control's options, for a place inside another popover."""
    CellChoice.show()
    texts = CELL_TEXTS[cell_measure()]
    st.radio(
        "A cell shows", CELL_MEASURES, format_func=lambda name: CELL_TEXTS[name]["label"],
        captions=[CELL_TEXTS[name]["text"] for name in CELL_MEASURES], **bound(CellChoice.cell),
    )  # fmt: skip
    st.toggle(
        "Words only", **bound(CellChoice.words_only),
        help="Set special tokens, tags and punctuation to 0, and divide each row by what is left.",
    )  # fmt: skip
    st.toggle(
        "Check against the effect", **bound(CellChoice.check),
        help="Rank correlation (Spearman) of each measure with the size of the effect, over the "
        "edges of the map on screen.",
    )  # fmt: skip
    with st.expander(f"What is this? {texts['label']}"):
        st.markdown(term(texts["term"]))


def draw_hint(name: str) -> None:
    """Draw the hints for mouse and touch; style.css hides one of them."""
    for pointer, text in HINTS[name].items():
        with st.container(key=f"by_{pointer}_hint"):
            st.markdown(text)


def draw_text(text: str, language: str, new: str = "") -> None:
    """Show a model's text literally; browsers do not translate it, and a long one takes the focus.

    Args:
        language: for the `lang` attribute, see `View.spoken`.
        new: what follows, in bold.
    """
    shown = escape(text) + f"<b>{escape(new)}</b>" * bool(new)
    st.html(f'<p translate=no lang="{escape(language)}"{text[100:] and " tabindex=0"}>{shown}</p>')


def draw_changed(text: str, language: str, before: str) -> None:
    """Show a text as `draw_text` does, and underline what the one before does not have."""
    changed, _ = not_shared(text.split(), before.split())
    parts = enumerate(re.split(r"(\s+)", escape(text)))  # words, and the spaces between them
    shown = "".join(f"<u>{part}</u>" if at / 2 in changed else part for at, part in parts)
    st.html(f'<p translate=no lang="{escape(language)}"{text[100:] and " tabindex=0"}>{shown}</p>')


def raw_box(
    where: DeltaGenerator, label: str, param: Param[Any], raws: Sequence[str], value: str, *,
    key: str, named: Callable[[str], str], help: str | None = None,
    others: Iterable[tuple[Param[Any], str]] = (),
) -> None:  # fmt: skip
    """Draw a selectbox of a setting's raw values.

    Args:
        value: the value on screen, which may differ from the stored value.
        named: returns a value's display name.
        others: settings on screen that a choice stores as well.
    """

    def take(raw: str) -> None:
        url_state.store({each: each.parse(shown) for each, shown in (*others, (param, raw))})

    where.selectbox(
        label, raws, format_func=named, help=help, label_visibility="collapsed",
        **filled(key, value, take),
    )  # fmt: skip


def coloured(text: str) -> str:
    """Colour queries, keys, values and the stream in the formulas of a Markdown text."""
    return _coloured(text, current_theme())


@lru_cache(maxsize=500)
def _coloured(text: str, theme: Theme) -> str:
    colours = ROLES[theme]
    # Not the k of d_k, nor the V of a vocabulary.
    role = r"(?<![a-z\\/$])[QKV](?![a-z])|(?<![a-zA-Z\\_])([qkv](?=_)|x(?=[_^]))"

    def symbol(found: re.Match[str]) -> str:
        colour = colours.get(found[0].lower(), colours["residual"])
        return rf"{{\textcolor{{{colour}}}{{{found[0]}}}}}"

    return re.sub(r"(\$\$?)[^$]+\1", lambda formula: re.sub(role, symbol, formula[0]), text)
