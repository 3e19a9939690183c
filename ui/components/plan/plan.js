// Figure 1 of the paper for one checkpoint: blocks, arrows, the sentence's tokens, real numbers. A click
// on a block with a page of its own is reported as "open".
import { calm, extend, floatsOf, isOffline, make, modified, onPhone, pageTop, plain, press, rove, shape,
  shown, syncChoice, touching, watch } from "../shared/index.js";
import { layOut } from "./layout.js";
import { lookOf, numberOf, showBlock, titleOf } from "./panel.js";
import { labelPlay, stopTravel, travel } from "./travel.js";

const SCALES = [1.35, 1.25, 1.15, 1.05, 1]; // of type, largest first

function component({ root, header, body }, host) {
  root.halt?.();
  const view = { root, header, numbers: read(header, body), shown: null };
  const choice = syncChoice(host, header);
  view.chosen = clamped(header, choice.value);
  view.alive = !isOffline(header); // an offline page has no other pages to open
  view.choose = (change) => {
    const next = clamped(header, { ...view.chosen, ...change });
    const same = Object.keys(next).every((name) => next[name] === view.chosen[name]);
    view.chosen = next;
    if (!same) choice.set(next);
    draw();
  };
  view.open = (block) => host.setTriggerValue?.("open", targetOf(view, block));
  build(view);
  const draw = () => {
    view.halt();
    fitWindow(view);
    drawTokens(view);
    drawPlan(view);
    showBlock(view, view.shown);
  };
  view.draw = draw;
  root.halt = view.halt = () => stopTravel(view);
  const unwatch = watch(root, draw);
  return () => {
    view.halt();
    unwatch();
  };
}

// The arrays of the body, by stack, with functions that find a number.
function read(header, body) {
  const floats = floatsOf(body);
  let at = 0;
  const take = (length) => floats.subarray(at, (at += length));
  const stacks = header.stacks.map(({ depth, blocks, kinds, tokens }) => {
    const [n, k] = [tokens.length, blocks.length];
    return {
      n, k, kinds: kinds.length,
      norms: take((1 + depth * k) * n),
      added: take(depth * k * n),
      shares: take(depth * k * n),
      fired: take(depth * n),
      looks: take(depth * kinds.length * n * 3),
      leaving: take(n),
    };
  });
  let byte = at * 4;
  stacks.forEach((stack, s) => {
    const { depth, strip } = header.stacks[s];
    const size = (1 + depth * stack.k) * stack.n * strip;
    stack.strips = body.subarray(byte, (byte += size));
  });
  return stacks;
}

function clamped({ stacks }, chosen) {
  const inside = (value, length) =>
    Number.isInteger(value) ? Math.min(length - 1, Math.max(0, value)) : 0;
  return {
    layer: inside(chosen?.layer, Math.max(...stacks.map((stack) => stack.depth))),
    source: inside(chosen?.source, stacks[0].tokens.length),
    row: inside(chosen?.row, stacks[1].tokens.length),
    block: chosen?.block ?? "decoder_ffn",
  };
}

// The position of the chosen token of a stack, and its opened layer.
export function positionIn(view, s) {
  return s === 0 ? view.chosen.source : view.chosen.row;
}

export function openIn(view, s) {
  return Math.min(view.chosen.layer, view.header.stacks[s].depth - 1);
}

// The elements that stay: rows of tokens, the drawing, the panel.
function build(view) {
  const { root, header } = view;
  extend(root, { role: "group", "aria-label": header.label });
  view.svg = shape("svg", { role: "group", "aria-label": "Arrow keys move from block to block." });
  view.rows = [
    tokenRow(view, "predicted", "Predicted tokens", "row", header.predicted),
    tokenRow(view, "source", "Source tokens", "source", header.stacks[0].tokens),
    tokenRow(view, "target", "What the decoder reads", "row", header.stacks[1].tokens),
  ];
  const inputs = make("div", "inputs", view.rows[1], view.rows[2]);
  view.play = make("button", "play", { onclick: () => (view.travel ? view.halt() : travel(view)) });
  view.details = make("div", "details");
  view.end = make("i", "end");
  const picture = make("div", "picture", view.rows[0], view.svg, inputs);
  const panel = make("div", "panel", view.play, view.details);
  root.replaceChildren(make("div", "parts", picture, panel), view.end);
  labelPlay(view);
}

