"""Pixels of a canvas, and of a map in the grid of all heads."""

import base64
import json

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import ElementHandle, Locator, Page

from figures.palette import Theme, attention_table, to_weight_bytes, weight_levels
from tests.browser.waiting import until_passes
from transformer.types import Floats

#: Bytes travel as a text: a list of numbers takes seconds for a large canvas.
_READ = """canvas => {
    const { width, height } = canvas;
    const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
    let text = "";
    for (let at = 0; at < data.length; at += 32768) {
        text += String.fromCharCode(...data.subarray(at, at + 32768));
    }
    return [width, height, btoa(text)];
}"""


def pixels(canvas: Locator | ElementHandle) -> NDArray[np.uint8]:
    """Return a canvas's RGB pixels, [height, width, 3]."""
    return _numbers(*canvas.evaluate(_READ))


def _numbers(width: int, height: int, data: str) -> NDArray[np.uint8]:
    found = np.frombuffer(base64.b64decode(data), dtype=np.uint8)
    return found.reshape(height, width, 4)[..., :3]


def grid_map(page: Page, row: int, column: int) -> NDArray[np.uint8]:
    """Return the RGB pixels of a grid cell, [height, width, 3]."""
    canvas = page.locator("canvas.maps")
    drawn, *picture = canvas.evaluate(f"canvas => [canvas.dataset.drawn, ...({_READ})(canvas)]")
    assert drawn, "the grid is not drawn"
    _, _, places = json.loads(drawn)
    (left, width), (top, height) = places["columns"][column], places["rows"][row]
    return _numbers(*picture)[top : top + height, left : left + width]


def until_the_grid_shows(
    page: Page, row: int, column: int, weights: Floats | NDArray[np.uint8], theme: Theme = "light"
) -> None:
    sent = weights if weights.dtype == np.uint8 else to_weight_bytes(weights)

    def check() -> None:
        drawn = grid_map(page, row, column)
        wanted = attention_table(theme)[weight_levels(as_drawn(sent, drawn.shape) / 255)]
        np.testing.assert_array_equal(drawn, wanted)

    until_passes(page, check)


def until_the_lens_shows(page: Page, weights: Floats, theme: Theme, atol: int) -> None:
    n, m = weights.shape
    wanted = attention_table(theme)[weight_levels(weights)].astype(int)

    def check() -> None:
        large = pixels(page.locator("canvas.cells"))
        rows = ((np.arange(n) + 0.5) * large.shape[0] / n).astype(int)
        columns = ((np.arange(m) + 0.2) * large.shape[1] / m).astype(int)  # beside a number
        drawn = large[np.ix_(rows, columns)].astype(int)
        np.testing.assert_allclose(drawn, wanted, atol=atol)

    until_passes(page, check)


def as_drawn(weights: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return a map's bytes in a picture of `shape` pixels; shared pixels show the maximum."""
    for axis, n_pixels in enumerate(shape[:2]):
        n = weights.shape[axis]
        first = np.arange(n_pixels) * n // n_pixels
        if n_pixels < n:
            weights = np.maximum.reduceat(weights, first, axis=axis)
        else:
            weights = weights.take(first, axis=axis)
    return weights
