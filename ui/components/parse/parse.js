// A sentence under its tree. The chosen bracket (header.choice, a node) lights the words that the
// model looked at when it wrote that bracket; the panel beside names them. The body has one row of
// float32 a node, over the words and `</s>`, -1 where the model did not write the node.
import { classHeight, colourOf, floatsOf, inkOn, make, percent, plain, rowOf, shape, shown, syncChoice, themeOf, watch, weightLevel,
  widthsIn } from "../shared/index.js";

const LEVEL = 2.6; // from one level of the tree to the next, in em
const [SMALLEST, LARGEST] = [0.9, 1.45]; // of an em, to fit the view; a longer sentence scrolls

function component({ root, header, body }, host) {
  const choice = syncChoice(host, header);
  const picture = make("div", "picture scrolls");
  const panel = make("div", "panel", { "aria-live": "polite" });
  root.replaceChildren(make("div", "parts", picture, panel));
  const view = { root, header, picture, panel, weights: floatsOf(body), shown: null };
  view.chosen = header.nodes[choice.value] ? choice.value : 0;
  view.choose = (at) => {
    if (at !== view.chosen) choice.set(at);
    view.chosen = at;
    show(view, at);
  };
  return watch(root, () => draw(view));
}

// Phrases that are more often wrong than right, and numbers that would stand over most phrases.
const unsure = (node) => !node.word && node.p < 0.5;
const silent = (node) => node.word || node.p >= 0.9;

// The size of an em at which the tree fills the view, as far as it may grow.
function fitting(view) {
  const unit = parseFloat(getComputedStyle(view.root).fontSize);
  const scale = view.picture.clientWidth / placed(view, unit).width;
  return unit * Math.min(LARGEST, Math.max(SMALLEST, 0.96 * scale));
}

// The level of every node above the words, and its position; `unit` is an em in pixels.
function placed(view, unit) {
  const { nodes, words } = view.header;
  const wide = widthsIn(`${unit}px ${getComputedStyle(view.root).fontFamily}`);
  const tags = new Map(nodes.filter((node) => node.word).map((node) => [node.first, node.label]));
  let x = 0.3 * unit;
  const columns = words.map((word, at) => {
    const width = Math.max(wide(word), 0.85 * wide(tags.get(at) ?? "")) + 0.7 * unit;
    const column = { x: x + width / 2, width };
    x += width + unit / 2;
    return column;
  });
  const end = { x: x + 1.3 * unit, width: 2.4 * unit };
  const places = nodes.map(() => ({ level: 0, x: 0, children: [] }));
  nodes.forEach((node, at) => node.parent >= 0 && places[node.parent].children.push(at));
  for (let at = nodes.length - 1; at >= 0; at--) {
    const { children } = places[at];
    if (!children.length) {
      places[at].x = columns[nodes[at].first].x;
      continue;
    }
    places[at].level = 1 + Math.max(...children.map((child) => places[child].level));
    places[at].x = (places[children[0]].x + places[children.at(-1)].x) / 2;
  }
  const levels = places[0].level + 1;
  const level = Math.max(LEVEL, (classHeight(view.root, 4) / unit - 2.6) / levels);
  const height = (levels * level + 2.6) * unit;
  for (const place of places) place.y = height - (3.4 + place.level * level) * unit;
  return { columns, end, places, height, unit, width: end.x + 1.6 * unit };
}

