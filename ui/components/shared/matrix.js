// The matrix behind every map: cells, counted row by row, that are painted, and read with the pointer or
// arrow keys. Colours are pixel values (colours.js), 0 for none.
import { drawDisc } from "./canvas.js";
import { modified, setBox, stepped } from "./cells.js";
import { canvasOfImage, cssOf, imageOf } from "./colours.js";
import { range } from "./numbers.js";
import { make, plain } from "./view.js";

// A matrix on a canvas, with an outline for the cell at the cursor. The view lays out `cells`: starts of
// rows and columns, width and height of a cell, in px.
export function buildMatrix(className = "cells") {
  const matrix = {
    canvas: make("canvas", className, { "aria-hidden": true }),
    cursor: make("div", "cursor", { hidden: "" }),
    cells: { ys: [], xs: [], w: 0, h: 0 },
    under: (event) => cellUnder(event, matrix),
    outline: (at) => outlineCell(matrix.cursor, matrix, at),
  };
  return matrix;
}

// Returns the cell that every one of h x w pixels shows: the covered cell with the highest rank, so that a
// single bright cell never disappears. `rankAt(cell, column)` below 0 hides a cell; a pixel with hidden
// cells only is -1.
function pooled(rows, columns, h, w, rankAt) {
  const shown = new Int32Array(h * w);
  const [down, across] = [blocks(rows, h), blocks(columns, w)];
  for (let y = 0; y < h; y++) {
    const [top, bottom] = down[y];
    if (y && top === down[y - 1][0] && bottom === down[y - 1][1]) {
      shown.copyWithin(y * w, (y - 1) * w, y * w);
      continue;
    }
    for (let x = 0; x < w; x++) {
      const [left, right] = across[x];
      let [best, most] = [-1, -1];
      for (let i = top; i < bottom; i++) {
        for (let j = left; j < right; j++) {
          const rank = rankAt(i * columns + j, j);
          if (rank > most) [best, most] = [i * columns + j, rank];
        }
      }
      shown[y * w + x] = best;
    }
  }
  return shown;
}

// Cell ranges [first, end) of all pixels along one axis.
function blocks(cells, pixels) {
  return range(pixels).map((at) => {
    const first = Math.floor((at * cells) / pixels);
    return [first, Math.max(first + 1, Math.floor(((at + 1) * cells) / pixels))];
  });
}

// A map as an image of h x w pixels. `wordAt(cell)` returns a colour; for `rankAt` see `pooled`.
export function mapImage(rows, columns, h, w, wordAt, rankAt) {
  const cells = pooled(rows, columns, h, w, rankAt);
  return imageOf(h, w, (at) => wordAt(cells[at]));
}

// Draws a map as one image in a box [left, top, width, height], in CSS pixels. Returns true if the map has
// more cells than device pixels.
export function drawMap(pen, rows, columns, box, wordAt, rankAt) {
  const ratio = window.devicePixelRatio || 1;
  const fitting = (cells, side) => Math.min(cells, Math.max(1, Math.floor(side * ratio)));
  const [w, h] = [fitting(columns, box[2]), fitting(rows, box[3])];
  pen.imageSmoothingEnabled = false;
  pen.drawImage(canvasOfImage(mapImage(rows, columns, h, w, wordAt, rankAt)), ...box);
  return h < rows || w < columns;
}

// Draws the cells of a matrix with gaps, or as one image if they are narrower than `smallest` px. With
// `ink`, masked cells (without a colour) get a dot, which distinguishes them from a weight of 0.
// `finish(cell, x, y, colour)` adds to a cell. Returns the same as `drawMap`.
export function drawCells(pen, { ys, xs, w, h = w, wordAt, rankAt, ink, finish, smallest = 12 }) {
  const columns = xs.length;
  const box = [xs[0], ys[0], w * columns, h * ys.length];
  const apart = w >= smallest;
  const shrunk = !apart && drawMap(pen, ys.length, columns, box, wordAt, rankAt);
  if (!apart && !ink) return shrunk;
  const [every, radius] = [Math.max(1, Math.ceil(6 / w)), Math.min(1.4, Math.max(0.5, w / 8))]; // of the dots
  for (let i = 0; i < ys.length; i++) {
    for (let j = 0; j < columns; j++) {
      const word = wordAt(i * columns + j);
      if (!word && !(i % every) && !(j % every)) drawDisc(pen, xs[j] + w / 2, ys[i] + w / 2, radius, ink, 0.25);
      if (!word || !apart) continue;
      const colour = (pen.fillStyle = cssOf(word));
      pen.fillRect(xs[j], ys[i], w - (w > 5), h - (h > 5));
      finish?.(i * columns + j, xs[j], ys[i], colour);
    }
  }
  return shrunk;
}

