"""The pixels of a canvas, and those of one map in the grid of all layers and heads."""

from __future__ import annotations

import base64
import json
import time

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import ElementHandle, Locator, Page

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
    """What a canvas holds, red, green and blue. Returns: [height, width, 3]."""
    return _numbers(*canvas.evaluate(_READ))


def _numbers(width: int, height: int, data: str) -> NDArray[np.uint8]:
    found = np.frombuffer(base64.b64decode(data), dtype=np.uint8)
    return found.reshape(height, width, 4)[..., :3]


def painted_pixels(canvas: Locator, seconds: float = 60) -> NDArray[np.uint8]:
    """The same, once it is painted; the canvas may be made anew meanwhile."""
    deadline = time.monotonic() + seconds
    while not (found := pixels(canvas)).any() and time.monotonic() < deadline:
        canvas.page.wait_for_timeout(100)
    return found


def grid_map(page: Page, row: int, column: int, seconds: float = 60) -> NDArray[np.uint8]:
    """What a cell of the grid shows, once the grid is drawn. Returns: [height, width, 3]."""
    canvas = page.locator("canvas.maps")
    read = f"canvas => [canvas.dataset.drawn, ...({_READ})(canvas)]"
    deadline = time.monotonic() + seconds
    drawn = None
    while drawn is None and time.monotonic() < deadline:
        page.wait_for_timeout(100)
        if canvas.evaluate("canvas => canvas.dataset.drawn"):
            drawn, *picture = canvas.evaluate(read)
    assert drawn is not None, "the grid was not drawn"
    _, _, places = json.loads(drawn)
    (left, width), (top, height) = places["columns"][column], places["rows"][row]
    return _numbers(*picture)[top : top + height, left : left + width]


def as_drawn(weights: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """The bytes that stand for a map in a picture of `shape` pixels: where several share a pixel,
    their largest; where one has several, that one."""
    for axis, n_pixels in enumerate(shape[:2]):
        n = weights.shape[axis]
        first = np.arange(n_pixels) * n // n_pixels
        if n_pixels < n:
            weights = np.maximum.reduceat(weights, first, axis=axis)
        else:
            weights = weights.take(first, axis=axis)
    return weights
