"""Family: one-stack models, and what changed since 2017."""

from ui.core import url_state
from ui.core.view import View, current_entries
from ui.family import views
from ui.frame.page import Entry, Page


def whole(view: View) -> None:
    """Draw the chosen part."""
    part, entries = url_state.get(views.PART), current_entries()
    if part == "expects":
        views.ExpectsChoice.show()
        views.draw_expects(view, entries)
    elif part == "stacks":
        views.StacksChoice.show()
        views.draw_stacks(view, entries)
    else:
        views.draw_changes(view, entries)


PAGE = Page(
    "family", "Family", ":material/family_history:", whole=whole,
    entries=(
        Entry("Beyond translation", 1, "GPT and BERT", {"part": "expects"}),
        Entry("Beyond translation", 2, "One stack or two", {"part": "stacks"}),
        Entry("Beyond translation", 3, "T5, and what changed", {"part": "changes"}),
    ),
    model="shown",
    choice=(views.PART,),
)  # fmt: skip
