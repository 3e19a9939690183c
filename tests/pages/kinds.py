"""Kinds of attention on a page: Streamlit's control, or the tabs of the grid."""

from __future__ import annotations

import json
from typing import Any

from streamlit.testing.v1 import AppTest


def grid_header(app: AppTest) -> dict[str, Any]:
    """Return the header of the page's grid, without its maps."""
    (data,) = [
        each.proto.bytes
        for each in app.get("bidi_component")
        if each.proto.component_name == "headlight.grid"
    ]
    header: dict[str, Any] = json.loads(data[4 : 4 + int.from_bytes(data[:4], "little")])
    return header


def offered_kinds(app: AppTest) -> list[str]:
    """Return the names of the kinds on screen."""
    controls = [each for each in app.get("button_group") if each.key == "kind_widget"]
    if controls:
        (control,) = controls
        assert control.value is not None
        return list(control.options)
    header = grid_header(app)
    assert header["choice"][3] in [name for name, *_ in header["kinds"]]
    return [title for _, title, *_ in header["kinds"]]