// Starts of cells of `side` px, with `gap` px after every `group` of them.
export function startsOf(count, side, from = 0, group = count, gap = 0) {
  return range(count).map((at) => from + at * side + Math.floor(at / group) * gap);
}

// Returns the cell of a matrix under the pointer, or null.
export function cellUnder(event, { canvas, cells: { ys, xs, w, h = w } }) {
  const box = canvas.getBoundingClientRect();
  const find = (starts, offset, side) => starts.findIndex((from) => offset >= from && offset < from + side);
  const cell = [find(ys, event.clientY - box.top, h), find(xs, event.clientX - box.left, w)];
  return cell.includes(-1) ? null : cell;
}

// Describes a cell, as `reads` of figures/labels.py: "“weil” reads “it” to predict “es”".
export function reads(row, column) {
  const [reader, predicted] = row.split(" → ");
  return `“${reader}” reads “${column}”${predicted ? ` to predict “${predicted}”` : ""}`;
}

// Describes a cell before its number, or says why it has none.
export function cellName(rows, columns, [row, column], exists = true) {
  if (exists) return `${reads(rows[row], columns[column])}: `;
  return `“${rows[row].split(" → ")[0]}” cannot read “${columns[column]}”, which comes later (masked)`;
}

// Places an element of the canvas's parent around a cell; hides it if there is no such cell.
export function outlineCell(element, { canvas, cells }, at) {
  element.hidden = !at || !(at[0] in cells.ys) || !(at[1] in cells.xs);
  if (element.hidden) return;
  const { ys, xs, w, h = w } = cells;
  const [left, top] = [canvas.style.left, canvas.style.top].map((length) => parseFloat(length) || 0);
  setBox(element, left + xs[at[1]], top + ys[at[0]], w, h);
}

// A cursor over matrices of equal shape, moved by the pointer and, while `stop` has the focus, by the keys
// of `stepped`. `readout` shows `describe(cell)`, a sentence about the cell or, for null, about the map;
// `show(cell)` is called as well. Keys begin at `start()`; `choose(cell)` takes a clicked or entered
// cell. Returns a function that moves the cursor, or without an argument shows it in redrawn matrices.
export function cellCursor(stop, matrices, { readout, describe, show, choose, start = () => [0, 0] }) {
  let at = null;
  const move = (next = at) => {
    at = next;
    for (const { outline } of matrices) outline(at);
    readout.textContent = plain(describe(at));
    show?.(at);
  };
  for (const { canvas, under } of matrices) {
    canvas.onpointermove = canvas.onpointerdown = (event) => {
      const cell = under(event);
      canvas.style.cursor = choose && cell ? "pointer" : "";
      move(cell);
    };
    // A lifted finger leaves as well, but its cell stays described.
    canvas.onpointerleave = ({ pointerType }) => pointerType === "touch" || stop.getRootNode().activeElement === stop || move(null);
    canvas.onclick = (event) => {
      const cell = under(event);
      if (!cell || !choose) return;
      choose(cell);
      move();
    };
  }
  stop.onfocus = () => at ?? move(start());
  stop.onblur = () => move(null);
  stop.onkeydown = (event) => {
    const enters = choose && !modified(event) && [" ", "Enter"].includes(event.key);
    const { ys, xs } = matrices[0].cells;
    const next = stepped(event, at ?? start(), ys.length, xs.length);
    if (enters) choose(at ?? start());
    else if (!next) return;
    event.preventDefault();
    move(next ?? at);
    if (next) matrices.at(-1).cursor.scrollIntoView({ block: "nearest", inline: "nearest" });
  };
  return move;
}
