// Canvases that are sharp on every screen, and text that fits.
import { make } from "./view.js";

// Resizes a canvas, in CSS pixels, and clears it. Returns: its context, in CSS pixels.
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

// The width of text in a font, by a function that remembers.
export function widthsIn(font) {
  const pen = make("canvas").getContext("2d");
  pen.font = font;
  const known = new Map();
  return (text) => {
    if (!known.has(text)) known.set(text, pen.measureText(text).width);
    return known.get(text);
  };
}

// Text shortened to a width in the pen's font, with an ellipsis.
export function fitted(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  const letters = [...text];
  while (letters.length > 1 && pen.measureText(`${letters.join("")}…`).width > width) letters.pop();
  return `${letters.join("")}…`;
}

// Writes text that leans to the right by an angle and begins, or ends, at (x, y).
export function drawSlanted(pen, text, x, y, angle = Math.PI / 3, align = "left") {
  pen.save();
  pen.translate(x, y);
  pen.rotate(-angle);
  pen.textAlign = align;
  pen.fillText(text, 0, 0);
  pen.restore();
}
