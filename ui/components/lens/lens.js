// One large attention map with labels on both axes and the exact value at the pointer or cursor.
//
// The body holds weights as float32, row by row: rows are queries, columns are keys. If labels are
// selectable, the choice is [queries, keys]. With a limit above 0, weights are differences and colours run
// from -limit to limit.
import { buildMatrix, cellCursor, cellName, classHeight, drawCells, drawScale, extend, fitRows,
  floatsOf, groupOf, hatch, inkOn, make, onPhone, pageTop, percent, plain, rolesOf, rowsInWords, scaleOf, setBox, sharp, shown, signedLevel,
  spokenList, startsOf, syncChoice, tallness, themed, touching, watch, weightLevel, widestRow, widthsIn, windowHeight, wordsOf, writeRow } from
  "../shared/index.js";

const LARGEST_CELL = 46;
const SMALLEST_LABEL = 12; // px of cell side below which labels are thinned out
const SMALLEST_TYPE = 12; // px of the labels
const ROOM = { share: 1.55, value: 2.55 }; // em of cell side from which percentages and values are written
const FINGER = 18; // px of cell side on a phone, where a map scrolls before its labels thin out

function component({ root, header, body }, host) {
  const map = {
    ...header,
    weights: floatsOf(body),
    queries: header.query_tokens.length,
    keys: header.key_tokens.length,
    covered: new Set(header.dimmed),
  };
  const parts = build(root, map, syncChoice(host, map));
  const refresh = cellCursor(parts.plot, [parts], {
    readout: parts.readout,
    describe: (at) => described(map, at),
    choose: map.asks ? (at) => {
      if (masked(map, at)) return;
      host.setTriggerValue("pair", at);
      map.asked = at;
    } : undefined,
    show(at) {
      const twins = map.ringed.length && root.at !== String(at) ? groupOf("lenses", "framed", { root }) : [];
      root.at = String(at);
      for (const each of twins) each.root.point?.(at); // framed maps correspond: each reads the same cell
      parts.rows.forEach((label, row) => label.classList.toggle("pointed", row === at?.[0]));
      parts.columns.forEach((label, column) => label.classList.toggle("pointed", column === at?.[1]));
    },
  });
  root.point = map.ringed.length && refresh;
  return watch(root, root.draw = () => {
    layOut(root, map, parts);
    paint(root, map, parts);
    refresh();
  });
}

// A label, a button if tokens are selectable; axis 0 is queries, 1 is keys.
function makeLabel(map, choice, axis, token, at) {
  const label = make(map.selectable ? "button" : "span", axis === 0 ? "row-label" : "column-label");
  writeRow(label, token);
  if (!map.selectable) return label;
  return extend(label, {
    tabindex: -1, // hundreds of stops; the page's own lists do the same for the keyboard
    "aria-label": `${axis === 0 ? "query" : "key"} ${at + 1} ${plain(token)}`,
    "aria-pressed": choice.value[axis].includes(at),
    onclick() {
      const selected = choice.value.map((positions) => new Set(positions));
      if (!selected[axis].delete(at)) selected[axis].add(at);
      choice.set(selected.map((positions) => [...positions].sort((a, b) => a - b)));
      label.setAttribute("aria-pressed", selected[axis].has(at));
    },
  });
}

function build(root, map, choice) {
  const [pointAt, click] = touching() ? ["Tap", "tap"] : ["Point at", "click"];
  const noun = map.noun || (map.limit ? "value" : "weight");
  const hint = map.ringed.length ? `Frames differ most${map.paired ? "" : "; an empty one is near 0"}. ${pointAt} a cell to read it` : `${pointAt} a cell for its exact ${noun}`;
  const ask = map.asks ? `; ${click} it for heads that look there` : "";
  map.hint = `${hint}${ask}${map.selectable ? `; ${click} tokens to add them up` : ""}.`;
  const parts = Object.assign(buildMatrix(), {
    keyTitle: make("div", "key-title", map.key_title),
    queryTitle: make("div", "query-title", map.query_title),
    readout: make("p", "readout", { role: "status" }),
    rows: map.query_tokens.map((token, i) => makeLabel(map, choice, 0, token, i)),
    columns: map.key_tokens.map((token, j) => makeLabel(map, choice, 1, token, j)),
    scale: scaleOf(map),
  });
  for (const column of map.dimmed) parts.columns[column].classList.add("covered");
  map.changed.forEach((places, axis) => places.forEach((at) => [parts.rows, parts.columns][axis][at].classList.add("changed")));
  // Row labels and titles, which stay while the cells scroll.
  parts.margin = make("div", "margin", parts.keyTitle, parts.queryTitle, parts.rows);
  parts.plot = make("div", "plot", { tabindex: 0, role: "group", "aria-label": map.label },
    parts.margin, parts.columns, parts.canvas, parts.cursor);
  parts.scroller = make("div", "scroller", parts.plot);
  const lines = rowsInWords(map.query_tokens, map.key_tokens, (row, column) => (masked(map, [row, column])
    ? null
    : map.weights[row * map.keys + column]), map.limit ? (weight) => number(map, weight, 2) : undefined);
  parts.rows.forEach((label, row) => label.addEventListener("pointerenter", () => {
    parts.readout.textContent = plain(`Read most in ${lines[row]}`);
  }));
  root.replaceChildren(parts.scroller, parts.readout, parts.scale, spokenList("The map, row by row", lines).element);
  return parts;
}

