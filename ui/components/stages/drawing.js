// Drawing primitives of the stages. Vectors are strips of cells on the diverging scale; everything
// with one number per key uses the same columns, so that a key stays in place.
import { drawMap, drawSlanted, fitted, plain, sharp, signedLevel, startsOf } from "../shared/index.js";

const LONGEST_LABEL = 92; // px
const WIDEST_COLUMN = 68; // px

// A canvas as wide as the picture. Returns: its context, in CSS pixels.
export function canvasOf(row, at, height) {
  const pen = sharp(row.canvas, at.width, height);
  pen.font = fontOf(at);
  pen.textBaseline = "middle";
  return pen;
}

function fontOf(at, weight = 400) {
  return `${weight} ${at.look.size * 0.93}px ${at.look.font}`;
}

export function put(pen, at, text, x, y, { align = "left", colour = at.look.ink, weight = 400 } = {}) {
  pen.font = fontOf(at, weight);
  pen.textAlign = align;
  pen.fillStyle = colour;
  pen.fillText(plain(text), x, y);
}

// A vector as a line of cells, its name on the left and the ends of its scale on the right.
export function strip(row, pen, at, { name, label, values, y, h, limit }) {
  const w = at.width - at.left - at.right;
  const most = limit ?? largest(values);
  paintCells(pen, at, values, 1, values.length, at.left, y, w, h, most);
  const colour = at.look.roles[label === "x" ? "residual" : label];
  put(pen, at, label, at.left - 8, y + h / 2, { align: "right", ...(colour ? { colour, weight: 600 } : {}) });
  put(pen, at, `±${short(most)}`, at.left + w + 8, y + h / 2);
  addArea(row, name, [at.left, y, w, h], 1, values.length);
}

// Cells in a box [left, top, width, height] that are read with the pointer, and chosen if they are keys.
export function addArea(row, name, [left, top, width, height], rows, columns, isKey = false) {
  const [w, h] = [width / columns, height / rows];
  const cells = { xs: startsOf(columns, w, left), ys: startsOf(rows, h, top), w, h };
  row.areas.push({ name, isKey, cells });
}

// A matrix of cells; a pixel that holds several shows the largest number.
export function paintCells(pen, at, values, rows, columns, x, y, w, h, limit) {
  const wordAt = (cell) => at.look.signed[signedLevel(values[cell], limit)];
  drawMap(pen, rows, columns, [x, y, w, h], wordAt, (cell) => Math.abs(values[cell]));
  pen.strokeStyle = at.look.ink;
  pen.globalAlpha = 0.16;
  pen.lineWidth = 1;
  pen.strokeRect(x - 0.5, y - 0.5, w + 1, h + 1);
  pen.globalAlpha = 1;
}

// The columns of the keys, the same in every stage.
export function columnsOf(at) {
  const column = Math.min(WIDEST_COLUMN, (at.width - at.left - at.right) / at.count);
  return { column, w: column * at.count };
}

function band(pen, at, y, h) {
  const { column } = columnsOf(at);
  pen.globalAlpha = 0.16;
  pen.fillStyle = at.look.accent;
  pen.fillRect(at.left + at.key * column, y, column, h);
  pen.globalAlpha = 1;
}

// The keys' tokens below their columns.
export function labels(pen, at, y) {
  const { column } = columnsOf(at);
  const every = Math.max(1, Math.ceil((at.look.size * 0.95) / column));
  at.header.keys.forEach((token, j) => {
    const chosen = j === at.key;
    if (!chosen && (j % every !== 0 || Math.abs(j - at.key) < every)) return;
    const text = clipped(pen, at, token);
    pen.font = fontOf(at, chosen ? 600 : 400);
    pen.fillStyle = chosen ? at.look.accent : at.look.ink;
    drawSlanted(pen, text, at.left + (j + 0.5) * column + 3, y + 6, Math.PI / 3, "right");
  });
}

export function labelHeight(at) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = fontOf(at, 600);
  const widths = at.header.keys.map((token) => pen.measureText(clipped(pen, at, token)).width);
  return Math.max(...widths) * Math.sin(Math.PI / 3) + at.look.size;
}

function clipped(pen, at, token) {
  pen.font = fontOf(at, 600);
  return fitted(pen, plain(token), LONGEST_LABEL);
}

// One bar for each key in each series, over a common axis from low to high.
export function keyBars(row, at, { series, low, high, ticks, masked, height = 104 }) {
  const h = (height * at.look.size) / 14;
  const top = 8;
  const pen = canvasOf(row, at, top + h + labelHeight(at));
  const { column, w } = columnsOf(at);
  const place = (value) => top + h - ((value - low) / (high - low || 1)) * h;
  band(pen, at, top, h);
  for (const tick of ticks) {
    put(pen, at, short(tick), at.left - 8, place(tick), { align: "right" });
    pen.globalAlpha = tick === 0 ? 0.5 : 0.14;
    pen.fillStyle = at.look.ink;
    pen.fillRect(at.left, place(tick) - 0.5, w, 1);
    pen.globalAlpha = 1;
  }
  const bar = (column * 0.74) / series.filter((each) => !each.ghost).length;
  let solid = 0;
  for (const { values, colour, ghost } of series) {
    const start = column * 0.13 + (ghost ? 0 : bar * solid++);
    const wide = ghost ? column * 0.74 : bar;
    for (let j = 0; j < at.count; j++) {
      if (masked && !at.header.mask[j]) continue;
      const [from, to] = [place(0), place(values[j])];
      const x = at.left + j * column + start;
      if (ghost) {
        pen.globalAlpha = 0.45;
        pen.strokeStyle = at.look.ink;
        pen.setLineDash([2, 2]);
        pen.strokeRect(x + 0.5, Math.min(from, to), Math.max(1, wide - 1), Math.abs(to - from));
        pen.setLineDash([]);
        pen.globalAlpha = 1;
      } else {
        pen.fillStyle = colour(values[j]);
        pen.fillRect(x, Math.min(from, to), Math.max(1, wide), Math.max(1, Math.abs(to - from)));
      }
    }
  }
  if (masked) hatch(pen, at, top, h);
  labels(pen, at, top + h);
  addArea(row, "keys", [at.left, top, w, h], 1, at.count, true);
}

function hatch(pen, at, top, h) {
  const { column } = columnsOf(at);
  pen.save();
  pen.beginPath();
  at.header.mask.forEach((seen, j) => {
    if (!seen) pen.rect(at.left + j * column, top, column, h);
  });
  pen.clip();
  pen.strokeStyle = at.look.ink;
  pen.globalAlpha = 0.3;
  pen.beginPath();
  for (let x = at.left - h; x < at.left + at.count * column; x += 7) {
    pen.moveTo(x, top + h);
    pen.lineTo(x + h, top);
  }
  pen.stroke();
  pen.restore();
}

// An axis that includes 0 and all values.
export function range(values) {
  const low = Math.min(0, ...values);
  const high = Math.max(0, ...values);
  const room = high - low || 1;
  const far = (value) => Math.abs(value) > 0.15 * room;
  return { low, high, ticks: [0, ...[low, high].filter(far)] };
}

export function largest(values) {
  let most = 0;
  for (const value of values) most = Math.max(most, Math.abs(value));
  return most;
}

export function short(value) {
  const size = Math.abs(value);
  if (value === 0) return "0";
  const text = value.toFixed(size >= 100 ? 0 : size >= 9.95 ? 1 : 2).replace("-", "−");
  return text.replace(/(\.\d)0$/, "$1");
}
