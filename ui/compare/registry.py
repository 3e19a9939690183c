"""The sections of Compare, in the order of the app's pages. A page joins Compare by a line here."""

from __future__ import annotations

from ui.compare.maps import heads
from ui.compare.rooms import attention, beam, head, numbers, positions, tokens, translate
from ui.compare.sides import CompareRoom
from ui.core.url_state import Param

ROOMS: tuple[CompareRoom, ...] = (
    translate.ROOM,
    beam.ROOM,
    attention.ROOM,
    head.ROOM,
    tokens.ROOM,
    positions.ROOM,
    heads.ROOM,
    numbers.ROOM,
)


def room_of(name: str) -> CompareRoom:
    """Return the section of this name. Raises `ValueError` if there is none."""
    try:
        return next(room for room in ROOMS if room.name == name)
    except StopIteration:
        raise ValueError(name) from None


def params() -> tuple[Param[object], ...]:
    """Return the settings of all sections, each once."""
    return tuple(dict.fromkeys(param for room in ROOMS for param in room.params))


#: The section on screen.
TOPIC: Param[str] = Param("topic", lambda raw: room_of(raw).name, "maps")
