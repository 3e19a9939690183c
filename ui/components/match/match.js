// How alike each head of one model (rows) is to each head of another (columns).
//
// Input: one message of ui/components/packing.py. The header holds names, the marked pairs and the
// colours, the body the similarities as float32, row by row. Text only ever becomes textContent. The
// chosen pair is sent to Python as [row, column], 0-based (see shared/held.js).

const GAP = 4; // px after each layer
const LARGEST = 26;
const TALLEST = 400; // px that the rows take together, where that leaves cells one can hit
const SMALLEST = 9;

export default function (component) {
  const { data, parentElement } = component;
  const root = parentElement.querySelector(".match");
  if (!root || !data?.byteLength) return undefined;
  root.unwatch?.();
  const { header, body } = unpack(data);
  const table = { ...header, values: new Float32Array(body.slice().buffer) };
  table.partner = new Map(table.pairs.map(([row, column]) => [row, column]));
  const talk = agree(component, table);
  const parts = build(root, table);
  let cursor = null;
  let cell = 0;

  const show = () => {
    mark(parts.chosen, table, cell, talk.held);
    mark(parts.cursor, table, cell, cursor);
    parts.readout.textContent = told(table, cursor ?? talk.held, Boolean(cursor));
  };
  const choose = (at) => {
    talk.tell(at);
    show();
  };
  const under = (event) => {
    const box = parts.canvas.getBoundingClientRect();
    const row = indexAt(event.clientY - box.top, cell, table.heads[0], table.rows.length);
    const column = indexAt(event.clientX - box.left, cell, table.heads[1], table.columns.length);
    return row === null || column === null ? null : [row, column];
  };
  parts.canvas.onpointermove = (event) => {
    cursor = under(event);
    show();
  };
  parts.canvas.onpointerleave = () => {
    cursor = null;
    show();
  };
  parts.canvas.onclick = (event) => {
    const at = under(event);
    if (at) choose(at);
  };
  parts.plot.onblur = parts.canvas.onpointerleave;
  parts.plot.onkeydown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const from = cursor ?? (inside(table, talk.held) ? talk.held : [0, 0]);
    const next = stepped(event, from, table.rows.length, table.columns.length);
    if (event.key === "Enter" || event.key === " ") choose(from);
    else if (next) {
      cursor = next;
      show();
    } else return;
    event.preventDefault();
  };
  return watch(root, () => {
    cell = layOut(root, table, parts);
    if (!cell) return;
    paint(root, table, parts, cell);
    show();
  });
}

function build(root, table) {
  const parts = {
    plot: make("div", "plot"),
    rowTitle: make("div", "row-title", table.names[0]),
    columnTitle: make("div", "column-title", table.names[1]),
    canvas: make("canvas", "cells"),
    chosen: make("div", "cursor chosen"),
    cursor: make("div", "cursor"),
    readout: make("p", "readout"),
    rows: layers(table.rows, table.heads[0], "row-label"),
    columns: layers(table.columns, table.heads[1], "column-label"),
    scale: buildScale(
      ...table.ends.map((end) => end.toFixed(2)),
      make("span", "unit", "similarity"), make("span", "dot", ""), make("span", "unit", "matched"),
    ),
  };
  parts.plot.tabIndex = 0;
  parts.plot.setAttribute("role", "group");
  parts.plot.setAttribute("aria-label", table.label);
  parts.canvas.setAttribute("aria-hidden", "true");
  parts.readout.setAttribute("role", "status");
  parts.plot.append(parts.rowTitle, parts.columnTitle, ...parts.rows, ...parts.columns);
  parts.plot.append(parts.canvas, parts.chosen, parts.cursor);
  root.replaceChildren(parts.plot, parts.readout, parts.scale);
  return parts;
}

// One label per layer.
function layers(names, heads, className) {
  return names.filter((_, at) => at % heads === 0).map((name) => make("span", className, name.split(".")[0]));
}