function draw(view) {
  const { header, picture } = view;
  const unit = fitting(view);
  const plan = (view.plan = placed(view, unit));
  const words = [...header.words, "</s>"];
  view.lines = header.nodes.map((node, at) => {
    if (node.parent < 0) return null;
    const [from, to] = [plan.places[node.parent], plan.places[at]];
    // Right angles: a word far from its phrase would otherwise cross the phrases between.
    const d = `M${from.x} ${from.y + 0.4 * unit}v${0.35 * unit}H${to.x}V${to.y - 0.95 * unit}`;
    return shape("path", { d, class: unsure(node) ? "unsure" : "" });
  });
  view.cells = words.map((word, at) => {
    const { x, width } = plan.columns[at] ?? plan.end;
    const [top, bottom] = [plan.height - 2.6 * unit, plan.height - 1.4 * unit];
    const box = shape("rect", { x: x - width / 2, y: top, width, height: 1.75 * unit, rx: 4 });
    const text = shape("text", { x, y: bottom, "text-anchor": "middle" }, word);
    return { box, text, word };
  });
  view.marks = header.nodes.map((node, at) => {
    const { x, y } = plan.places[at];
    const width = (0.7 + 0.62 * Math.max(1.6, node.label.length)) * unit;
    return shape("g", {
      class: node.word ? "node tag" : "node", role: "button", tabindex: -1,
      "aria-label": [node.label, node.gloss, `“${node.text}”`, percent(node.p)].filter(Boolean).join(", "),
      // Moves only: a node that is drawn anew under a resting mouse is not pointed at.
      onpointermove: (event) => event.pointerType === "mouse" && view.shown !== at && show(view, at),
      onpointerleave: (event) => event.pointerType === "mouse" && show(view, view.chosen),
      onclick: () => view.choose(at),
      onkeydown: (event) => walk(view, at, event),
    }, shape("rect", { x: x - width / 2, y: y - 0.98 * unit, width, height: 1.35 * unit, rx: 5 }),
    shape("text", { x, y, "text-anchor": "middle" }, node.label),
    silent(node) ? ""
      : shape("text", { class: "sure", x: x + 0.2 * unit, y: y - 1.05 * unit }, percent(node.p)));
  });
  const cells = view.cells.map(({ box, text }, at) =>
    shape("g", { class: at < header.words.length ? "word" : "word end" }, box, text));
  const about = { width: plan.width, height: plan.height, role: "group", "aria-label": header.label };
  const lines = shape("g", { class: "lines" }, view.lines.filter(Boolean));
  const svg = shape("svg", about, lines, cells, view.marks);
  svg.style.fontSize = `${unit}px`;
  const focused = picture.contains(view.root.getRootNode().activeElement);
  picture.replaceChildren(svg);
  show(view, view.chosen);
  if (focused) view.marks[view.chosen].focus({ preventScroll: true });
}

// Arrows: up to the phrase around, down into it, left and right to its neighbours.
function walk(view, at, event) {
  const { places } = view.plan;
  const { parent } = view.header.nodes[at];
  const beside = parent < 0 ? [at] : places[parent].children;
  const next = {
    ArrowUp: parent < 0 ? at : parent,
    ArrowDown: places[at].children[0] ?? at,
    ArrowLeft: beside[beside.indexOf(at) - 1] ?? at,
    ArrowRight: beside[beside.indexOf(at) + 1] ?? at,
    Enter: at,
    " ": at,
  }[event.key];
  if (next === undefined) return;
  event.preventDefault();
  event.stopPropagation();
  view.choose(next);
  view.marks[next].focus({ preventScroll: true });
  view.marks[next].scrollIntoView({ block: "nearest", inline: "nearest" });
}

// Light the words of a node, mark its part of the tree, and fill the panel.
function show(view, at) {
  view.shown = at;
  const { header, weights, cells } = view;
  const theme = themeOf(view.root);
  const row = rowOf(weights, at, cells.length);
  const written = row[0] >= 0;
  cells.forEach(({ box, text }, j) => {
    const colour = written ? colourOf(header.colours[theme], weightLevel(row[j])) : "";
    box.setAttribute("fill", colour || "none");
    text.style.fill = colour ? inkOn(colour) : "";
  });
  const below = (child) => {
    for (let up = child; up >= 0; up = header.nodes[up].parent) if (up === at) return true;
    return false;
  };
  view.lines.forEach((line, child) => line?.classList.toggle("on", child !== at && below(child)));
  view.marks.forEach((mark, each) => {
    mark.classList.toggle("on", each === at);
    mark.setAttribute("aria-pressed", String(each === view.chosen));
    mark.setAttribute("tabindex", each === view.chosen ? 0 : -1);
  });
  fill(view, at, written ? row : null);
}

function fill(view, at, row) {
  const node = view.header.nodes[at];
  const head = make("h3", "", node.gloss ? `${node.label}: ${node.gloss}` : node.label);
  const parts = [head, make("p", "of", `“${node.text}”`)];
  if (!row) {
    parts.push(make("p", "", "The model did not write this bracket; it was added to make a tree."));
  } else {
    const sure = node.word ? `The model gives this tag a probability of ${percent(node.p)}.`
      : `Of phrases this certain, ${percent(node.p)} are right.`;
    parts.push(make("p", "", `${sure} To write it, the model looked at`));
    const order = view.cells.map((_, j) => j).sort((a, b) => row[b] - row[a]).slice(0, 5);
    const lines = order.map((j) => {
      const bar = make("i");
      bar.style.width = `${100 * row[j]}%`;
      const word = make("bdi", "", view.cells[j].word);
      return make("tr", "", make("th", "", word), make("td", "bar", bar), make("td", "share", percent(row[j])));
    });
    const label = make("bdi", "", plain(node.row));
    parts.push(make("table", "looks", lines),
      make("p", "quiet", `${view.header.where}; the row `, label, "."));
  }
  view.panel.replaceChildren(...parts);
}

export default (host) => shown(host, "parse", component);
