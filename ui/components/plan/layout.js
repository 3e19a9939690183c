// Positions of everything, in CSS pixels. A stack is a column of bands, from the tokens to its output: upwards
// as in figure 1, or downwards on a phone, where the decoder follows the encoder.
import { range } from "../shared/index.js";

const NARROWEST = 12; // columns of tokens beside wide labels, at 14 px of type
const TIGHTEST = 11; // columns before tokens are left out
const GAP = 4;
const TIGHT = 2; // beside what is unfolded
const CARD = 190; // on a phone
const TEXT = 55_000; // px² of a card's text beside it, below the title and above the formula
const LANES = 30; // above the encoder, for lines from its output
const LOOP = 14; // beside the decoder, for the path of the chosen word to the input
const STRIP = 10; // and between the tokens and their embeddings

// A focus as {s, layer, block, head}, counted from 0: block is null for a layer, "embedding" or "softmax".
export function parseFocus(focus, stacks) {
  const last = stacks[1].depth - 1;
  if (focus === "softmax") return { s: 1, layer: last, block: "softmax", head: null };
  const [name, layer, block, head] = focus.split(".");
  const s = name === "encoder" ? 0 : 1;
  if (layer === "embedding") return { s, layer: 0, block: "embedding", head: null };
  return { s, layer: layer ? layer - 1 : last, block: block ?? null, head: head ? head - 1 : null };
}

export function focusOf(view, { s, layer, block, head }) {
  if (block === "softmax") return block;
  const name = view.header.stacks[s].name;
  if (block === "embedding") return `${name}.embedding`;
  return [name, layer + 1, block ?? [], Number.isInteger(head) ? head + 1 : []].flat().join(".");
}

// The layer of a stack that shows its blocks.
export function openLayer(view, s) {
  return Math.min(view.focus.layer, view.header.stacks[s].depth - 1);
}

export function layOut(view, width, height, unit) {
  const narrow = width < 560;
  const { focus } = view;
  const gap = narrow ? 12 : 44; // for lines from the encoder
  const other = (focus.s ? 92 : 124) + view.header.stacks[1 - focus.s].tokens.length * TIGHTEST;
  const beside = Math.min(0.47, Math.max(0.37, (other * unit) / (width - gap - LOOP))); // for its tokens
  const share = (s) => (narrow ? 1 : !focus.block ? 0.5 : focus.s === s ? 1 - beside : beside);
  // There is little room above an unfolded encoder, and the text is far on a phone: the panel has the formula.
  const plan = { width, narrow, unit, stacks: [], low: (narrow || focus.s === 0) && focus.block !== null };
  const long = narrow ? Math.max(560, height) : height;
  let [x, from] = [0, narrow ? CARD * unit : 0];
  for (const s of [0, 1]) {
    const w = (width - gap - LOOP) * share(s);
    if (s) plan.tight = w < 480 * unit; // a candidate has in two lines what it has and had
    const made = bandsOf(view, s, w, s || narrow ? long : long - LANES, unit, plan);
    const stack = { s, x, w, length: made.length, bands: made.bands, ...columnsOf(view, s, x, w, unit, narrow) };
    stack.from = from;
    plan.stacks.push(stack);
    if (narrow) from += made.length + 16;
    else x += w + gap;
  }
  const tall = Math.max(...plan.stacks.map((stack) => stack.length));
  plan.height = narrow ? from : Math.max(height, tall, plan.stacks[0].length + LANES);
  for (const stack of plan.stacks) {
    const y = (t) => (narrow ? stack.from + t : plan.height - t);
    for (const band of stack.bands) {
      [band.in, band.out] = [y(band.t), y(band.t + band.length)];
      [band.top, band.h] = [Math.min(band.in, band.out), band.length];
      [band.x, band.w, band.port] = [stack.x, stack.w, band.top + (view.ways?.keys[0]?.y ?? 0)];
    }
    // The encoder's output leaves its last layer.
    stack.output = stack.bands.filter(({ kind }) => ["layer", "norm", "heading"].includes(kind)).at(-1).out;
  }
  plan.panel = plan.stacks.flatMap(({ bands }) => bands).find(({ unfolded }) => unfolded);
  const free = plan.height - plan.stacks[0].length - LANES;
  plan.card = narrow ? { x: 0, y: 0, w: width, h: CARD * unit } : { x: 0, y: 0, w: plan.stacks[0].w, h: free };
  return plan;
}

// The path of the chosen word from the candidates, at x, to the next input: points, or null at the end of the text.
export function loopOf({ plan, state }, x) {
  const { bands, at } = plan.stacks[1];
  const [to, { in: floor }, last] = [at(state.row + 1), bands[1], bands.at(-1)];
  if (to === null) return null;
  const [start, side, turn] = [plan.narrow ? last.top + last.h + 6 : last.top + 3, plan.width - 5, plan.narrow ? -7 : 8];
  return [[x, start + turn], [x, start], [side, start], [side, floor + turn], [to, floor + turn], [to, floor]];
}