function layOut(root, map, parts) {
  const style = getComputedStyle(root);
  const fontSize = parseFloat(style.fontSize);
  const wide = widthsIn(`${fontSize}px ${style.fontFamily}`);
  const framed = (size) => frameOf(root, map, parts, wide, fontSize, size);
  let frame = framed(fontSize);
  // Labels are as large as their rows allow, and smaller ones leave more room for the rows.
  while (frame.size > SMALLEST_TYPE && frame.side * 0.95 < frame.size) frame = framed(Math.max(SMALLEST_TYPE, frame.size - 1));
  root.frame = frame;
  // Maps side by side have cells and labels of one size.
  const pair = map.paired ? groupOf("lenses", "paired", { root }) : [{ root }];
  const all = pair.map((each) => each.root).filter((each) => each.frame && each.clientWidth);
  const least = (name) => Math.min(...all.map((each) => each.frame[name]));
  root.shared = { side: least("side"), across: least("across"), size: least("size"), cornered: least("cornered"),
    top: Math.max(...all.map((each) => each.frame.top)) };
  place(map, parts, { ...frame, ...root.shared });
  for (const each of all) if (JSON.stringify(each.shared) !== JSON.stringify(root.shared)) each.draw();
}

// Layout of a map with labels of `size` px; `wide` measures text of `fontSize` px.
function frameOf(root, map, parts, wide, fontSize, size) {
  const width = root.clientWidth;
  const label = (text) => (wide(text) * size) / fontSize;
  const titleBand = fontSize * 1.9;
  const slant = Math.PI / 3;
  const longest = Math.min(widestRow(map.key_tokens, label), width * 0.35);
  const leans = (token, at) => Math.min(longest, label(plain(token))) * Math.cos(slant) - SMALLEST_LABEL * (map.keys - 1 - at);
  const overhang = Math.max(...map.key_tokens.map(leans)); // the last labels lean out to the right
  const slanted = longest * Math.sin(slant) + fontSize;
  // In a window taller than 720 px, its extra height is added while the readout and scale stay in sight.
  const below = windowHeight() - pageTop(root) - 110;
  const tallest = classHeight(root, map.foot) || Math.max(map.max_height, Math.min(map.max_height + windowHeight() - 720, below));
  const wanted = Math.max(SMALLEST_LABEL * 1.1, Math.min(1.25 * size, (tallest - slanted) / map.queries)); // of a cell
  const spare = width - titleBand - 14 - overhang - wanted * map.keys;
  const named = fitRows(parts.plot, map.query_tokens, label, Math.max(width * 0.3, spare), map.paired);
  const tight = parts.plot.classList.contains("tight-rows"); // without an arrow, as the axis says what rows are
  const left = named - (tight ? label(" \u2192   ") : 0) + 10 + titleBand;
  const cornered = wide(map.key_title) < left - 12; // beside the slanted labels
  const top = slanted + (cornered ? 0 : titleBand);
  const room = (width - left - 4) / map.keys;
  const fitting = (width - left - overhang) / map.keys;
  const tall = (tallest - top) / map.queries;
  const largest = LARGEST_CELL * tallness();
  const fits = Math.max(1, Math.min(largest, Math.max(fitting, room * 0.85), tall));
  const scrolls = onPhone() && fits < SMALLEST_LABEL;
  const cell = scrolls ? FINGER : fits;
  const side = cell > 8 ? Math.floor(cell) : cell;
  const across = map.limit && !map.noun ? Math.floor(Math.max(side, Math.min(fitting, 1.25 * side))) : side;
  const whole = tight ? map.query_title.replace("reads \u2192 ", "") : map.query_title;
  const title = wide(whole) > side * map.queries ? whole.split(":")[0] : whole;
  return { side, across, left, top, titleBand, cornered, longest, overhang, scrolls, size, title, titled: wide(title) };
}

