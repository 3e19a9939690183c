// Sharp canvases, and text that fits.
import { make } from "./view.js";

// Resizes and clears a canvas. Returns its context. All sizes are CSS pixels.
export function sharp(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  return pen;
}

// Returns a function that measures and caches text widths in a font.
export function widthsIn(font) {
  const pen = make("canvas").getContext("2d");
  pen.font = font;
  const known = new Map();
  return (text) => {
    if (!known.has(text)) known.set(text, pen.measureText(text).width);
    return known.get(text);
  };
}

// Shortens text to a width in the pen's font, with an ellipsis.
export function fitted(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  const letters = [...text];
  while (letters.length > 1 && pen.measureText(`${letters.join("")}…`).width > width) letters.pop();
  return `${letters.join("")}…`;
}

// Writes text that rises to the right at an angle and starts, or ends, at (x, y).
export function drawSlanted(pen, text, x, y, angle = Math.PI / 3, align = "left") {
  pen.save();
  pen.translate(x, y);
  pen.rotate(-angle);
  pen.textAlign = align;
  pen.fillText(text, 0, 0);
  pen.restore();
}
