"""A page's settings as one record.

The fields of a frozen dataclass derived from `Choice` are `Param`s:

    @dataclass(frozen=True)
    class TokensChoice(Choice):
        token: Param[int | None] = Param("token", whole(0, 9_999_999), None, of="model")
        count: Param[int] = Param("neighbours", whole(3, 30), 10)

    TokensChoice.read().count  # an int
    st.slider("Neighbours", 3, 30, **bound(TokensChoice.count))  # the Param itself

Side B of Compare stores the same fields under other names, see `ui.core.view.Side.own`.
"""

from dataclasses import dataclass, fields
from typing import Any, Self

from ui.core import url_state
from ui.core.url_state import HEAD, KIND, LAYER, Param


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