function place(map, parts, frame) {
  const { side, across, left, top, titleBand, cornered, longest, overhang, scrolls } = frame;
  const [w, h] = [across * map.keys, side * map.queries];
  parts.cells = { ys: startsOf(map.queries, side), xs: startsOf(map.keys, across), w: across, h: side };
  const height = top + Math.max(h, frame.titled);
  parts.queryTitle.textContent = frame.title;
  parts.plot.style.height = parts.margin.style.height = `${height}px`;
  parts.plot.style.width = scrolls ? `${left + w + overhang}px` : "";
  parts.margin.style.width = `${left - 6}px`;
  parts.scroller.classList.toggle("scrolls", scrolls);
  parts.scroller.style.scrollPaddingLeft = `${left}px`; // a cell that keys reach is not below the margin
  setBox(parts.canvas, left, top, w, h);
  parts.keyTitle.classList.toggle("cornered", cornered);
  setBox(parts.keyTitle, left, cornered ? top : 0);
  setBox(parts.queryTitle, 0, top);
  const every = Math.ceil(SMALLEST_LABEL / side);
  parts.plot.style.setProperty("--label", `${frame.size}px`);
  [parts.rows, parts.columns].forEach((labels, axis) => {
    const marked = [...map.changed[axis], ...map.ringed.map((cell) => cell[axis])]; // their labels stay
    labels.forEach((label, i) => (label.hidden = !marked.includes(i) && (i % every !== 0 || marked.some((at) => Math.abs(at - i) < every))));
  });
  parts.rows.forEach((label, i) => setBox(label, titleBand, top + side * (i + 0.5), left - titleBand - 8));
  parts.columns.forEach((label, j) => setBox(label, left + across * (j + 0.5), top - 4, longest + 6));
}

function paint(root, map, parts) {
  const { theme, ink, paper, border, font, size } = themed(root);
  rolesOf(root, map, theme);
  const words = wordsOf(map.colours[theme]);
  const [cover] = wordsOf(map.cover[theme]);
  const { queries, keys } = map;
  const { w: across, h: side } = parts.cells;
  drawScale(parts.scale, words, map.reading[theme], map.noun, map.limit || 1, map.limit ? map.range : undefined);
  const pen = sharp(parts.canvas, across * keys, side * queries);
  const plainly = map.limit || map.noun; // else shares, as percentages
  const type = `${Math.max(SMALLEST_TYPE, Math.round(side * 0.33))}px ${font}`;
  Object.assign(pen, { font: type, textAlign: "center", textBaseline: "middle" });
  drawCells(pen, {
    ...parts.cells,
    ink,
    rankAt: (at, column) => (map.covered.has(column) ? 0 : Math.abs(map.weights[at])),
    wordAt(at) {
      if (masked(map, [Math.floor(at / keys), at % keys])) return 0;
      const weight = map.weights[at];
      if (map.covered.has(at % keys)) return cover;
      return words[map.limit ? signedLevel(weight, map.limit) : weightLevel(weight)];
    },
    finish(at, x, y, colour) {
      const weight = map.weights[at];
      if (map.out || side < (plainly ? ROOM.value : ROOM.share) * size || map.covered.has(at % keys) || Math.abs(weight) < 0.005) return;
      pen.fillStyle = inkOn(colour);
      pen.fillText(plainly ? number(map, weight, 2) : Math.round(100 * weight), x + across / 2, y + side / 2);
    },
  });
  if (map.out) hatch(pen, [[0, 0, side * keys, side * queries]], 9, { strokeStyle: border, lineWidth: 2 });
  // A frame in the colours of text and page is seen on pale and dark cells alike.
  for (const [strokeStyle, lineWidth, at] of [[ink, 2, 1], [paper, 1, 2.5]]) {
    Object.assign(pen, { strokeStyle, lineWidth });
    for (const [row, column] of map.ringed) pen.strokeRect(column * across + at, row * side + at, across - 2 * at, side - 2 * at);
  }
}

function number(map, weight, digits) {
  const text = Math.abs(weight).toFixed(digits);
  if (!map.limit) return text;
  return `${Number(text) === 0 ? "" : weight < 0 ? "\u2212" : "+"}${text}`;
}

function masked(map, [row, column]) {
  return map.causal && column > row;
}

function described(map, at) {
  const [row, column] = at ?? map.asked ?? [];
  if (row === undefined) return map.hint;
  const hidden = masked(map, [row, column]);
  const name = cellName(map.query_tokens, map.key_tokens, [row, column], !hidden);
  if (hidden) return name;
  const value = map.weights[row * map.keys + column];
  const unit = map.noun.split(" in ")[1];
  const share = map.limit || map.noun ? number(map, value, 4) : percent(value, map.ringed.length && !map.asked ? 1 : 2);
  const weight = unit ? `${number(map, value, 2)} ${unit}` : share;
  const [askedRow, askedColumn, heads] = map.asked ?? [];
  const asked = heads ? `. Heads that look there: ${heads}` : ". The heads that look there are below.";
  return name + weight + (map.covered.has(column) ? " (dimmed)" : "") + (row === askedRow && column === askedColumn ? asked : "");
}

export default (host) => shown(host, "lens", component);