function start(at, cell, heads) {
  return at * cell + Math.floor(at / heads) * GAP;
}

function indexAt(offset, cell, heads, count) {
  for (let at = 0; at < count; at++) {
    const from = start(at, cell, heads);
    if (offset >= from && offset < from + cell) return at;
  }
  return null;
}

function inside(table, at) {
  return at[0] >= 0 && at[0] < table.rows.length && at[1] >= 0 && at[1] < table.columns.length;
}

// Lays everything out. Returns: the side of a cell in px, 0 while hidden.
function layOut(root, table, parts) {
  const width = root.clientWidth;
  if (!width) return 0;
  const [left, top] = [44, 44];
  const gaps = GAP * (table.columns.length / table.heads[1] - 1);
  const fitting = (width - left - gaps - 2) / table.columns.length;
  const side = Math.min(LARGEST, fitting, Math.max(SMALLEST, TALLEST / table.rows.length));
  const cell = side > 4 ? Math.floor(side) : Math.max(1, side);
  const w = start(table.columns.length - 1, cell, table.heads[1]) + cell;
  const h = start(table.rows.length - 1, cell, table.heads[0]) + cell;
  setBox(parts.canvas, left, top, w, h);
  parts.plot.style.height = `${top + h}px`;
  setBox(parts.columnTitle, left, 0, Math.max(60, width - left));
  setBox(parts.rowTitle, 0, top, undefined, Math.max(60, h));
  parts.columns.forEach((label, i) => {
    setBox(label, left + start(i * table.heads[1], cell, table.heads[1]), 22, cell * table.heads[1]);
  });
  parts.rows.forEach((label, i) => {
    setBox(label, 20, top + start(i * table.heads[0], cell, table.heads[0]), 18, cell * table.heads[0]);
  });
  parts.left = left;
  parts.top = top;
  for (const each of [parts.chosen, parts.cursor]) Object.assign(each, { left, top });
  return cell;
}

function mark(element, table, cell, at) {
  element.hidden = !at || !inside(table, at) || !cell;
  if (element.hidden) return;
  const x = element.left + start(at[1], cell, table.heads[1]);
  setBox(element, x, element.top + start(at[0], cell, table.heads[0]), cell, cell);
}

function paint(root, table, parts, cell) {
  const colours = table.colours[themeOf(root)];
  const columns = table.columns.length;
  const { style } = parts.canvas;
  const pen = sharp(parts.canvas, parseFloat(style.width), parseFloat(style.height));
  const room = cell > 5 ? 1 : 0;
  const colour = (value) => {
    const [low, high] = table.ends;
    return colourOf(colours, levelOf((value - low) / (high - low)));
  };
  table.rows.forEach((_, row) => {
    for (let column = 0; column < columns; column++) {
      const x = start(column, cell, table.heads[1]);
      const y = start(row, cell, table.heads[0]);
      pen.fillStyle = colour(table.values[row * columns + column]);
      pen.fillRect(x, y, cell - room, cell - room);
      if (table.partner.get(row) !== column) continue;
      pen.fillStyle = inkOn(pen.fillStyle);
      pen.beginPath();
      pen.arc(x + (cell - room) / 2, y + (cell - room) / 2, Math.max(1, cell / 6), 0, 2 * Math.PI);
      pen.fill();
    }
  });
  drawScale(parts.scale, wordsOf(colours));
}

function told(table, at, pointed) {
  if (!at || !inside(table, at)) return "Choose a cell to see the two heads side by side.";
  const [row, column] = at;
  const value = table.values[row * table.columns.length + column].toFixed(3);
  const matched = table.partner.get(row) === column ? ", matched" : "";
  const lead = pointed ? "" : "Shown: ";
  return plain(
    `${lead}${table.names[0]} ${table.rows[row]} and ${table.names[1]} ${table.columns[column]}: ` +
      `similarity ${value}${matched}`,
  );
}