// The columns of a stack's tokens: {left, cw, first, count, at(token), near(token), stubs}. Outside the window
// `at` is null, and `near` is the stub at that side: {token, more} for the next token there and their number.
function columnsOf(view, s, x, w, unit, narrow) {
  const n = view.header.stacks[s].tokens.length;
  const [least, most] = [(s ? 116 : narrow ? 104 : 84) * unit, (s ? 178 : 150) * unit];
  const beside = !narrow && view.focus.block && view.focus.s && !s;
  const gutter = beside ? least : Math.min(most, Math.max(least, w - 8 - n * NARROWEST * unit));
  const room = w - gutter - 8;
  const fit = Math.floor(room / (TIGHTEST * unit) + 0.01); // but for rounding
  const [count, beyond] = n > fit ? [fit - 2, 1] : [n, 0];
  const chosen = s ? view.state.row : view.state.source;
  const first = Math.max(0, Math.min(n - count, chosen - Math.floor(count / 2)));
  const cw = Math.min(44, room / (count + 2 * beyond));
  const right = s === 1 && !narrow; // labels are on the outer side, as in figure 1
  const left = x + (right ? 8 : gutter) + (room - cw * count) / 2;
  const near = (token) => left + (Math.max(-1, Math.min(count, token - first)) + 0.5) * cw;
  const at = (token) => (token < first || token >= first + count ? null : near(token));
  const stubs = [{ token: first - 1, more: first }, { token: first + count, more: n - first - count }].filter(({ more }) => more > 0);
  return { left, cw, first, count, at, near, stubs, label: right ? w - gutter + 10 : 6, room: gutter - 16 };
}

// The bands of a stack in the order of the flow, with their start t and length, at least `least`; a class reads larger type, fewer lines.
function bandsOf(view, s, w, height, unit, { narrow, tight }) {
  const { header, focus } = view;
  const stack = header.stacks[s];
  const open = openLayer(view, s);
  const unfolds = (block, layer) =>
    focus.s === s && focus.block === block && (layer === undefined || focus.layer === layer);
  const inside = focus.s === s && focus.block !== null;
  const bands = [];
  const gap = inside ? TIGHT : GAP;
  const hit = view.large ? 12 : (narrow ? 24 : 16) / Math.min(1, unit); // px, whatever the type
  const put = (kind, length, more = {}, least = length) =>
    bands.push({ kind, s, length: length * unit, least: Math.min(length, least) * unit, ...more });
  const large = (length, least) => (view.large ? least : length);
  put("tokens", 64 + STRIP, {}, inside ? 58 : large(74, 68));
  put("embedding", inside || narrow ? hit : 18, { block: "embedding" });
  const brief = s === 0 && !narrow && !inside; // the card is above the encoder
  const plates = brief ? [focus.block ? 26 : 33, 104] : inside ? [hit, 8 * hit] : [42, 132];
  const plate = Math.max(inside ? 11 : 7, Math.min(plates[0], plates[1] / (stack.depth - 1 || 1)));
  for (const layer of range(stack.depth)) {
    if (layer !== open) put("layer", plate, { layer }, inside ? plate : s ? large(17, 27.5) : Math.max(17, hit));
    else {
      const heading = () => put("heading", s && !inside ? 28 : 15, { layer });
      if (narrow) heading();
      for (const block of stack.blocks) {
        put("block", inside ? hit : block === "ffn" ? 30 : brief ? 44 : 52, { layer, block }, large(52, 30));
        put("norm", inside ? 5 : hit, { layer, block: `${block}_norm` }, inside ? 2 : hit);
      }
      if (!narrow) heading();
    }
  }
  if (s === 1) {
    put("softmax", inside || narrow ? hit : 18, { block: "softmax" });
    const more = tight ? large(14 / Math.min(1, unit), 7) : 0; // a line for what they had
    put("candidates", (inside ? 64 : 70) + more, {}, (inside ? large(58 / Math.min(1, unit), 51) : large(70, 60)) + more); // bars of 20 px
  }
  for (const band of bands) band.unfolded = band.block !== undefined && unfolds(band.block, band.layer);
  const total = () => bands.reduce((sum, { length }) => sum + length, 0) + gap * (bands.length - 1);
  const panel = bands.find(({ unfolded }) => unfolded);
  if (panel) panel.length = panel.least = view.need * view.scale;
  const spare = narrow ? 0 : height - total();
  const text = s || narrow ? 0 : (inside ? 112 : 60 + (TEXT * unit) / w) * unit;
  const grows = bands.filter(({ kind, unfolded }) => kind === "layer" || (kind === "block" && !unfolded));
  const slack = bands.reduce((sum, { length, least }) => sum + length - least, 0) || 1;
  const over = spare - (inside || !s || view.large ? text : -16 * unit); // less is left to smaller type
  if (spare > text) for (const band of grows) band.length += (spare - text) / grows.length;
  else if (over < 0) {
    for (const band of bands) band.length -= (band.length - band.least) * Math.min(1, -over / slack);
  }
  let t = 0;
  for (const band of bands) {
    band.t = t;
    t += band.length + gap;
    band.id = [stack.name, band.layer === undefined ? null : band.layer + 1, band.block ?? band.kind]
      .filter((part) => part !== null).join(".");
  }
  return { bands, length: t - gap };
}
