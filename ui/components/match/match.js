// How alike each head of one model (rows) is to each head of another (columns).
//
// Input: one message of ui/components/packing.py. The header holds names, the marked pairs and the
// colours, the body the similarities as float32, row by row. Text only ever becomes textContent. The
// chosen pair goes back to Python as [row, column], 0-based (see held.py).

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
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const by = step[event.key];
    const from = cursor ?? (inside(table, talk.held) ? talk.held : [0, 0]);
    if (event.key === "Enter" || event.key === " ") choose(from);
    else if (by) {
      const clip = (value, length) => Math.min(length - 1, Math.max(0, value));
      cursor = [clip(from[0] + by[0], table.rows.length), clip(from[1] + by[1], table.columns.length)];
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
    chosen: make("div", "mark chosen"),
    cursor: make("div", "mark cursor"),
    readout: make("p", "readout"),
    rows: layers(table.rows, table.heads[0], "row-label"),
    columns: layers(table.columns, table.heads[1], "column-label"),
    scale: make("div", "scale"),
  };
  parts.plot.tabIndex = 0;
  parts.plot.setAttribute("role", "group");
  parts.plot.setAttribute("aria-label", table.label);
  parts.canvas.setAttribute("aria-hidden", "true");
  parts.readout.setAttribute("role", "status");
  parts.scale.setAttribute("aria-hidden", "true");
  const [low, high] = table.ends.map((end) => make("span", "", end.toFixed(2)));
  parts.scale.append(low, make("canvas", "bar"), high);
  parts.scale.append(make("span", "unit", "similarity"), make("span", "dot", ""));
  parts.scale.append(make("span", "unit", "matched"));
  parts.plot.append(parts.rowTitle, parts.columnTitle, ...parts.rows, ...parts.columns);
  parts.plot.append(parts.canvas, parts.chosen, parts.cursor);
  root.replaceChildren(parts.plot, parts.readout, parts.scale);
  return parts;
}

// One label a layer.
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

// Sets every size and place; returns the side of a cell in px, 0 while hidden.
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
  place(parts.canvas, left, top, w, h);
  parts.plot.style.height = `${top + h}px`;
  place(parts.columnTitle, left, 0, Math.max(60, width - left));
  place(parts.rowTitle, 0, top, undefined, Math.max(60, h));
  parts.columns.forEach((label, i) => {
    place(label, left + start(i * table.heads[1], cell, table.heads[1]), 22, cell * table.heads[1]);
  });
  parts.rows.forEach((label, i) => {
    place(label, 20, top + start(i * table.heads[0], cell, table.heads[0]), 18, cell * table.heads[0]);
  });
  parts.left = left;
  parts.top = top;
  for (const each of [parts.chosen, parts.cursor]) Object.assign(each, { left, top });
  return cell;
}

function place(element, left, top, width, height) {
  element.style.left = `${left}px`;
  element.style.top = `${top}px`;
  if (width !== undefined) element.style.width = `${width}px`;
  if (height !== undefined) element.style.height = `${height}px`;
}

function mark(element, table, cell, at) {
  element.hidden = !at || !inside(table, at) || !cell;
  if (element.hidden) return;
  const x = element.left + start(at[1], cell, table.heads[1]);
  place(element, x, element.top + start(at[0], cell, table.heads[0]), cell, cell);
}

function paint(root, table, parts, cell) {
  const colours = table.colours[themeOf(root)];
  const ratio = window.devicePixelRatio || 1;
  const { canvas } = parts;
  const columns = table.columns.length;
  canvas.width = Math.round(parseFloat(canvas.style.width) * ratio);
  canvas.height = Math.round(parseFloat(canvas.style.height) * ratio);
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const room = cell > 5 ? 1 : 0;
  const colour = (value) => {
    const share = (value - table.ends[0]) / (table.ends[1] - table.ends[0]);
    const level = Math.round(255 * Math.min(1, Math.max(0, share)));
    return `#${colours.slice(6 * level, 6 * level + 6)}`;
  };
  table.rows.forEach((_, row) => {
    for (let column = 0; column < columns; column++) {
      const x = start(column, cell, table.heads[1]);
      const y = start(row, cell, table.heads[0]);
      pen.fillStyle = colour(table.values[row * columns + column]);
      pen.fillRect(x, y, cell - room, cell - room);
      if (table.partner.get(row) !== column) continue;
      const [r, g, b] = [1, 3, 5].map((i) => parseInt(pen.fillStyle.slice(i, i + 2), 16));
      pen.fillStyle = 0.299 * r + 0.587 * g + 0.114 * b > 128 ? "#14131a" : "#ffffff";
      pen.beginPath();
      pen.arc(x + (cell - room) / 2, y + (cell - room) / 2, Math.max(1, cell / 6), 0, 2 * Math.PI);
      pen.fill();
    }
  });
  const bar = parts.scale.querySelector(".bar");
  bar.width = 256;
  bar.height = 1;
  const line = bar.getContext("2d");
  for (let level = 0; level < 256; level++) {
    line.fillStyle = colour(table.ends[0] + (level / 255) * (table.ends[1] - table.ends[0]));
    line.fillRect(level, 0, 1, 1);
  }
}

function told(table, at, pointed) {
  if (!at || !inside(table, at)) return "Click a cell to see the two heads side by side.";
  const [row, column] = at;
  const value = table.values[row * table.columns.length + column].toFixed(3);
  const matched = table.partner.get(row) === column ? ", matched" : "";
  const lead = pointed ? "" : "Shown: ";
  return plain(
    `${lead}${table.names[0]} ${table.rows[row]} and ${table.names[1]} ${table.columns[column]}: ` +
      `similarity ${value}${matched}`,
  );
}
