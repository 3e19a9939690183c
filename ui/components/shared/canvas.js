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

// Draws with a style of the pen that ends with the drawing.
export function styled(pen, style, draw) {
  pen.save();
  Object.assign(pen, style);
  draw();
  pen.restore();
}

export function drawDisc(pen, x, y, radius, colour, alpha = 1) {
  pen.globalAlpha = alpha;
  pen.fillStyle = colour;
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.fill();
  pen.globalAlpha = 1;
}

// Hatches boxes [left, top, width, height] of one height with diagonal lines, `every` px apart; `style` sets the pen.
export function hatch(pen, boxes, every, style) {
  pen.save();
  pen.beginPath();
  for (const box of boxes) pen.rect(...box);
  pen.clip();
  pen.beginPath();
  for (const [left, top, width, height] of boxes) {
    for (let x = Math.floor((left - height) / every) * every; x < left + width; x += every) {
      pen.moveTo(x, top + height);
      pen.lineTo(x + height, top);
    }
  }
  Object.assign(pen, style);
  pen.stroke();
  pen.restore();
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
