"""The pixels of a canvas."""

from __future__ import annotations

import base64
import time

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import ElementHandle, Locator

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
    width, height, data = canvas.evaluate(_READ)
    found = np.frombuffer(base64.b64decode(data), dtype=np.uint8)
    return found.reshape(height, width, 4)[..., :3]


def painted_pixels(canvas: Locator, seconds: float = 60) -> NDArray[np.uint8]:
    """The same, once it is painted; the canvas may be made anew meanwhile."""
    deadline = time.monotonic() + seconds
    while not (found := pixels(canvas)).any() and time.monotonic() < deadline:
        canvas.page.wait_for_timeout(100)
    return found
