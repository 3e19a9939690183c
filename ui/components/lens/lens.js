// One attention map, large: labels on both axes, the exact value under the pointer or the cursor.
//
// Input: one message of ui/components/packing.py. The header holds the labels and colours, the body
// the weights as float32, row by row: rows are queries, columns are keys. Token text only ever
// becomes textContent. If labels can be selected, [queries, keys] is sent to Python
// (shared/held.js). With a limit above 0 the weights are differences, and the colours run from
// -limit to limit.

const LARGEST_CELL = 46;
const SMALLEST_LABEL = 12; // px of cell side below which labels are thinned out
const SMALLEST_TYPE = 11; // px of the labels
const SMALLEST_GAP = 12; // px of cell side below which cells touch and are drawn as one image
const ROOM_FOR_VALUES = 36; // px of cell side from which the values are written into the cells
const FINGER = 18; // px of cell side on a phone, where a map scrolls before its labels thin out

export default function (component) {
  const { data, parentElement } = component;
  const root = parentElement.querySelector(".lens");
  if (!root || !data?.byteLength) return undefined;
  root.unwatch?.();
  const map = read(data);
  const talk = agree(component, map);
  const parts = build(root, map, talk);
  let cursor = null; // [row, column] under the pointer or the keyboard's cursor
  let cell = 0;

  const draw = () => {
    const side = layOut(root, map, parts);
    if (!side) return;
    cell = side;
    paint(root, map, parts, cell);
    if (cursor) point(map, parts, cell, cursor);
  };
  const move = (next) => {
    cursor = next;
    point(map, parts, cell, cursor);
  };

  parts.canvas.onpointermove = parts.canvas.onpointerdown = (event) => {
    const box = parts.canvas.getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) / box.height) * map.queries);
    const column = Math.floor(((event.clientX - box.left) / box.width) * map.keys);
    if (row >= 0 && column >= 0 && row < map.queries && column < map.keys) move([row, column]);
  };
  parts.canvas.onpointerleave = () => {
    if (parts.plot.getRootNode().activeElement !== parts.plot) move(null);
  };
  parts.plot.onfocus = () => {
    if (!cursor) move([0, 0]);
  };
  parts.plot.onblur = () => move(null);
  parts.plot.onkeydown = (event) => {
    const next = stepped(event, cursor ?? [0, 0], map.queries, map.keys);
    if (!next) return;
    event.preventDefault();
    move(next);
  };

  return watch(root, draw);
}

function read(data) {
  const { header, body } = unpack(data);
  return {
    ...header,
    weights: new Float32Array(body.slice().buffer), // a copy: float32 needs an aligned start
    queries: header.query_tokens.length,
    keys: header.key_tokens.length,
    covered: new Set(header.dimmed),
  };
}

// A label that selects its token if the map allows it; side 0 is queries, 1 is keys.
function makeLabel(map, talk, side, token, at) {
  const name = side === 0 ? "row-label" : "column-label";
  const label = make(map.selectable ? "button" : "span", name);
  writeRow(label, token);
  if (!map.selectable) return label;
  label.type = "button";
  label.tabIndex = -1; // hundreds of stops; the page's own lists do the same for the keyboard
  label.setAttribute("aria-label", `${side === 0 ? "query" : "key"} ${at + 1} ${plain(token)}`);
  label.onclick = () => {
    const held = talk.held.map((positions) => new Set(positions));
    if (!held[side].delete(at)) held[side].add(at);
    talk.tell(held.map((positions) => [...positions].sort((a, b) => a - b)));
    label.setAttribute("aria-pressed", String(held[side].has(at)));
  };
  label.setAttribute("aria-pressed", String(talk.held[side].includes(at)));
  return label;
}

function build(root, map, talk) {
  const [pointAt, click] = touching() ? ["Tap", "tap"] : ["Point at", "click"];
  const hint = `${pointAt} a cell to read its exact ${map.limit ? "difference" : "weight"}`;
  map.hint = map.selectable ? `${hint}; ${click} tokens to add them up.` : `${hint}.`;
  const parts = {
    scroller: make("div", "scroller"),
    plot: make("div", "plot"),
    margin: make("div", "margin"), // row labels and titles, which stay while the cells scroll
    keyTitle: make("div", "key-title", map.key_title),
    queryTitle: make("div", "query-title", map.query_title),
    canvas: make("canvas", "cells"),
    cursor: make("div", "cursor"),
    readout: make("p", "readout"),
    rows: map.query_tokens.map((token, i) => makeLabel(map, talk, 0, token, i)),
    columns: map.key_tokens.map((token, j) => makeLabel(map, talk, 1, token, j)),
  };
  parts.plot.tabIndex = 0;
  parts.plot.setAttribute("role", "group");
  parts.plot.setAttribute("aria-label", map.label);
  parts.readout.setAttribute("role", "status");
  parts.canvas.setAttribute("aria-hidden", "true");
  for (const column of map.dimmed) parts.columns[column].classList.add("covered");
  parts.margin.append(parts.keyTitle, parts.queryTitle, ...parts.rows);
  parts.plot.append(parts.margin, ...parts.columns, parts.canvas, parts.cursor);
  parts.scroller.append(parts.plot);
  root.replaceChildren(parts.scroller, parts.readout);
  parts.scale = map.limit ? buildScale(...signedEnds(map)) : buildWeightScale();
  root.append(parts.scale);
  point(map, parts, 0, null);
  return parts;
}

