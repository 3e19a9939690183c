"""The views of Compare, in the order of the app's pages. A page joins by its `TWICE` here."""

from __future__ import annotations

from ui.beam.twice import TWICE as BEAM
from ui.compare.attention import TWICE as ATTENTION
from ui.compare.differences import PIECES, POSITIONS
from ui.compare.matching import TWICE as MATCHING
from ui.compare.numbers import TWICE as NUMBERS
from ui.core.url_state import Param
from ui.frame.twice import Twice
from ui.head.views import TWICE as HEAD
from ui.translate.player import TWICE as TRANSLATE

SECTIONS: tuple[Twice, ...] = (
    TRANSLATE, BEAM, ATTENTION, HEAD, PIECES, POSITIONS, MATCHING, NUMBERS
)  # fmt: skip


def section_of(name: str) -> Twice:
    """Return the section of this name. Raises `ValueError` if there is none."""
    try:
        return next(section for section in SECTIONS if section.name == name)
    except StopIteration:
        raise ValueError(name) from None


#: The section on screen.
TOPIC: Param[str] = Param("topic", lambda raw: section_of(raw).name, "maps")
