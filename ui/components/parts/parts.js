// A matrix as a sum of others: the parts as small maps, their sum as a large one with labels. The body
// holds the maps as float32 [map][query][key] and the mask as bytes [query][key].
import { buildMatrix, cellCursor, cellName, drawCells, drawColumnNames, drawRowNames, extend, floatsOf,
  fourDigits, make, rowColumns, rowOf, rowsInWords, sharp, shown, signedLevel, spokenList, startsOf, styled, themed, touching, watch,
  widestRow, widthsIn, wordsOf } from "../shared/index.js";

const LARGEST_SUM_CELL = 34; // px
const LONGEST_TOKEN = 96; // px
const LONGEST_ROW = 170; // px

function component({ root, header, body }) {
  const n = header.tokens.length;
  const numbers = floatsOf(body);
  const mask = body.subarray(4 * n * n * header.names.length);
  const view = { header, mask, values: header.names.map((_, i) => rowOf(numbers, i, n * n)) };
  const [maps, readout] = build(root, header);
  const seen = (at) => (mask[at] ? view.values.at(-1)[at] : null);
  const lines = rowsInWords(header.rows, header.tokens, (i, j) => seen(i * n + j), fourDigits);
  root.append(spokenList(header.names.at(-1), lines).element);
  const describe = (at) => described(view, at);
  const refresh = cellCursor(root, maps, { readout, describe });
  return watch(root, () => {
    view.look = themed(root);
    const sizes = layOut(root, view);
    maps.forEach((map, i) => paint(view, map, view.values[i], sizes));
    refresh();
  });
}

// The maps as matrices, the last one large, and the line below them.
function build(root, { names, label }) {
  const places = [make("div", "small"), make("div", "large")];
  const maps = names.map((name, i) => {
    const isSum = i === names.length - 1;
    const matrix = buildMatrix("");
    places[Number(isSum)].append(make("figure", isSum ? "map sum" : "map",
      make("figcaption", "", `${isSum ? "= " : i ? "+ " : ""}${name}`),
      make("div", "frame", matrix.canvas, matrix.cursor)));
    return Object.assign(matrix, { isSum });
  });
  const readout = make("p", "readout", { role: "status" });
  extend(root, { tabindex: 0, role: "group", "aria-label": label });
  root.replaceChildren(make("div", "both", places), readout);
  return [maps, readout];
}

// Cells of the small maps and of the sum, and the room for the sum's labels, in px.
function layOut(root, view) {
  const { tokens } = view.header;
  const wide = widthsIn(`${view.look.size}px ${view.look.font}`);
  const label = Math.min(LONGEST_TOKEN, widestRow(tokens, wide)) + 8;
  const columns = rowColumns(view.header.rows, wide, LONGEST_ROW);
  const width = root.clientWidth;
  const narrow = width < 640;
  const smallSide = narrow ? (width - 24) / 2 : Math.min(200, width * 0.24);
  const gaps = 4 * view.look.size + 4;
  const largeSide = (narrow ? width : width - 2 * smallSide - gaps) - columns.width - 8 - 0.5 * label;
  const whole = (side, most) => {
    const cell = Math.min(most, Math.max(24, side) / tokens.length);
    return cell > 6 ? Math.floor(cell) : cell;
  };
  return { small: whole(smallSide, 24), large: whole(largeSide, LARGEST_SUM_CELL), label, columns };
}

function paint(view, map, values, sizes) {
  const { header, look } = view;
  const n = header.tokens.length;
  const side = map.isSum ? sizes.large : sizes.small;
  const left = map.isSum ? sizes.columns.width + 8 : 1;
  const top = map.isSum ? sizes.label * 0.87 + look.size * 0.5 : 1;
  const lean = map.isSum ? sizes.label * 0.5 : 0; // the last column's label leans out
  map.cells = { ys: startsOf(n, side, top), xs: startsOf(n, side, left), w: side };
  const pen = sharp(map.canvas, left + side * n + 2 + lean, top + side * n + 2);
  const words = wordsOf(header.signed[look.theme]);
  const wordAt = (at) => (view.mask[at] ? words[signedLevel(values[at], header.limit)] : 0);
  drawCells(pen, { ...map.cells, ink: look.ink, wordAt, rankAt: (at) => Math.abs(values[at]) });
  styled(pen, { globalAlpha: 0.2, strokeStyle: look.ink }, () =>
    pen.strokeRect(left - 0.5, top - 0.5, side * n + 1, side * n + 1));
  if (map.isSum) labels(pen, view, map.cells, sizes.columns);
}

function labels(pen, view, cells, named) {
  const { tokens, rows } = view.header;
  const size = Math.min(view.look.size, Math.max(12, cells.w * 0.9));
  Object.assign(pen, { font: `${size}px ${view.look.font}`, fillStyle: view.look.ink, textBaseline: "middle" });
  drawRowNames(pen, { ...cells, h: cells.w }, rows, { named, size: 1.05 * size });
  drawColumnNames(pen, cells, tokens, { longest: LONGEST_TOKEN, size: 1.05 * size });
}

// The sum at the hovered cell, written out.
function described({ header, values: maps, mask }, at) {
  if (!at) {
    return `One scale for all maps, from −${fourDigits(header.limit)} (blue) to ` +
      `${fourDigits(header.limit)} (orange). ${touching() ? "Tap" : "Point at"} a cell to see its sum.`;
  }
  const [i, j] = at;
  const n = header.tokens.length;
  const seen = Boolean(mask[i * n + j]);
  const name = cellName(header.rows, header.tokens, at, seen);
  if (!seen) return name;
  const values = maps.map((map) => map[i * n + j]);
  const total = values.pop();
  const terms = values.map((value, p) => `${fourDigits(value)} (${header.names[p]})`);
  return `${name}${terms.join(" + ")} = ${fourDigits(total)}`;
}

export default (host) => shown(host, "parts", component);
