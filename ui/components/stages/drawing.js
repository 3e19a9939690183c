// Drawing primitives of the stages. Vectors are strips of cells on the diverging scale; everything
// with one number per key uses the same columns, so that a key stays in place.
import { drawMap, drawSlanted, fitted, hatch, largest, plain, sharp, signedLevel, startsOf, styled, widestRow, widthsIn } from "../shared/index.js";

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
  Object.assign(pen, { font: fontOf(at, weight), textAlign: align, fillStyle: colour });
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
  const style = { strokeStyle: at.look.ink, globalAlpha: 0.16, lineWidth: 1 };
  styled(pen, style, () => pen.strokeRect(x - 0.5, y - 0.5, w + 1, h + 1));
}

// The columns of the keys, the same in every stage.
export function columnsOf(at) {
  const column = Math.min(WIDEST_COLUMN, (at.width - at.left - at.right) / at.count);
  return { column, w: column * at.count };
}

// Fills a box [left, top, width, height] with a translucent colour.
export function shade(pen, box, fillStyle, globalAlpha) {
  styled(pen, { fillStyle, globalAlpha }, () => pen.fillRect(...box));
}

// The keys' tokens below their columns.
export function labels(pen, at, y) {
  const { column } = columnsOf(at);
  const every = Math.max(1, Math.ceil((at.look.size * 0.95) / column));
  at.header.keys.forEach((token, j) => {
    const chosen = j === at.key;
    if (!chosen && (j % every !== 0 || Math.abs(j - at.key) < every)) return;
    pen.font = fontOf(at, 600);
    const text = fitted(pen, plain(token), LONGEST_LABEL);
    pen.font = fontOf(at, chosen ? 600 : 400);
    pen.fillStyle = chosen ? at.look.accent : at.look.ink;
    drawSlanted(pen, text, at.left + (j + 0.5) * column + 3, y + 6, Math.PI / 3, "right");
  });
}

export function labelHeight(at) {
  const widest = widestRow(at.header.keys, widthsIn(fontOf(at, 600)));
  return Math.min(LONGEST_LABEL, widest) * Math.sin(Math.PI / 3) + at.look.size;
}

// One bar for each key in each series, over a common axis from low to high.
export function keyBars(row, at, { series, low, high, ticks, masked, height = 104 }) {
  const h = (height * at.look.size) / 14;
  const top = 8;
  const pen = canvasOf(row, at, top + h + labelHeight(at));
  const { column, w } = columnsOf(at);
  const place = (value) => top + h - ((value - low) / (high - low || 1)) * h;
  shade(pen, [at.left + at.key * column, top, column, h], at.look.accent, 0.16);
  for (const tick of ticks) {
    put(pen, at, short(tick), at.left - 8, place(tick), { align: "right" });
    shade(pen, [at.left, place(tick) - 0.5, w, 1], at.look.ink, tick === 0 ? 0.5 : 0.14);
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
        styled(pen, { globalAlpha: 0.45, strokeStyle: at.look.ink }, () => {
          pen.setLineDash([2, 2]);
          pen.strokeRect(x + 0.5, Math.min(from, to), Math.max(1, wide - 1), Math.abs(to - from));
        });
      } else {
        pen.fillStyle = colour(values[j]);
        pen.fillRect(x, Math.min(from, to), Math.max(1, wide), Math.max(1, Math.abs(to - from)));
      }
    }
  }
  if (masked) {
    const boxes = at.header.mask.map((seen, j) => !seen && [at.left + j * column, top, column, h]).filter(Boolean);
    hatch(pen, boxes, 7, { strokeStyle: at.look.ink, globalAlpha: 0.3 });
  }
  labels(pen, at, top + h);
  addArea(row, "keys", [at.left, top, w, h], 1, at.count, true);
}

// An axis that includes 0 and all values.
export function range(values) {
  const low = Math.min(0, ...values);
  const high = Math.max(0, ...values);
  const room = high - low || 1;
  const far = (value) => Math.abs(value) > 0.15 * room;
  return { low, high, ticks: [0, ...[low, high].filter(far)] };
}

export function short(value) {
  const size = Math.abs(value);
  if (value === 0) return "0";
  const text = value.toFixed(size >= 100 ? 0 : size >= 9.95 ? 1 : 2).replace("-", "−");
  return text.replace(/(\.\d)0$/, "$1");
}
