// The tree as a picture: the position of every node, and how it is painted.
//
// A column is a decoding step and a row a rank, so each column is the beam at that step, best on
// top. The rows of the beam are tall; below a line are the thin rows of dropped
// candidates. Only the visible part is painted, so a long search costs no more than a short one.
import { drawDisc, fitted, inkOn, plain, sharp, signed, styled, themed } from "../shared/index.js";

export const COLUMN = 126; // px at zoom 1, like all sizes here
const NODE = 102; // width of a node; the rest of a column is for the edges
const EDGE = 8; // minimum width for the edges between two columns
const TALL = 40;
const THIN = 20;
const HEAD = 26; // above the rows: the number of the step
const GUTTER = 26; // left of the columns: the rank
const ROOT = 62; // the column of the first token
const FENCE = 14; // between the beam and what was dropped

const MOST_DROPPED = 5; // wider beams than this leave out edges to what they dropped

const FINISHED = 2;
export const CUT = 3;

/** Sizes in CSS pixels at a zoom and a type scale; `narrow` shortens the columns alone. */
export function geometry(header, zoom, type, narrow = 1) {
  const unit = zoom * type;
  const column = COLUMN * unit * narrow;
  const beam = header.beam;
  return {
    unit,
    column,
    width: Math.min(NODE * unit, column - EDGE * type),
    margin: (narrow < 1 ? 4 : 8) * unit,
    head: HEAD * type,
    gutter: GUTTER * type,
    root: ROOT * unit * narrow,
    top: (rank) =>
      HEAD * type +
      (rank < beam ? rank * TALL : beam * TALL + FENCE + (rank - beam) * THIN) * unit,
    height: (rank) => (rank < beam ? TALL - 8 : THIN - 4) * unit,
    fence: HEAD * type + (beam * TALL + FENCE / 2 - 2) * unit,
  };
}

/** The rectangle of a node; -1 is the root. */
export function rectOf(header, size, index) {
  if (index < 0) {
    const height = size.height(0);
    return { x: size.gutter, y: size.top(0) + 4 * size.unit, w: size.root * 0.62, h: height };
  }
  const rank = header.rank[index];
  return {
    x: size.gutter + size.root + header.step[index] * size.column,
    y: size.top(rank) + (rank < header.beam ? 4 : 2) * size.unit,
    w: size.width,
    h: size.height(rank),
  };
}

export function extent(header, size, shown) {
  const rank = shown.reduce((most, index) => Math.max(most, header.rank[index]), 0);
  const steps = 1 + (header.step.at(-1) ?? -1);
  return {
    width: size.gutter + size.root + steps * size.column,
    height: size.top(rank) + size.height(rank) + 10 * size.unit,
  };
}

/** Stroke a path in a style of the pen, solid or dashed. */
function stroke(pen, path, style, dash = []) {
  styled(pen, style, () => {
    pen.setLineDash(dash);
    pen.stroke(path);
  });
}

function lineBetween(x, y, u, v) {
  return new Path2D(`M${x} ${y}L${u} ${v}`);
}

/** A rounded frame `by` px around a box. */
function frame({ x, y, w, h }, by, radius) {
  const path = new Path2D();
  path.roundRect(x - by, y - by, w + 2 * by, h + 2 * by, radius);
  return path;
}

/** Paint the visible part. Returns: its nodes. */
export function paintTree(view, state) {
  const { header, size, canvas, left, top, width, height } = view;
  const pen = sharp(canvas, width, height);
  pen.textBaseline = "middle";
  const first = Math.floor((left - size.gutter - size.root) / size.column) - 1;
  const last = Math.ceil((left + width - size.gutter - size.root) / size.column);
  const inSight = view.shown.filter((at) => header.step[at] >= first && header.step[at] <= last);
  pen.save();
  pen.translate(-left, -top);
  paintFence(pen, view, left, width);
  paintEdges(pen, view, state, inSight);
  if (first < 1) paintRoot(pen, view);
  for (const index of inSight) {
    const box = rectOf(header, size, index);
    if (box.y > top + height || box.y + box.h < top) continue;
    paintNode(pen, view, state, index, box);
  }
  pen.restore();
  paintRulers(pen, view, first, last);
  return inSight;
}

