// The canvas of the picture: the residual stream through every token, and attention as lines.
import { drawDisc, hatch, rolesOf, sharp, themed } from "../shared/index.js";

const LEAST = 0.015; // weight of a line
const FOOT = 3; // radius of a mark of a key or value, at 14 px of type

// Colours of the theme: {ink, accent, paper, q, k, v, residual}.
export function coloursOf(view) {
  const look = themed(view.root);
  return { ...look, ...rolesOf(view.root, view.header, look.theme) };
}

// How far up its stack a token has come, as a share of the way.
function reachOf(view, s, token) {
  const { up } = view.time;
  if (s === 0) return up[0];
  if (token < view.state.row) return 1;
  return token === view.state.row ? up[1] : 0;
}

// True while a film's stream has not come to a band, or to a layer's end: its numbers wait.
export function isAhead(view, stack, band) {
  const whole = ["layer", "heading"].includes(band.kind);
  const end = whole ? stack.bands.findLast(({ layer }) => layer === band.layer) : band;
  return Boolean(view.film) && passing({ view }, stack, end, view.state.row) < (whole ? 1 - 1e-9 : 1e-9);
}

// The part in focus, or while a film runs the layer that the stream is in.
export function partNow(view) {
  if (!view.film) return view.focus;
  const stack = view.plan.stacks[view.film.row < 0 ? 0 : 1];
  const come = stack.bands.filter((band) => band.layer !== undefined && passing({ view }, stack, band, view.state.row) > 0);
  return { s: stack.s, layer: come.at(-1)?.layer ?? 0, block: null, head: null };
}

export function drawPicture(view) {
  const { plan } = view;
  const pen = sharp(view.canvas, plan.width, plan.height);
  const at = { view, plan, pen, look: view.look };
  pen.lineCap = "round";
  for (const stack of plan.stacks) {
    drawColumns(at, stack);
    for (const band of stack.bands) {
      drawBand(at, stack, band);
      band.mark?.classList.toggle("ahead", isAhead(view, stack, band));
    }
  }
  if (plan.loop && (!view.film || view.film.landed)) drawWay(at, plan.loop, view.look.ink, 0.5);
  view.canvas.dataset.frames = ++view.frames;
}

function drawColumns({ view, plan, pen, look }, stack) {
  const { s, bands } = stack;
  const [first, last] = [bands[0], bands.filter(({ kind }) => kind !== "candidates").at(-1)];
  const chosen = s ? view.state.row : view.state.source;
  const hidden = bands.find(({ unfolded }) => unfolded);
  const top = last.block === "softmax" ? last.in : last.out; // candidates come from the softmax, not from columns
  pen.setLineDash([2, 3]);
  for (const { token } of stack.stubs) line(pen, stack.near(token), first.out, top, look.ink, 0.4, 1);
  pen.setLineDash([]);
  for (let token = stack.first; token < stack.first + stack.count; token++) {
    const own = token === chosen;
    const x = stack.at(token);
    const way = reachOf(view, s, token);
    const end = first.out + (top - first.out) * way;
    line(pen, x, first.out, top, look.ink, 0.07, 1);
    if (way) line(pen, x, first.out, end, own ? look.residual : look.ink, own ? 1 : 0.26, own ? (view.lit === "before" ? 5 : 2.6) * plan.unit : 1);
    if (way > 0 && (way < 1 || (own && s))) drawDisc(pen, x, end, (own || !s ? 4 : 3) * plan.unit, look.residual, own ? 1 : 0.45);
  }
  if (hidden) pen.clearRect(hidden.x, hidden.top, hidden.w, hidden.h);
}

