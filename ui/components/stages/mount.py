"""The stages of a head, mounted in a page."""

from __future__ import annotations

from collections.abc import Callable

from transformer.trace.records import HeadStages
from ui.components.mount import component, listener, message
from ui.components.stages import Chosen, choice, content, parse_choice

_component = component("stages")


def head_stages(
    stages: HeadStages,
    *,
    names: tuple[str, str],
    difference: float,
    chosen: Chosen,
    on_choose: Callable[[Chosen], None],
    key: str,
    group: str = "",
) -> None:
    """Show the stages.

    Args:
        names: as in `content`.
        difference: largest difference of the weights from the trace's, shown below the stages.
        on_choose: called with a new choice before the script runs again.
        group: views of one group stand side by side, stage by stage, with less text.
    """
    header, body = content(stages, names, difference)
    if group:
        header["group"] = group
    n_keys = len(stages.key_tokens)
    _component(
        key=key,
        data=message(key, header, body, choice(chosen)),
        on_held_change=listener(key, lambda said: parse_choice(said, n_keys), on_choose),
    )