// Lays everything out. Returns: the side of a cell in px, 0 while hidden.
function layOut(root, map, parts) {
  const width = root.clientWidth;
  if (!width) return 0;
  const style = getComputedStyle(root);
  const pen = parts.canvas.getContext("2d");
  const fontSize = parseFloat(style.fontSize);
  pen.font = `${fontSize}px ${style.fontFamily}`;
  const measured = new Map();
  const wide = (text) => {
    if (!measured.has(text)) measured.set(text, pen.measureText(text).width);
    return measured.get(text);
  };
  // Labels are as large as their rows allow, and smaller ones leave more room for the rows.
  for (let size = fontSize; size > SMALLEST_TYPE; size -= 1) {
    const frame = frameOf(root, map, parts, wide, fontSize, size);
    if (frame.side * 0.95 >= size) return place(map, parts, frame);
  }
  return place(map, parts, frameOf(root, map, parts, wide, fontSize, SMALLEST_TYPE));
}

// The measures of a map whose labels have `size` px; `wide` measures text of `fontSize` px.
function frameOf(root, map, parts, wide, fontSize, size) {
  const width = root.clientWidth;
  const label = (text) => (wide(text) * size) / fontSize;
  const titleBand = fontSize * 1.9;
  const spare = width - titleBand - 14 - SMALLEST_LABEL * 1.1 * map.keys; // cells keep their labels
  const left = fitRows(parts.plot, map.query_tokens, label, Math.max(width * 0.3, spare)) + 10 + titleBand;
  const cornered = wide(map.key_title) < left - 12; // beside the slanted labels
  const slant = Math.PI / 3;
  const longest = Math.min(widestRow(map.key_tokens, label), width * 0.35);
  const top = longest * Math.sin(slant) + fontSize + (cornered ? 0 : titleBand);
  const overhang = longest * Math.cos(slant); // the last label leans out to the right
  const room = (width - left - 4) / map.keys;
  const fitting = (width - left - overhang) / map.keys;
  const tall = (tallest(root, map.max_height) - top) / map.queries;
  const largest = LARGEST_CELL * tallness();
  const fits = Math.max(1, Math.min(largest, Math.max(fitting, room * 0.85), tall));
  const scrolls = onPhone() && fits < FINGER;
  const cell = scrolls ? FINGER : fits;
  const side = cell > 8 ? Math.floor(cell) : cell;
  const whole = wide(map.query_title);
  const title = whole > side * map.queries ? map.query_title.split(":")[0] : map.query_title;
  return { side, left, top, titleBand, cornered, longest, overhang, scrolls, size, title, titled: wide(title) };
}

// Puts every part in its place. Returns: the side of a cell in px.
function place(map, parts, frame) {
  const { side, left, top, titleBand, cornered, longest, overhang, scrolls } = frame;
  const [w, h] = [side * map.keys, side * map.queries];
  const height = top + Math.max(h, frame.titled);
  parts.queryTitle.textContent = frame.title;
  parts.plot.style.height = parts.margin.style.height = `${height}px`;
  parts.plot.style.width = scrolls ? `${left + w + overhang}px` : "";
  parts.margin.style.width = `${left - 6}px`;
  parts.scroller.classList.toggle("scrolls", scrolls);
  setBox(parts.canvas, left, top, w, h);
  parts.keyTitle.classList.toggle("cornered", cornered);
  setBox(parts.keyTitle, left, cornered ? top : 0);
  setBox(parts.queryTitle, 0, top);
  const every = Math.ceil(SMALLEST_LABEL / side);
  parts.plot.style.setProperty("--label", `${frame.size}px`);
  parts.rows.forEach((label, i) => {
    label.hidden = i % every !== 0;
    setBox(label, titleBand, top + side * (i + 0.5), left - titleBand - 8);
  });
  parts.columns.forEach((label, j) => {
    label.hidden = j % every !== 0;
    setBox(label, left + side * (j + 0.5), top - 4, longest + 6);
  });
  return side;
}