function drawBand(at, stack, band) {
  const { view } = at;
  const { s } = stack;
  const token = s ? view.state.row : view.state.source;
  const { blocks, name } = view.header.stacks[s];
  const mid = band.in + (band.out - band.in) / 2;
  const masked = maskedBox(view, stack, band);
  if (masked) hatch(at.pen, [masked], 5, { strokeStyle: at.look.ink, globalAlpha: view.lit === "mask" ? 0.7 : 0.2, lineWidth: 1 });
  if (band.kind === "layer") {
    const way = passing(at, stack, band, token);
    fan(at, stack, band, `${name}.self`, token, [band.in, s ? mid : band.out], way);
    if (blocks.includes("cross")) fan(at, stack, band, "decoder.cross", token, [mid, band.out], way);
  } else if (view.kinds[`${name}.${band.block}`]) {
    fan(at, stack, band, `${name}.${band.block}`, token, [band.in, band.out], passing(at, stack, band, token));
    if (band.unfolded) drawWays(at, stack, band, stack.at(token));
  } else if (band.kind === "norm" && !band.unfolded) {
    const added = view.data.added(s, band.layer, band.block.replace("_norm", ""), token);
    const x = stack.at(token);
    if (!added || x === null || passing(at, stack, band, token) <= 0) return;
    drawDisc(at.pen, x, mid, 3 + 7 * added.share, at.look.paper, 1);
    drawDisc(at.pen, x, mid, (view.lit === "adds" ? 5 : 2) + 7 * added.share, at.look.residual, 1);
  }
}

// 0 before a token reaches a band, up to 1 when it leaves.
function passing({ view }, stack, band, token) {
  const way = reachOf(view, stack.s, token);
  const [first, last] = [stack.bands[0], stack.bands.filter(({ kind }) => kind !== "candidates").at(-1)];
  const t = first.length + way * (last.t + last.length - first.length);
  return Math.min(1, Math.max(0, (t - band.t) / band.length));
}

// Lines from keys to the chosen query: a line is as thick as its weight.
function fan({ view, plan, pen, look }, stack, band, name, token, [from, to], way) {
  if (way <= 0) return;
  const kind = view.kinds[name];
  const { focus } = view;
  const here = band.kind === "block";
  const head = here && focus.s === stack.s && focus.block === band.block ? view.peek ?? focus.head : null;
  const weights = view.data.weights(kind, band.layer, head, token);
  const x = stack.at(token);
  if (!weights || x === null) return;
  const keys = plan.stacks[kind === "cross" ? 0 : stack.s];
  const moving = way < 1;
  const lit = here && view.lit === "weights" ? 0.3 : 0;
  const still = kind === "cross" ? 0.14 : 0.24; // a folded layer's lines from the source overlap those of others
  const shade = lit + (here ? 0.62 : still) * (moving ? 0.4 + 0.6 * way : 1) + (moving ? 0.25 : 0);
  const thick = Math.min(13, keys.cw * 0.85) * (here || moving ? 1 : 0.7);
  pen.strokeStyle = look.accent;
  weights.forEach((weight, j) => {
    const start = keys.near(j);
    if (weight < LEAST || (band.unfolded && kind !== "cross")) return;
    pen.globalAlpha = shade;
    pen.lineWidth = Math.max(0.5, thick * weight);
    pen.beginPath();
    if (kind === "cross") cross(pen, plan, [start, keys.output], [x, from, to], band, (j + 0.5) / weights.length);
    else {
      pen.moveTo(start, from);
      pen.bezierCurveTo(start, from + (to - from) * 0.6, x, to - (to - from) * 0.6, x, to);
    }
    pen.stroke();
  });
  pen.globalAlpha = 1;
  if (!here) return;
  // At a line's foot a key and a value, at its head the query.
  const radius = Math.min(FOOT * plan.unit, Math.max(1.5, (keys.cw - 7) / 4));
  const size = (part) => (view.lit === part ? 1.6 : 1) * radius;
  weights.forEach((_, j) => {
    if ((j > token && kind === "decoder_self" && !view.header.unmasked[band.layer]) || keys.at(j) === null) return;
    const foot = kind === "cross" ? keys.output : from;
    drawDisc(pen, keys.at(j) - radius - 1, foot, size("k"), look.k, 1);
    drawDisc(pen, keys.at(j) + radius + 1, foot, size("v"), look.v, 1);
  });
  if (band.unfolded) return;
  drawDisc(pen, x, to, (view.lit === "q" ? 8 : 4) * plan.unit, look.q, 1);
  // Its name is beside it, on paper.
  const left = x + 50 * plan.unit > stack.left + stack.cw * stack.count;
  pen.font = `600 ${Math.max(12, 0.8 * look.size)}px ${look.font}`;
  Object.assign(pen, { textAlign: left ? "right" : "left", strokeStyle: look.paper, fillStyle: look.q, lineWidth: 4 });
  for (const write of ["strokeText", "fillText"]) pen[write]("query", x + (left ? -8 : 8), to + Math.sign(from - to) * 11 * plan.unit + 4);
}

