"""The download of the Attention page."""

from __future__ import annotations

from ui.attention.exhibits import attention_exhibit, stem
from ui.attention.maps import AttentionChoice, Maps
from ui.core.view import View
from ui.export.download import download_button, source_of, trace_for


def offer(view: View, choice: AttentionChoice, maps: Maps) -> None:
    """Draw the download button for the current display; no button if no head is chosen."""
    n_layers, n_heads, n, m = maps.weights.shape
    count = {"grid": n_layers * n_heads, "heads": len(choice.heads), "matrix": 1}[choice.display]
    if count:
        download_button(
            lambda: attention_exhibit(trace_for(view), choice, source_of(view)),
            key="attention", name=stem(choice, maps), n_numbers=count * n * m,
        )  # fmt: skip