// The height for labels and cells: what a window of 720 px gives, and in a taller one what it has
// more, as long as the readout and the scale below stay in sight.
function tallest(root, height) {
  const scrolled = document.querySelector('[data-testid="stMain"]')?.scrollTop ?? 0;
  const below = window.innerHeight - (root.getBoundingClientRect().top + scrolled) - 110;
  return Math.max(height, Math.min(height + window.innerHeight - 720, below));
}

function paint(root, map, parts, cell) {
  const theme = themeOf(root);
  const table = map.colours[theme];
  const ratio = window.devicePixelRatio || 1;
  const { canvas } = parts;
  drawScale(parts.scale, wordsOf(table), map.reading[theme]);
  canvas.width = Math.round(cell * map.keys * ratio);
  canvas.height = Math.round(cell * map.queries * ratio);
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const style = getComputedStyle(root);
  if (cell < SMALLEST_GAP) {
    paintImage(pen, map, cell, wordsOf(table), wordsOf(map.cover[theme])[0], style.color);
    return;
  }
  const written = cell >= ROOM_FOR_VALUES;
  pen.font = `${Math.round(cell * 0.3)}px ${style.fontFamily}`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  for (let i = 0; i < map.queries; i++) {
    for (let j = 0; j < map.keys; j++) {
      const [x, y] = [j * cell, i * cell];
      if (map.causal && j > i) {
        mask(pen, x, y, cell, style.color);
        continue;
      }
      const weight = map.weights[i * map.keys + j];
      const covered = map.covered.has(j);
      pen.fillStyle = covered ? `#${map.cover[theme]}` : colourOf(table, entryOf(map, weight));
      pen.fillRect(x, y, cell - 1, cell - 1);
      if (written && !covered && Math.abs(weight) >= 0.005) {
        pen.fillStyle = inkOn(pen.fillStyle);
        pen.fillText(number(map, weight, 2), x + cell / 2, y + cell / 2);
      }
    }
  }
}

// Small cells in one image: half a million calls for a long text would take a second.
function paintImage(pen, map, cell, words, cover, ink) {
  const { queries, keys } = map;
  const wordAt = (at) => {
    const j = at % keys;
    if (map.causal && j > Math.floor(at / keys)) return 0;
    return map.covered.has(j) ? cover : words[entryOf(map, map.weights[at])];
  };
  pen.imageSmoothingEnabled = false;
  pen.drawImage(setPixels(make("canvas", ""), queries, keys, wordAt), 0, 0, keys * cell, queries * cell);
  if (!map.causal) return;
  const every = Math.max(1, Math.ceil(6 / cell));
  for (let i = 0; i < queries; i += every) {
    for (let j = i + every; j < keys; j += every) mask(pen, j * cell, i * cell, cell, ink);
  }
}

function mask(pen, x, y, cell, ink) {
  drawDot(pen, x + cell / 2, y + cell / 2, Math.min(1.4, Math.max(0.5, cell / 8)), ink);
}

// The entry of the colour table.
function entryOf(map, weight) {
  return map.limit ? signedLevel(weight, map.limit) : weightLevel(weight);
}

// A weight as text; differences are signed.
function number(map, weight, digits) {
  const text = Math.abs(weight).toFixed(digits);
  if (!map.limit) return text;
  return `${Number(text) === 0 ? "" : weight < 0 ? "\u2212" : "+"}${text}`;
}

function point(map, parts, cell, cursor) {
  for (const label of [...parts.rows, ...parts.columns]) label.classList.remove("pointed");
  parts.cursor.hidden = !cursor;
  if (!cursor) {
    parts.readout.textContent = map.hint;
    return;
  }
  const [row, column] = cursor;
  parts.rows[row].classList.add("pointed");
  parts.columns[column].classList.add("pointed");
  const left = parseFloat(parts.canvas.style.left) + column * cell;
  setBox(parts.cursor, left, parseFloat(parts.canvas.style.top) + row * cell, cell, cell);
  const query = `query ${row + 1} ${map.query_tokens[row]}`;
  const key = `key ${column + 1} ${map.key_tokens[column]}`;
  const value =
    map.causal && column > row
      ? "masked: this key comes later than the query"
      : number(map, map.weights[row * map.keys + column], 4) + (map.covered.has(column) ? " (dimmed)" : "");
  parts.readout.textContent = plain(`${query}, ${key}: ${value}`);
}
