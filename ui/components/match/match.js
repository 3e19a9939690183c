// Similarity of one model's heads (rows) and another's (columns). The body holds similarities as float32,
// row by row; the choice is a pair [row, column], 0-based.
import { buildMatrix, buildScale, cellCursor, drawCells, drawDisc, drawScale, floatsOf, inkOn, levelOf, make,
  outlineCell, rowsInWords, setBox, sharp, shown, spokenList, startsOf, syncChoice, themeOf, watch, wordsOf } from
  "../shared/index.js";

const GAP = 4; // px after each layer
const LARGEST = 26;
const TALLEST = 400; // px of all rows together, if cells do not become too small
const SMALLEST = 9;

function component({ root, header, body }, host) {
  const table = { ...header, values: floatsOf(body), partner: new Map(header.pairs) };
  const choice = syncChoice(host, table);
  const parts = build(root, table);
  const refresh = cellCursor(parts.plot, [parts], {
    readout: parts.readout,
    describe: (at) => described(table, at ?? choice.value, Boolean(at)),
    show: () => outlineCell(parts.chosen, parts, choice.value),
    choose: choice.set,
    start: () => (inside(table, choice.value) ? choice.value : [0, 0]),
  });
  return watch(root, () => {
    layOut(root, table, parts);
    paint(root, table, parts);
    refresh();
  });
}

function build(root, table) {
  const parts = Object.assign(buildMatrix(), {
    rowTitle: make("div", "row-title", table.names[0]),
    columnTitle: make("div", "column-title", table.names[1]),
    chosen: make("div", "cursor chosen"),
    readout: make("p", "readout", { role: "status" }),
    rows: layers(table.rows, table.heads[0], "row-label"),
    columns: layers(table.columns, table.heads[1], "column-label"),
    scale: buildScale(
      ...table.ends.map((end) => end.toFixed(2)),
      make("span", "unit", "similarity"), make("span", "dot"), make("span", "unit", "matched"),
    ),
  });
  const { rowTitle, columnTitle, canvas, chosen, cursor } = parts;
  parts.plot = make("div", "plot", { tabindex: 0, role: "group", "aria-label": table.label },
    rowTitle, columnTitle, parts.rows, parts.columns, canvas, chosen, cursor);
  const valueAt = (row, column) => table.values[row * table.columns.length + column];
  const spoken = spokenList("Most similar heads",
    rowsInWords(table.rows, table.columns, valueAt, (value) => value.toFixed(2)));
  root.replaceChildren(parts.plot, parts.readout, parts.scale, spoken.element);
  return parts;
}

function layers(names, heads, className) {
  return names.filter((_, at) => at % heads === 0).map((name) => make("span", className, name.split(".")[0]));
}

function inside(table, at) {
  return at[0] >= 0 && at[0] < table.rows.length && at[1] >= 0 && at[1] < table.columns.length;
}

function layOut(root, table, parts) {
  const width = root.clientWidth;
  const [left, top] = [44, 44];
  const [tall, wide] = table.heads;
  const fitting = (width - left - GAP * (parts.columns.length - 1) - 2) / table.columns.length;
  const most = Math.min(LARGEST, fitting, Math.max(SMALLEST, TALLEST / table.rows.length));
  const side = most > 4 ? Math.floor(most) : Math.max(1, most);
  const ys = startsOf(table.rows.length, side, 0, tall, GAP);
  const xs = startsOf(table.columns.length, side, 0, wide, GAP);
  const [w, h] = [xs.at(-1) + side, ys.at(-1) + side];
  parts.cells = { ys, xs, w: side };
  setBox(parts.canvas, left, top, w, h);
  parts.plot.style.height = `${top + h}px`;
  setBox(parts.columnTitle, left, 0, Math.max(60, width - left));
  setBox(parts.rowTitle, 0, top, undefined, Math.max(60, h));
  parts.columns.forEach((label, i) => setBox(label, left + xs[i * wide], 22, side * wide));
  parts.rows.forEach((label, i) => setBox(label, 20, top + ys[i * tall], 18, side * tall));
}

function paint(root, table, parts) {
  const words = wordsOf(table.colours[themeOf(root)]);
  const { ys, xs, w: side } = parts.cells;
  const [low, high] = table.ends;
  const pen = sharp(parts.canvas, xs.at(-1) + side, ys.at(-1) + side);
  drawCells(pen, {
    ...parts.cells, smallest: 0,
    wordAt: (at) => words[levelOf((table.values[at] - low) / (high - low))],
    finish(at, x, y, colour) {
      if (table.partner.get(Math.floor(at / xs.length)) !== at % xs.length) return;
      const middle = (side - (side > 5)) / 2;
      drawDisc(pen, x + middle, y + middle, Math.max(1, side / 6), inkOn(colour));
    },
  });
  drawScale(parts.scale, words);
}

function described(table, at, pointed) {
  if (!at || !inside(table, at)) return "Choose a cell to see the two heads side by side.";
  const [row, column] = at;
  const value = table.values[row * table.columns.length + column].toFixed(3);
  const matched = table.partner.get(row) === column ? ", matched" : "";
  const lead = pointed ? "" : "Shown: ";
  return `${lead}${table.names[0]} ${table.rows[row]} and ${table.names[1]} ${table.columns[column]}: ` +
    `similarity ${value}${matched}`;
}

export default (host) => shown(host, "match", component);
