// Colour tables: 256 joined "rrggbb", as packing.py writes them. Colours are "#rrggbb" or pixel values.
import { make, themeOf } from "./view.js";

// Table entry for a position on the scale, 0 to 1.
export function levelOf(share) {
  return Math.round(255 * Math.min(1, Math.max(0, share)));
}

// Table entry for an attention weight, 0 to 1: a square-root scale (figures/palette.py).
export function weightLevel(weight) {
  return levelOf(Math.sqrt(Math.max(0, weight)));
}

// Table entry for a number from -limit to limit.
export function signedLevel(value, limit) {
  return levelOf((value / (limit || 1) + 1) / 2);
}

export function colourOf(table, level) {
  return `#${table.slice(6 * level, 6 * level + 6)}`;
}

export function cssOf(word) {
  return `#${[0, 8, 16].map((shift) => ((word >> shift) & 255).toString(16).padStart(2, "0")).join("")}`;
}

// A table as 32-bit pixel values (little-endian RGBA).
export function wordsOf(table) {
  return Uint32Array.from({ length: table.length / 6 }, (_, level) => {
    const rgb = parseInt(table.slice(6 * level, 6 * level + 6), 16);
    return (0xff000000 | ((rgb & 255) << 16) | (rgb & 0xff00) | (rgb >> 16)) >>> 0;
  });
}

// An image with one pixel per cell, row by row; `wordAt(cell)` returns its colour, 0 for none.
export function imageOf(rows, columns, wordAt) {
  const image = new ImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  for (let cell = 0; cell < pixels.length; cell++) pixels[cell] = wordAt(cell);
  return image;
}

// Draws an image onto a canvas and returns the canvas.
export function canvasOfImage(image, canvas = make("canvas")) {
  [canvas.width, canvas.height] = [image.width, image.height];
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

// Black or white, whichever has more contrast with a colour, by relative luminance (WCAG 2.2).
export function inkOn(colour) {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const share = parseInt(colour.slice(at, at + 2), 16) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}

// Table entry for a number of a map: a weight, or with a limit above 0 a signed number.
export function cellLevel(value, limit) {
  return limit ? signedLevel(value, limit) : weightLevel(value);
}

// Colours a token by its weight; null removes the colour.
export function lightUp(element, table, weight, limit) {
  const colour = weight === null ? "" : colourOf(table, cellLevel(weight, limit));
  element.style.backgroundColor = colour;
  element.style.color = colour && inkOn(colour);
}

// The colours of queries, keys, values and the residual stream (figures/palette.py), as {q, k, v, residual} and
// as CSS variables of `root`.
export function rolesOf(root, { roles }, theme = themeOf(root)) {
  for (const [role, colour] of Object.entries(roles[theme])) root.style.setProperty(`--${role}`, colour);
  return roles[theme];
}