function paintFence(pen, view, left, width) {
  const { header, size, ink } = view;
  if (!view.shown.some((index) => header.rank[index] >= header.beam)) return;
  const fence = lineBetween(left, size.fence, left + width, size.fence);
  stroke(pen, fence, { strokeStyle: ink.quiet, lineWidth: 1 }, [2, 4]);
}

function paintEdges(pen, view, state, inSight) {
  const { header, size, ink } = view;
  // A wide beam drops so many candidates that their edges would form one grey band.
  const many = header.beam > MOST_DROPPED;
  const near = new Set([state.a, state.b, view.hover]);
  const drawn = (i) =>
    !many || header.kind[i] <= CUT || near.has(i) || near.has(header.parent[i]);
  const strokes = [
    { of: (i) => header.line[i] === 0 && drawn(i), colour: ink.rule, width: 1 },
    { of: (i) => header.line[i] === 1, colour: ink.quiet, width: 1.5 },
    { of: (i) => header.line[i] === 2, colour: ink.accent, width: 3 },
    { of: (i) => state.onB.has(i), colour: ink.b, width: 2 },
    { of: (i) => state.b !== null && state.onA.has(i), colour: ink.a, width: 2 },
  ];
  for (const { of, colour, width } of strokes) {
    const path = new Path2D();
    for (const index of inSight) {
      if (!of(index)) continue;
      const from = rectOf(header, size, header.parent[index]);
      const to = rectOf(header, size, index);
      const [x, y] = [from.x + from.w, from.y + from.h / 2];
      const [u, v] = [to.x, to.y + to.h / 2];
      path.moveTo(x, y);
      path.bezierCurveTo((x + u) / 2, y, (x + u) / 2, v, u, v);
    }
    stroke(pen, path, { strokeStyle: colour, lineWidth: Math.max(0.75, width * Math.min(1, size.unit)) });
  }
}

function paintRoot(pen, view) {
  const { header, size, ink, font } = view;
  const box = rectOf(header, size, -1);
  Object.assign(pen, { fillStyle: ink.quiet, textAlign: "center", font: `italic ${14 * size.unit}px ${font}` });
  pen.fillText(fitted(pen, header.root, size.root - 6), box.x + box.w / 2, box.y + box.h / 2);
}

function paintNode(pen, view, state, index, box) {
  const { header, size, ink, font } = view;
  const line = header.line[index];
  const kind = header.kind[index];
  const inBeam = box.h > THIN * size.unit;
  const kept = kind <= CUT;
  const edge = frame(box, 0, 5 * size.unit);
  pen.fillStyle = line === 2 ? ink.lit : kept ? ink.panel : ink.paper;
  pen.fill(edge);
  const leaves = line === 1 && (header.line[header.parent[index]] ?? 2) === 2; // the winner's path
  const strokeStyle = line === 2 ? ink.accent : leaves ? ink.text : line === 1 ? ink.quiet : ink.rule;
  if (kept) stroke(pen, edge, { strokeStyle, lineWidth: leaves ? 2.5 : line === 2 ? 1.5 : 1 });
  if (kind === FINISHED || kind === CUT) {
    // A bar at the end of a path: solid for </s>, dashed if the length limit cut it.
    const end = lineBetween(box.x + box.w, box.y + 2, box.x + box.w, box.y + box.h - 2);
    const style = { strokeStyle: line === 2 ? ink.accent : ink.text, lineWidth: 4 * size.unit };
    stroke(pen, end, style, kind === CUT ? [3 * size.unit, 3 * size.unit] : []);
  }
  const fontSize = (inBeam ? 14 : 12) * size.unit;
  if (fontSize >= 6.5) {
    pen.textAlign = "left";
    pen.fillStyle = kept && line > 0 ? ink.text : ink.quiet;
    const wide = box.w >= 0.8 * NODE * size.unit; // room for numbers beside or below the word
    const two = inBeam && wide && size.unit >= 0.85 * view.type;
    const name = `${fontSize}px ${font}`; // a winner's, too: in bold it would be cut
    const room = box.w - 1.75 * size.margin - (inBeam || !wide ? 0 : 36 * size.unit);
    const text = shortened(pen, view, header.text[index], name, room);
    pen.font = name;
    pen.fillText(text, box.x + size.margin, box.y + box.h * (two ? 0.32 : 0.53));
    pen.fillStyle = ink.quiet;
    pen.font = `${Math.max(12 * size.unit, 12)}px ${font}`;
    if (two) {
      const numbers = `${signed(header.total[index])} · ${signed(header.score[index])}`;
      pen.fillText(numbers, box.x + size.margin, box.y + box.h * 0.74);
    } else if (!inBeam && wide) {
      pen.textAlign = "right";
      pen.fillText(signed(header.total[index]), box.x + box.w - 4, box.y + box.h * 0.53);
    }
  }
  for (const [name, colour] of [["a", ink.a], ["b", ink.b]]) {
    if (state[name] === index) paintMark(pen, view, box, name, colour, state.slot === name);
  }
  if (view.hover === index) stroke(pen, frame(box, 1, 5 * size.unit), { strokeStyle: ink.text, lineWidth: 1 });
}

