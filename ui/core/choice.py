"""A page's choices as one record of URL parameters.

Subclass `Choice` with a frozen dataclass whose fields are `Param`s; reading, storing and links
derive from them:

    @dataclass(frozen=True)
    class TokensChoice(Choice):
        token: Param[int | None] = Param("token", whole(0, 9_999_999), None, of="model")
        count: Param[int] = Param("neighbours", whole(3, 30), 10)

    TokensChoice.read().count  # an int
    st.slider("Neighbours", 3, 30, **bound(TokensChoice.count))  # the Param itself

Side B of Compare stores the same fields under other names: see `ui.core.side.Side.own`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

from ui.core import url_state
from ui.core.url_state import Param


@dataclass(frozen=True)
class Choice:
    """Base class of a page's choices; `Choice()` has the defaults."""

    @classmethod
    def params(cls) -> tuple[Param[Any], ...]:
        """Return the settings, in the order of the fields."""
        return tuple(getattr(cls, field.name) for field in fields(cls))

    @classmethod
    def of(cls, owner: str) -> tuple[Param[Any], ...]:
        """Return the settings that belong to an owner, see `Param.of`."""
        return tuple(param for param in cls.params() if owner in param.of.split())

    @classmethod
    def read(cls) -> Self:
        """Return the stored choice; unset or invalid values are the defaults."""
        return cls(*map(url_state.get, cls.params()))

    @classmethod
    def show(cls) -> None:
        """Include all settings in the link of the page on screen."""
        url_state.show(*cls.params())

    def put(self) -> None:
        """Store all values."""
        names = (field.name for field in fields(self))
        url_state.store({
            param: getattr(self, name) for param, name in zip(self.params(), names, strict=True)
        })  # fmt: skip