// Where a band's mask hides tokens that are not yet written, as [left, top, width, height], or null.
export function maskedBox({ header, state }, { s, left, cw, count, at }, band) {
  if (!s || band.unfolded || header.unmasked[band.layer] !== false || (band.kind !== "layer" && band.block !== "self")) return null;
  const [x, end] = [at(state.row), left + cw * count];
  if (x === null || end - x < cw) return null;
  const high = band.kind === "layer" ? band.h / 2 : band.h;
  return [x + cw / 2, band.in < band.out ? band.top : band.top + band.h - high, end - x - cw / 2, high];
}

// In a panel of attention, from its edge to what it shows: keys and values at one side, the query at the other.
function drawWays(at, { first, near }, band, x) {
  const { view: { ways, look }, plan: { narrow } } = at;
  const floor = band.in + 4 * Math.sign(band.out - band.in); // of the panel, where the stream comes in
  const way = ([start, level], left, { y, right }, colour, gap) => {
    const [rail, end] = left ? [band.x + gap, band.x + 10] : [band.x + band.w - gap, band.x + right + 2];
    drawWay(at, [[start, level], [rail, level], [rail, band.top + y], [end, band.top + y]], colour);
  };
  const source = band.block === "cross" ? [band.x + (narrow ? band.w : 0), band.port] : [near(first), floor];
  ways.keys.forEach((place, i) => way(source, !narrow, place, look[place.part] ?? look.accent, 4 + 3 * i));
  ways.query.forEach((place) => way([x, floor], narrow, place, look.q, 4));
}

// A path with an arrow, such as that of the chosen word to the next input.
function drawWay({ pen }, points, colour, alpha = 1) {
  const [[x, y], end] = [points[0], points.at(-1)];
  Object.assign(pen, { strokeStyle: colour, fillStyle: colour, globalAlpha: alpha, lineWidth: 1.6 });
  pen.beginPath();
  pen.moveTo(x, y);
  points.slice(1, -1).forEach((point, i) => pen.arcTo(...point, ...points[i + 2], 6));
  pen.lineTo(...end);
  pen.stroke();
  const [dx, dy] = [0, 1].map((axis) => Math.sign(points.at(-2)[axis] - end[axis]));
  pen.beginPath();
  for (const side of [-4, 0, 4]) pen.lineTo(end[0] + side * dy + (side ? 6 * dx : 0), end[1] + side * dx + (side ? 6 * dy : 0));
  pen.fill();
  pen.globalAlpha = 1;
}

// From the encoder's output to a query of the decoder, through the gap between them: keys stay in their order.
function cross(pen, plan, [x0, y0], [x1, enters, y1], band, place) {
  const { narrow, stacks: [{ x, w }] } = plan;
  const lane = y0 + (narrow ? 3 + 11 * place : 18 * place - 26);
  const side = band.unfolded ? band.port + 8 * (place - 0.5) : Math.min(enters, y1) + Math.abs(y1 - enters) * (0.12 + 0.7 * place);
  const from = x + w + (narrow ? 2 + 9 * place : 0); // on a phone, lines pass beside the words
  pen.moveTo(x0, y0);
  pen.quadraticCurveTo(x0, lane, Math.min(x0 + 12, from), lane);
  if (narrow) {
    if (band.unfolded) [x1, y1] = [x + w, side];
    pen.arcTo(from, lane, from, side, 6);
    pen.arcTo(from, side, x1, side, 6);
    pen.quadraticCurveTo(x1, side, x1, y1);
    return;
  }
  pen.lineTo(from, lane);
  pen.bezierCurveTo(band.x, lane, from, side, band.x, side);
  if (!band.unfolded) pen.bezierCurveTo(band.x + (x1 - band.x) * 0.6, side, x1, (side + y1) / 2, x1, y1);
}

function line(pen, x, from, to, colour, alpha, width) {
  Object.assign(pen, { globalAlpha: alpha, strokeStyle: colour, lineWidth: width });
  pen.beginPath();
  pen.moveTo(x, from);
  pen.lineTo(x, to);
  pen.stroke();
  pen.globalAlpha = 1;
}
