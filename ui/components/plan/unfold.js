// What is unfolded: a panel in place of a block, as high as its numbers for the chosen token.
import { cellUnder, drawMap, largest, make, norm, plain, sharp, signedLevel, startsOf, wordsOf } from "../shared/index.js";
import { drawAttention } from "./attention.js";
import { formulaOf } from "./card.js";
import { isAhead } from "./draw.js";
import { textOf, titleOf, tokenText } from "./marks.js";
import { drawEmbedding, drawNetwork, drawNorm, drawSoftmax } from "./network.js";

const DRAW = { self: drawAttention, cross: drawAttention, ffn: drawNetwork, softmax: drawSoftmax, embedding: drawEmbedding };

// Fills the panel and measures the height that it needs.
export function fillPanel(view) {
  const band = view.plan.panel;
  view.panel.hidden = !band;
  if (!band) {
    view.shown = null;
    return view.panel.replaceChildren();
  }
  Object.assign(view.panel.style, { width: `${band.w}px`, height: "auto" });
  const { focus, state } = view;
  view.held = isAhead(view, view.plan.stacks[focus.s], band); // the last step's numbers, until the film's come
  const none = (view.none = view.held && (!focus.s || view.film.row < 1));
  if (view.held && !none) view.state = { ...state, row: state.row - 1 };
  const { name } = view.header.stacks[focus.s];
  const heads = focus.head === null ? "attention" : "head";
  const title = titleOf(view, focus);
  const next = focus.s && !view.held ? [make("span", "next", ` → ${plain(view.header.predicted[view.state.row])}`)] : [];
  view.panel.setAttribute("aria-label", title);
  const fresh = view.shown !== view.state.focus;
  view.shown = view.state.focus;
  const page = { self: heads, cross: heads, embedding: "positions", softmax: "why", ffn: "removals" }[focus.block] ?? "layers";
  const kind = view.kinds[`${name}.${focus.block}`] ?? "";
  const open = () => view.send("open", { page, stack: name, kind, layer: focus.layer, head: focus.head ?? 0 });
  const tools = [
    ...(view.alive ? [make("button", "tool", band.w < 420 * view.plan.unit ? "Page" : "Open as a page", { "aria-label": "Open as a page", onclick: open })] : []),
    make("button", "tool fold", "Fold", { title: "Fold (Escape)", onclick: () => view.unfold(null) }),
  ];
  const note = make("span", "quiet", view.held && !none ? `as at step ${view.state.row + 1}` : none ? `empty until ${band.layer === undefined ? "the film comes" : `${name} layer ${band.layer + 1}`}` : "");
  const body = make("div", `body scrolls${none ? " empty" : ""}`, none ? { inert: "" } : {}); // sideways, in large type on a phone
  view.panel.replaceChildren(
    make("header", "", make("h3", "", title.replace(/^..coder l/, "L"), " ", none ? "" : make("span", "of", tokenText(view, focus.s), next)), note, tools),
    ...(view.plan.low ? [formulaOf(view, textOf(view, focus))] : []), body,
  );
  (DRAW[focus.block] ?? drawNorm)(view, body, band.w - 24);
  view.state = state;
  if (body.scrollWidth > body.clientWidth) body.tabIndex = 0;
  view.ways = { keys: waysOf(view.panel, "keys"), query: waysOf(view.panel, "query") };
  const high = (Math.ceil(view.panel.getBoundingClientRect().height) + 1) / view.scale;
  view.need = view.film && !fresh ? Math.max(high, view.need) : high; // a film's panel keeps its height
  if (fresh && view.alive && !view.film) view.panel.animate?.([{ opacity: 0.2 }, { opacity: 1 }], { duration: 180 });
  for (const part of body.querySelectorAll("[data-part]")) {
    part.onpointermove = () => view.lit !== part.dataset.part && view.light(part.dataset.part); // not when it opens under the pointer
    part.onpointerleave = () => view.light(null);
  }
}

// Where "keys" or the "query" enter a panel's maps or cells, {y, right, part} in the panel: in a row, at the last.
function waysOf(panel, name) {
  const { left, top } = panel.getBoundingClientRect();
  return [...new Map([...panel.querySelectorAll(`[data-${name}]`)].map((canvas) => {
    const box = canvas.getBoundingClientRect();
    const y = box.top - top + box.height * canvas.dataset[name];
    return [y, { right: box.right - left, y, part: canvas.dataset.part }];
  })).values()];
}

// Numbers as cells on the diverging scale, from -most to most: [rows, columns] in a box.
export function cellsOf(view, values, rows, columns, width, height, part, most = largest(values)) {
  const canvas = make("canvas", "numbers", { "data-part": part, "aria-hidden": "true" });
  const pen = sharp(canvas, width, height);
  const words = wordsOf(view.header.signed[view.look.theme]);
  drawMap(pen, rows, columns, [0, 0, width, height], (cell) => words[signedLevel(values[cell], most)],
    (cell) => Math.abs(values[cell]));
  const [w, h] = [width / columns, height / rows];
  const cells = { xs: startsOf(columns, w), ys: startsOf(rows, h), w, h };
  canvas.onpointermove = (event) => {
    const [row, column] = cellUnder(event, { canvas, cells }) ?? [];
    if (column === undefined) return;
    canvas.title = `${rows > 1 ? `${row + 1}, ` : ""}${column + 1}: ${values[row * columns + column].toFixed(3)}`;
  };
  return canvas;
}

// Vectors, [name, part, values], with their lengths as lines of cells on one scale.
export function vectorRows(view, rows, width, height) {
  const most = Math.max(...rows.map(([, , values]) => largest(values)));
  return rows.map(([name, part, values]) => make("div", "vector", { "data-part": part }, make("span", `label ${part}`, name),
    cellsOf(view, values, 1, values.length, width - 176 * Math.max(1, view.plan.unit), height, part, most), make("span", "size", `length ${norm(values).toFixed(2)}`)));
}

// A table of rows, below the names of its columns.
export function listOf(names, rows, more = {}) {
  const head = names.map((name) => make("th", "", name, { scope: "col" }));
  return make("table", "list", make("thead", "", make("tr", "", head)), make("tbody", "", rows), more);
}

// Words in a cell: as many as fit, none cut off.
export function wordsIn(words) {
  return make("td", "quiet", make("div", "words", words.map(([word]) => [make("span", "", plain(word)), " "])));
}
