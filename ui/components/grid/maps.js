// The maps of a grid: from bytes to numbers, and from numbers to pixels.
//
// Maps are drawn at device pixels: larger ones shrink by taking the largest weight of every block,
// so that a single bright cell never disappears; smaller ones grow without blur.
import { classHeight, drawScale, mapImage, themeOf, weightLevel, wordsOf } from "../shared/index.js";

// Some browsers leave larger canvases empty.
const MOST_PIXELS = 16e6;

// Draws every map of a pane, unless it already shows these pixels. One canvas lies behind all
// cells: a browser handles each canvas as a separate layer, and hundreds of them slow every frame.
export function drawAll(root, pane) {
  const { sheet, cells, table, canvas } = pane;
  const width = cells[0][0].clientWidth;
  if (!width || !root.querySelector(".probe")) return; // hidden, or not watched yet
  const theme = themeOf(root);
  const { queries, keys } = sheet;
  // Rows stay rows: a map is as tall as its queries, within limits that keep it readable.
  const gap = parseFloat(getComputedStyle(table).rowGap);
  const room = (rem) => (classHeight(table, rem) - gap) / cells.length - gap;
  const own = width * Math.min(1.25, Math.max(0.45, queries / keys));
  const least = Math.min(own, Math.max(0.45 * width, classHeight(table, 0) ? room(2.4) : own)); // above a bar of edits
  const height = Math.round(Math.max(least, Math.min(1.2 * width * Math.min(1, queries / keys), room(7.5)))); // a key, a scale and what is read are below
  table.style.setProperty("--map-height", `${height}px`);
  pane.key.hidden = width <= 40; // as the words
  table.classList.toggle("named", pane.named && width > 40);
  table.classList.toggle("narrow", width < 3.5 * parseFloat(getComputedStyle(table).fontSize));
  const frame = table.getBoundingClientRect();
  const ratio = Math.min(
    window.devicePixelRatio || 1,
    Math.sqrt(MOST_PIXELS / Math.max(1, frame.width * frame.height)),
  );
  // Aligned to device pixels, as the browser aligns the edges of the buttons.
  canvas.style.left = `${Math.round(frame.left * ratio) / ratio - frame.left}px`;
  canvas.style.top = `${Math.round(frame.top * ratio) / ratio - frame.top}px`;
  table.style.setProperty("--drawn-width", `${cells[0][0].getBoundingClientRect().width}px`);
  const places = placesOf(cells, frame, ratio);
  const drawn = JSON.stringify([theme, ratio, places]);
  if (canvas.dataset.drawn === drawn) return;

  const scale = wordsOf(sheet.colours[theme]);
  // Bytes of differences are entries of the scale, those of weights are weights.
  const words = sheet.limit ? scale : scale.map((_, byte) => scale[weightLevel(byte / 255)]);
  const [cover] = wordsOf(sheet.cover[theme]);
  const size = queries * keys;
  const middle = sheet.limit ? 128 : 0; // the byte of no weight, or of no difference
  const rank = Uint8Array.from({ length: 256 }, (_, value) => Math.abs(value - middle));
  const covered = new Set(sheet.dimmed);
  const { columns, rows } = places;
  canvas.width = Math.max(...columns.map(([left, w]) => left + w));
  canvas.height = Math.max(...rows.map(([top, h]) => top + h));
  canvas.style.width = `${canvas.width / ratio}px`;
  canvas.style.height = `${canvas.height / ratio}px`;
  const pen = canvas.getContext("2d");
  rows.forEach(([top, h], row) =>
    columns.forEach(([left, w], column) => {
      const at = (row * columns.length + column) * size;
      const map = sheet.maps.subarray(at, at + size);
      const rankAt = (cell, key) => (covered.has(key) ? -1 : rank[map[cell]]);
      const wordAt = (cell) => (cell < 0 ? cover : words[map[cell]]);
      pen.putImageData(mapImage(queries, keys, h, w, wordAt, rankAt), left, top);
    }),
  );
  canvas.dataset.drawn = drawn;
  drawScale(pane.scale, scale, sheet.reading[theme], sheet.noun);
}

// The places of the maps on the canvas in device pixels: [left, width] of each column and [top, height]
// of each row.
function placesOf(cells, frame, ratio) {
  const snap = (at) => Math.round(at * ratio);
  const spans = (ends, origin) =>
    ends.map(([from, to]) => [snap(from) - snap(origin), Math.max(1, snap(to) - snap(from))]);
  const boxes = (buttons) => buttons.map((button) => button.getBoundingClientRect());
  return {
    columns: spans(boxes(cells[0]).map(({ left, right }) => [left, right]), frame.left),
    rows: spans(boxes(cells.map(([first]) => first)).map(({ top, bottom }) => [top, bottom]), frame.top),
  };
}

// Frees the pixels of a hidden pane.
export function undraw({ canvas }) {
  canvas.width = canvas.height = 0;
  delete canvas.dataset.drawn;
}
