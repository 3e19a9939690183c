// The matrix that every map is: cells counted row by row, painted, and read with the pointer or the
// arrow keys. Colours are pixel values (colours.js), 0 for none.
import { modified, setBox, stepped } from "./cells.js";
import { canvasOfImage, cssOf, imageOf } from "./colours.js";
import { make, plain } from "./view.js";

// A matrix on a canvas, with an outline for the cell at the cursor. `cells` are laid out by the view:
// where rows and columns begin, and the width and height of a cell, in px.
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

// The cell that each of h x w pixels shows: of those it covers, the one that ranks highest, so that a
// single bright cell never disappears. `rankAt(cell, column)` is below 0 for cells never shown; a
// pixel without any other is -1.
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

// The cells of each pixel along one axis: [its first, the one after its last].
function blocks(cells, pixels) {
  return Array.from({ length: pixels }, (_, at) => {
    const first = Math.floor((at * cells) / pixels);
    return [first, Math.max(first + 1, Math.floor(((at + 1) * cells) / pixels))];
  });
}

// An image of h x w pixels of a map. `wordAt(cell)` is a colour; for `rankAt` see `pooled`.
export function mapImage(rows, columns, h, w, wordAt, rankAt) {
  const cells = pooled(rows, columns, h, w, rankAt);
  return imageOf(h, w, (at) => wordAt(cells[at]));
}

// Draws a map as one image in a box [left, top, width, height], in CSS pixels. Returns: true if it has
// more cells than device pixels.
export function drawMap(pen, rows, columns, box, wordAt, rankAt) {
  const ratio = window.devicePixelRatio || 1;
  const fitting = (cells, side) => Math.min(cells, Math.max(1, Math.floor(side * ratio)));
  const [w, h] = [fitting(columns, box[2]), fitting(rows, box[3])];
  pen.imageSmoothingEnabled = false;
  pen.drawImage(canvasOfImage(mapImage(rows, columns, h, w, wordAt, rankAt)), ...box);
  return h < rows || w < columns;
}

// Draws the cells of a matrix: with a gap between them, or as one image if they are narrower than
// `smallest` px. A cell without a colour is masked: with `ink` it gets a dot, since it is not a weight
// of 0 that the model chose. `finish(cell, x, y, colour)` adds to a cell. Returns: as `drawMap`.
export function drawCells(pen, { ys, xs, w, h = w, wordAt, rankAt, ink, finish, smallest = 12 }) {
  const columns = xs.length;
  const box = [xs[0], ys[0], w * columns, h * ys.length];
  const apart = w >= smallest;
  const shrunk = !apart && drawMap(pen, ys.length, columns, box, wordAt, rankAt);
  if (!apart && !ink) return shrunk;
  const every = Math.max(1, Math.ceil(6 / w)); // of the dots
  for (let i = 0; i < ys.length; i++) {
    for (let j = 0; j < columns; j++) {
      const word = wordAt(i * columns + j);
      if (!word && !(i % every) && !(j % every)) dot(pen, xs[j], ys[i], w, ink);
      if (!word || !apart) continue;
      const colour = (pen.fillStyle = cssOf(word));
      pen.fillRect(xs[j], ys[i], w - (w > 5), h - (h > 5));
      finish?.(i * columns + j, xs[j], ys[i], colour);
    }
  }
  return shrunk;
}

function dot(pen, x, y, side, ink) {
  pen.globalAlpha = 0.25;
  pen.fillStyle = ink;
  pen.beginPath();
  pen.arc(x + side / 2, y + side / 2, Math.min(1.4, Math.max(0.5, side / 8)), 0, 2 * Math.PI);
  pen.fill();
  pen.globalAlpha = 1;
}

// The starts of cells of `side` px, with a gap of `gap` px after every `group` of them.
export function startsOf(count, side, from = 0, group = count, gap = 0) {
  return Array.from({ length: count }, (_, at) => from + at * side + Math.floor(at / group) * gap);
}

// The cell of a matrix under the pointer, null for none.
export function cellUnder(event, { canvas, cells: { ys, xs, w, h = w } }) {
  const box = canvas.getBoundingClientRect();
  const find = (starts, offset, side) => starts.findIndex((from) => offset >= from && offset < from + side);
  const cell = [find(ys, event.clientY - box.top, h), find(xs, event.clientX - box.left, w)];
  return cell.includes(-1) ? null : cell;
}

// The place of a cell in words: "query 2 b, key 1 a: ", or with why it has no weight.
export function cellName(rows, columns, [row, column], exists = true) {
  const place = `query ${row + 1} ${rows[row]}, key ${column + 1} ${columns[column]}: `;
  return exists ? place : `${place}masked, this key comes later than the query`;
}

// Puts an element beside the canvas around one of its cells; hides it if there is no such cell.
export function outlineCell(element, { canvas, cells }, at) {
  element.hidden = !at || !(at[0] in cells.ys) || !(at[1] in cells.xs);
  if (element.hidden) return;
  const { ys, xs, w, h = w } = cells;
  const [left, top] = [canvas.style.left, canvas.style.top].map((each) => parseFloat(each) || 0);
  setBox(element, left + xs[at[1]], top + ys[at[0]], w, h);
}

// A cursor that the pointer moves over matrices of equal shape, and the keys of `stepped` while `stop`
// has the focus. `readout` shows `describe(cell)`, a sentence about the cell or, for null, about the
// map; `show(cell)`, if any, follows too. `start()` is where the keys begin, and `choose(cell)`, if any,
// takes a cell that is clicked or entered. Returns: a function that moves the cursor to a cell, or
// shows it again in matrices that were drawn again.
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
    // A finger that is lifted leaves, too: what it touched stays read.
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
