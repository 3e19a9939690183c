"""Exhibits as figures for papers and slides: SVG, PNG and PDF at the size of a preset.

A figure is laid out for its width, so that type stays legible; `presets` has the widths and `page`
puts title, parts and caption together. Imports what `figures` may: neither model nor Streamlit.
"""

from figures.paper.files import ENDINGS, save, to_pdf, to_png, to_python, to_svg
from figures.paper.presets import DEFAULT, PRESETS, Preset

__all__ = [
    "DEFAULT",
    "ENDINGS",
    "PRESETS",
    "Preset",
    "save",
    "to_pdf",
    "to_png",
    "to_python",
    "to_svg",
]