function tokenRow(view, name, label, field, tokens) {
  const choose = (i) => view.choose({ [field]: i });
  const buttons = tokens.map((token, i) =>
    make("button", "token", make("bdi", "", plain(token)), { onclick: () => choose(i) }));
  const row = make("div", `tokens ${name}`, { role: "group", "aria-label": label }, buttons);
  return Object.assign(row, { field, stop: rove(buttons, { choose }) });
}

function drawTokens(view) {
  for (const row of view.rows) {
    const [buttons, chosen] = [[...row.children], view.chosen[row.field]];
    press(buttons, (i) => i === chosen);
    row.stop(chosen);
    const { offsetTop, offsetHeight } = buttons[chosen];
    if (row.scrollHeight > row.clientHeight + 1) {
      row.scrollTop = offsetTop - row.offsetTop - offsetHeight - 2; // whole lines
    }
  }
}

// Type, and the whole drawing with it, as large as lets the drawing end within the window; on a
// phone and where the panel stands below, as large as the page's.
function fitWindow(view) {
  const { root, svg, rows } = view;
  root.style.fontSize = "";
  const whole = rows[1].parentElement.parentElement; // the drawing with its tokens
  if (onPhone() || whole.offsetWidth > 0.9 * root.clientWidth) return;
  const room = window.innerHeight - pageTop(root) - 12;
  const own = parseFloat(getComputedStyle(root).fontSize);
  const heightAt = (scale) => {
    root.style.fontSize = `${own * scale}px`;
    const tokens = Math.max(rows[1].offsetHeight, rows[2].offsetHeight) + rows[0].offsetHeight;
    return tokens + 4 + layOut(view, svg.parentElement.clientWidth, (own * scale) / 14).height;
  };
  SCALES.find((scale) => heightAt(scale) <= room);
}

// The blocks and lines of the present layout.
function drawPlan(view) {
  const { svg, root } = view;
  const unit = parseFloat(getComputedStyle(root).fontSize) / 14;
  const focused = svg.contains(root.getRootNode().activeElement) ? view.shown : null;
  const plan = (view.plan = layOut(view, svg.parentElement.clientWidth, unit));
  const { width, height } = plan;
  extend(svg, { width, height, viewBox: `0 0 ${width} ${height}` });
  const lines = plan.lines.map((line) => shape("path", { class: `line ${line.name}`, d: line.d }));
  const frames = plan.frames.map((frame) =>
    shape("rect", { class: "frame", x: frame.x, y: frame.y, width: frame.w, height: frame.h, rx: 8 }),
  );
  const notes = plan.notes.map((note) =>
    shape("text", { class: "note", x: note.x, y: note.y, "text-anchor": note.anchor }, note.text),
  );
  view.dot = shape("circle", { class: "dot", r: 8 * unit });
  view.marks = new Map(plan.blocks.map((block) => [block.id, drawBlock(view, block, unit)]));
  const names = plan.blocks.map((block) => labels(view, block, unit));
  const texts = shape("g", { class: "texts", "aria-hidden": true }, names);
  svg.replaceChildren(...frames, ...lines, ...notes, ...view.marks.values(), view.dot, texts);
  if (!plan.blocks.some((block) => block.id === view.shown)) view.shown = blockOf(view);
  svg.onpointerleave = ({ pointerType }) => pointerType !== "touch" && !view.travel && showBlock(view, blockOf(view));
  svg.onkeydown = (event) => walk(view, event);
  if (focused) view.marks.get(view.shown)?.focus({ preventScroll: true });
}

function drawBlock(view, block, unit) {
  const words = view.header.words[block.words];
  const { x, y, w, h } = block;
  const box = shape("rect", { class: "box", x, y, width: w, height: h, rx: Math.min(6, h / 3) });
  const show = () => !view.travel && showBlock(view, block.id);
  const mark = shape("g", {
    class: `block ${block.look}`, role: "button", tabindex: -1,
    "aria-label": `${titleOf(view, block)}. ${words.opens}`,
    onpointerenter: show, onfocus: show,
    onclick() { // a finger reads first, and opens what it has read
      if (touching() && view.read !== block.id) view.read = block.id;
      else act(view, block);
    },
  }, box);
  if (block.k !== undefined && block.look === "main") {
    const [width, height] = [w * numberOf(view, block, "shares"), 3 * unit];
    mark.append(shape("rect", { class: "share", x, y: y + h - height, width, height }));
  }
  return mark;
}

