"""The download of the page "Inside a head"."""

from __future__ import annotations

from figures.exhibit import Exhibit
from figures.head import head_name
from ui.components.stages import Chosen
from ui.core.view import View
from ui.export.download import download_button, source_of, trace_for
from ui.head.exhibits import HeadChoice, head_figure, stages_of
from ui.work.results import Computation, result_of


def offer(view: View, place: HeadChoice, chosen: Chosen) -> None:
    """Draw the stages' download button."""
    download_button(
        lambda: make_figure(view, place, chosen), key="head",
        name=head_name(place.kind, place.layer, place.head, place.query),
    )  # fmt: skip


def make_figure(view: View, place: HeadChoice, chosen: Chosen) -> Exhibit:
    """Return a view's figure; needs no session."""
    stages = result_of(view.request, Computation("head", place, stages_of(place)))
    return head_figure(stages, trace_for(view), chosen, source_of(view))
