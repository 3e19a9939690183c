// Where everything stands, in CSS pixels: as figure 1, with one layer of each stack opened.
import { openIn } from "./plan.js";

// Returns: {width, height, blocks, lines, frames, notes}; blocks from the bottom up, encoder first.
export function layOut(view, width, unit) {
  const gap = Math.max(30 * unit, width * 0.08);
  const column = Math.min(330 * unit, (width - gap) / 2);
  const start = (width - 2 * column - gap) / 2;
  const raised = [0, 1].map((s) => raise(view, s, start + s * (column + gap), column, unit));
  const height = Math.max(...raised.map((each) => each.top)) + 6 * unit;
  const plan = { width, height, blocks: [], lines: [], frames: [], notes: [] };
  for (const each of raised) {
    for (const block of each.blocks) plan.blocks.push({ ...block, y: height - block.y - block.h });
    const { x, y, w, h } = each.frame;
    plan.frames.push({ x, y: height - y - h, w, h });
  }
  plan.spines = raised.map((each) => each.spine);
  const at = (s, y) => [plan.spines[s], height - y];
  raised.forEach((each, s) => {
    plan.lines.push({ name: "spine", d: pathOf([at(s, 0), at(s, each.top)]) });
    plan.lines.push(...each.skips.map((skip) => arrow(skip.map(([x, y]) => [x, height - y]))));
    const { x, w } = each.frame;
    const anchor = s === 0 ? "start" : "end";
    const n = `${view.header.stacks[s].tokens.length} × ${view.header.d_model}`;
    plan.notes.push({ x: plan.spines[s] + 6 * unit, y: height - 3 * unit, anchor: "start", text: n });
    const title = `${s ? "Decoder" : "Encoder"} layer ${openIn(view, s) + 1}`;
    const place = s === 0 ? x + 8 * unit : x + w - 8 * unit;
    plan.notes.push({ x: place, y: height - each.frame.y - each.frame.h + 13 * unit, anchor, text: title });
  });
  plan.memory = memoryOf(plan, raised, start + column + gap / 2, unit);
  plan.lines.push(arrow(plan.memory));
  return plan;
}

// One stack, heights counted from its bottom.
function raise(view, s, left, width, unit) {
  const { header } = view;
  const stack = header.stacks[s];
  const open = openIn(view, s);
  const inset = Math.min(30 * unit, width * 0.12);
  const [x, w] = [left + inset, width - 2 * inset];
  const made = { blocks: [], skips: [], spine: left + width / 2, top: 14 * unit };
  const put = (id, height, more) => {
    made.blocks.push({
      id: `${stack.name}.${id}`, stack: s, x, y: made.top, w, h: height * unit, look: "plain", ...more,
    });
    made.top += height * unit;
  };
  const rise = (space) => (made.top += space * unit);
  put("embedding", 24, { words: `${stack.name}.embedding`, page: "tokens" });
  rise(8);
  put("positions", 24, { words: "positions", page: "positions", step: 0 });
  rise(12);
  const plate = Math.max(7, Math.min(16, 96 / stack.depth));
  const plates = (from, to) => {
    for (let layer = from; layer < to; layer++) {
      const step = (layer + 1) * stack.blocks.length;
      put(`layer${layer}`, plate, { words: "layer", look: "plate", layer, step });
      rise(3);
    }
  };
  plates(0, open);
  rise(3);
  const bottom = made.top;
  rise(8);
  stack.blocks.forEach((name, k) => raiseBlock(view, made, { s, name, k, open, put, rise, x, w, unit }));
  rise(14);
  made.frame = { x: left + 2, y: bottom, w: width - 4, h: made.top - bottom };
  rise(5);
  plates(open + 1, stack.depth);
  if (header.pre) {
    rise(4);
    put("final", 18, { words: "final", look: "thin", below: "stream", step: stack.depth * stack.blocks.length, ends: true });
  }
  rise(10);
  if (s === 1) {
    put("linear", 24, { words: "linear", page: "tokens", step: stack.depth * stack.blocks.length, ends: true });
    rise(8);
    put("softmax", 24, { words: "softmax", page: "translate", ends: true });
    rise(10);
  }
  return made;
}

// A sub-layer of the opened layer with its norm, and the way around it.
function raiseBlock(view, made, { s, name, k, open, put, rise, x, w, unit }) {
  const { header } = view;
  const step = open * header.stacks[s].blocks.length + k;
  const place = { k, layer: open };
  const attends = name !== "feed_forward";
  const kind = attends ? { kind: k } : {};
  const from = made.top - 1 * unit;
  rise(5);
  if (header.pre) {
    put(`${name}.norm`, 17, { words: "norm", look: "thin", below: "stream", step, ...place });
    rise(4);
  }
  const stack = header.stacks[s].name;
  if (attends) {
    const words = name === "cross" ? "cross.qkv" : `${stack}.qkv`;
    put(`${name}.qkv`, 15, { words, look: "ports", page: "head", ...kind, ...place, step });
    rise(1);
  }
  const leads = attends ? { page: "attention" } : { below: "ffn" };
  put(name, 34, { words: `${stack}.${name}`, look: "main", ...kind, ...leads, ...place, step });
  rise(4);
  const middle = made.top + 8.5 * unit;
  const words = header.pre ? "add" : "norm";
  put(`${name}.add`, 17, { words, look: "thin", below: "stream", step: step + 1, ...place });
  const side = s === 0 ? x - 10 * unit : x + w + 10 * unit;
  const end = s === 0 ? x : x + w;
  made.skips.push([[made.spine, from], [side, from], [side, middle], [end, middle]]);
  rise(7);
}

// The encoder's output on its way to the keys and values of the decoder's opened layer.
function memoryOf(plan, raised, middle, unit) {
  const ports = plan.blocks.find((block) => block.id === "decoder.cross.qkv");
  const top = plan.height - raised[0].top;
  const y = ports.y + ports.h / 2;
  return [[plan.spines[0], top], [middle, top], [middle, y], [ports.x - 1 * unit, y]];
}

function pathOf(points) {
  return points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

// A line with a small head at its end.
function arrow(points) {
  const [[x0, y0], [x, y]] = points.slice(-2);
  const far = Math.hypot(x - x0, y - y0) || 1;
  const [ux, uy] = [((x - x0) / far) * 5, ((y - y0) / far) * 5];
  const wing = (side) => `M${x - ux - side * uy * 0.7} ${y - uy + side * ux * 0.7}L${x} ${y}`;
  return { name: "way", d: pathOf(points) + wing(1) + wing(-1) };
}