/** The ring and letter of a chosen node; the ring that arrows move is solid. */
function paintMark(pen, view, box, name, colour, active) {
  const { size, ink, font } = view;
  stroke(pen, frame(box, 2, 6 * size.unit), { strokeStyle: colour, lineWidth: 2.5 }, active ? [] : [5, 3]);
  if (view.header.single) return; // there is no other node to tell it from
  const r = Math.max(7, 8.5 * size.unit);
  const x = box.x + (name === "a" ? 2 : box.w - 2 - r);
  const y = box.y + Math.max(-1, 4.5 * size.unit - 4); // below the numbers of the steps
  drawDisc(pen, x, y, r, colour);
  Object.assign(pen, { fillStyle: inkOn(colour), textAlign: "center", font: `600 ${Math.max(12, 12 * size.unit)}px ${font}` });
  pen.fillText(name.toUpperCase(), x, y + 0.5);
}

/** Steps along the top and ranks along the left stay visible while the tree moves. */
function paintRulers(pen, view, first, last) {
  const { header, size, ink, font, left, top, width, height } = view;
  pen.fillStyle = ink.paper;
  pen.fillRect(0, 0, width, size.head - 4);
  pen.fillRect(0, 0, size.gutter - 6, height);
  Object.assign(pen, { fillStyle: ink.quiet, textAlign: "center", font: `${12 * view.type}px ${font}` });
  const every = Math.max(1, Math.ceil((22 * view.type) / size.column));
  const steps = header.step.at(-1) ?? -1;
  for (let step = Math.max(0, first); step <= Math.min(last, steps); step += 1) {
    const x = size.gutter + size.root + step * size.column + size.width / 2 - left;
    if (step % every || x < size.gutter + 8) continue;
    const named = step === 0 && size.column > 60 * view.type;
    pen.fillText(named ? "step 1" : String(step + 1), x, size.head / 2 - 2);
  }
  const ranks = new Set(view.shown.map((index) => header.rank[index]));
  let before = -Infinity;
  for (const rank of [...ranks].sort((one, other) => one - other)) {
    const y = size.top(rank) + (rank < header.beam ? 4 : 2) * size.unit + size.height(rank) / 2 - top;
    if (y < size.head || y > height || y - before < 13 * view.type) continue;
    pen.fillText(String(rank + 1), (size.gutter - 6) / 2, y);
    before = y;
  }
}

/** A token shortened to a width; cached until the zoom changes. */
function shortened(pen, view, text, font, room) {
  const key = `${text} ${font} ${Math.round(room)}`;
  if (!view.fits.has(key)) {
    pen.font = font;
    view.fits.set(key, fitted(pen, plain(view.header.texts[text]), room));
  }
  return view.fits.get(key);
}

/** The colours of the current theme, also as variables for the bar above the tree. */
export function inkOf(root, header) {
  const look = themed(root);
  const over = (colour, share) => `color-mix(in srgb, ${colour} ${share}%, ${look.paper})`;
  const [a, b] = header.colours[look.theme];
  for (const [name, value] of Object.entries({ a, b, "on-a": inkOn(a), "on-b": inkOn(b) })) {
    root.style.setProperty(`--${name}`, value);
  }
  const [rule, quiet, lit] = [over(look.ink, 22), over(look.ink, 66), over(look.accent, 16)];
  return { ...look, a, b, text: look.ink, rule, quiet, lit };
}
