// Colour tables: 256 colours as "rrggbb" in a row, as packing.py writes them.
import { make } from "./view.js";

// The entry of a table for a share of its scale, 0 to 1.
export function levelOf(share) {
  return Math.round(255 * Math.min(1, Math.max(0, share)));
}

// The entry for an attention weight, 0 to 1: the scale is even in its square root (figures/palette.py).
export function weightLevel(weight) {
  return levelOf(Math.sqrt(Math.max(0, weight)));
}

// The entry for a number on a scale from -limit to limit.
export function signedLevel(value, limit) {
  return levelOf((value / (limit || 1) + 1) / 2);
}

// An entry as "#rrggbb".
export function colourOf(table, level) {
  return `#${table.slice(6 * level, 6 * level + 6)}`;
}

// A pixel value as "#rrggbb".
export function cssOf(word) {
  return `#${[0, 8, 16].map((shift) => ((word >> shift) & 255).toString(16).padStart(2, "0")).join("")}`;
}

// A table as 32-bit pixel values: little-endian RGBA.
export function wordsOf(table) {
  return Uint32Array.from({ length: table.length / 6 }, (_, level) => {
    const rgb = parseInt(table.slice(6 * level, 6 * level + 6), 16);
    return (0xff000000 | ((rgb & 255) << 16) | (rgb & 0xff00) | (rgb >> 16)) >>> 0;
  });
}

// An image of one pixel per cell, row by row; `wordAt(cell)` is the colour, 0 for none.
export function imageOf(rows, columns, wordAt) {
  const image = new ImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  for (let cell = 0; cell < pixels.length; cell++) pixels[cell] = wordAt(cell);
  return image;
}

// Makes a canvas an image. Returns: the canvas.
export function canvasOfImage(image, canvas = make("canvas")) {
  [canvas.width, canvas.height] = [image.width, image.height];
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

// Black or white, whichever reads better on a colour "#rrggbb": by relative luminance (WCAG 2.2).
export function inkOn(colour) {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const share = parseInt(colour.slice(at, at + 2), 16) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}

// Lights a token by its weight, in the colours of a table; null takes the light away.
export function lightUp(element, table, weight) {
  const colour = weight === null ? "" : colourOf(table, weightLevel(weight));
  element.style.backgroundColor = colour;
  element.style.color = colour && inkOn(colour);
}
