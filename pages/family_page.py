"""Family: models that kept one stack of the paper's blocks, and what changed since 2017."""

from __future__ import annotations

from ui.core import url_state
from ui.core.view import current_entries, current_view
from ui.core.widgets import draw_explained
from ui.family.choice import PART, ExpectsChoice, StacksChoice
from ui.family.views import draw_changes, draw_expects, draw_stacks
from ui.frame.pages import require_frame

require_frame()


url_state.show(PART)
part = url_state.get(PART)
draw_explained("family")
view, entries = current_view(), current_entries()
if part == "expects":
    ExpectsChoice.show()
    draw_expects(view, entries)
elif part == "stacks":
    StacksChoice.show()
    draw_stacks(view, entries)
else:
    draw_changes(view, entries)