// The texts of a block stand above the travelling dot.
function labels(view, block, unit) {
  const words = view.header.words[block.words];
  const { x, y, w, h, look } = block;
  const narrow = w < 175 * unit;
  let name = block.words === "layer" ? `Layer ${block.layer + 1}` : words.name;
  if (narrow) name = name.replace(/multi-head a/i, (text) => (text[0] === "M" ? "A" : "a"));
  const put = (text, className, left, base, anchor) =>
    shape("text", { class: className, x: left, y: base, "text-anchor": anchor }, text);
  const [left, right] = [x + 8 * unit, x + w - 8 * unit];
  if (look === "main") {
    const share = `adds ${Math.round(100 * numberOf(view, block, "shares"))}%`;
    return [
      put(name, "name", left, y + 14 * unit, "start"),
      put(narrow ? "" : words.shape, "size", left, y + 27 * unit, "start"),
      put(share, "size", narrow ? left : right, y + 27 * unit, narrow ? "start" : "end"),
    ];
  }
  const middle = y + h / 2 + 4 * unit;
  if (look === "plate" && h < 12 * unit) return [];
  if (look === "ports") {
    return [...name.split(" ")].map((text, i) =>
      put(text, "size", x + (w * (i + 1)) / 4, middle, "middle"),
    );
  }
  if (look === "thin" || look === "plate") {
    return [put(name, "size", x + w / 2, middle, "middle")];
  }
  return [
    put(name, "name", left, middle, "start"),
    put(narrow ? "" : words.shape, "size", right, middle, "end"),
  ];
}

// What a click does: open a layer, a view below, or a page.
function act(view, block) {
  if (block.words === "layer") {
    view.choose({ layer: block.layer });
  } else if (block.below) {
    view.choose({ block: `${view.header.stacks[block.stack].name}_${block.below}` });
    const behavior = calm() ? "auto" : "smooth";
    if (view.alive) view.end.scrollIntoView({ block: "center", behavior });
  } else if (view.alive) {
    view.open(block);
  }
}

// Where a block leads, as Python's `parse_opened` reads it.
function targetOf(view, block) {
  const kind = block.kind === undefined ? "" : view.header.stacks[block.stack].kinds[block.kind];
  return {
    page: block.page,
    stack: view.header.stacks[block.stack].name,
    kind,
    layer: openIn(view, block.stack),
    head: kind ? lookOf(view, block)[0] : 0,
  };
}

// The block whose view is below.
function blockOf(view) {
  const [stack, below] = view.chosen.block.split("_");
  const found = view.plan.blocks.filter(
    (block) => view.header.stacks[block.stack].name === stack && block.below === below,
  );
  return found.at(-1)?.id ?? view.plan.blocks[0].id;
}

// Arrow keys: up and down within a stack, left and right to the other; Enter and Space click.
function walk(view, event) {
  const blocks = view.plan.blocks;
  const now = blocks.find((block) => block.id === view.shown);
  if (!now || modified(event)) return;
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    act(view, now);
    return;
  }
  const own = blocks.filter((block) => block.stack === now.stack);
  const up = { ArrowUp: 1, ArrowDown: -1 }[event.key];
  let next;
  if (up) next = own[own.indexOf(now) + up];
  else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
    const others = blocks.filter((block) => block.stack === (event.key === "ArrowLeft" ? 0 : 1));
    if (now.stack !== others[0].stack) {
      const far = (block) => Math.abs(block.y + block.h / 2 - now.y - now.h / 2);
      next = others.reduce((best, block) => (far(block) < far(best) ? block : best));
    }
  } else return;
  event.preventDefault();
  if (next) view.marks.get(next.id).focus();
}

export default (host) => shown(host, "plan", component);
