// Inside a head: the stages of attention for one query, from the tokens' vectors to W_O. Choosing a key
// or moving the divisor redraws every stage here.
import { alignParts, cellUnder, colourOf, extend, floatsOf, fourDigits, groupOf, make, modified, rolesOf, shown,
  spokenList, syncChoice, themed, watch, wordsOf } from "../shared/index.js";
import { divisorSlider, weighed } from "./divisor.js";
import { equations } from "./equations.js";
import { drawStage, note } from "./pictures.js";

function component({ root, header, body }, host) {
  const choice = syncChoice(host, header);
  const numbers = read(header, body);
  const view = { root, header, numbers, pointed: null, ...clamped(header, choice.value) };
  const sliding = root.getRootNode().activeElement?.matches("input.divisor");
  const rows = build(root, view);
  const spoken = spokenList(`The keys of the query ${header.query}`);
  root.append(spoken.element);

  const draw = () => {
    view.look = look(root, header);
    view.used = weighed(view, view.divisor);
    root.dataset.apart = view.used.weights.reduce( // from the model's weights
      (most, a, j) => Math.max(most, Math.abs(a - numbers.weights[j])), 0,
    );
    for (const row of rows) row.draw();
    slider.show();
    spoken.write(header.keys.map((key, j) => `key ${j + 1} ${key}: q · k ${fourDigits(numbers.dots[j])}, after the division ` +
      `${fourDigits(view.used.logits[j])}, weight ${fourDigits(view.used.weights[j])}`));
    if (header.group) alignParts(groupOf("stages", header.group, { root }), ".stage");
  };
  const choose = (next) => {
    Object.assign(view, next);
    choice.set({ key: view.key, divisor: view.divisor === header.root ? null : view.divisor });
    draw();
  };
  view.chooseKey = (key) => {
    if (key !== view.key && key >= 0 && key < header.keys.length) choose({ key });
  };
  const slider = divisorSlider(root.querySelector(".divide-by"), view, {
    move: (divisor) => { // on the way: drawn here, reported once it is let go
      view.divisor = divisor;
      draw();
    },
    choose,
  });
  if (sliding) slider.input.focus({ preventScroll: true });
  root.onkeydown = (event) => {
    if (event.target === slider.input) return;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || modified(event)) return;
    event.preventDefault();
    view.chooseKey(view.key + step);
  };
  return watch(root, draw);
}

function read(header, body) {
  const [model, keys, k, v] = header.sizes;
  const all = floatsOf(body);
  let at = 0;
  const take = (length) => all.subarray(at, (at += length));
  return {
    xQuery: take(model),
    xKeys: take(keys * model),
    q: take(k),
    keys: take(keys * k),
    values: take(keys * v),
    dots: take(keys),
    weights: take(keys), // of the model
    wO: take(v * model),
    together: take(model),
  };
}

function clamped(header, choice) {
  const key = Number.isInteger(choice?.key) && choice.key < header.keys.length ? choice.key : 0;
  const stored = choice?.divisor; // null for the model's
  return { key, divisor: Number.isFinite(stored) ? Math.min(2 * header.root, Math.max(1, stored)) : header.root };
}

// The section of every stage. Returns: [{draw}].
function build(root, view) {
  const { header } = view;
  const rows = [];
  const sections = header.stages.map((stage, i) => {
    const skipped = stage.id === "mask" && header.unmasked;
    const words = make("div", "words", make("h3", "", `${i + 1}  ${stage.title}`),
      skipped || !header.group ? make("p", "", skipped ? header.unmasked : stage.text) : [],
      equations(stage.id, header), stage.id === "divide" ? make("div", "divide-by") : [],
      header.group ? [] : make("p", "source", stage.section));
    const picture = make("div", "picture");
    if (!skipped) {
      const canvas = make("canvas", "", { role: "img" });
      const readout = make("p", "readout");
      const cursor = make("div", "cursor", { hidden: "" });
      const table = stage.id === "divide" ? make("table", "facts") : [];
      extend(picture, canvas, cursor, readout, table);
      const row = { view, stage: stage.id, canvas, cursor, readout, picture, areas: [] };
      listen(row);
      rows.push({ draw: () => drawStage(row) });
    }
    return make("section", `stage ${stage.id}`, words, picture);
  });
  const label = `${header.label}. Left and right arrow keys choose the key.`;
  extend(root, { tabindex: 0, role: "group", "aria-label": label });
  const size = header.difference === 0 ? "0" : header.difference.toExponential(1);
  root.replaceChildren(make("div", "list", sections), make("p", "check",
    `The weights of stage 6, with the division, differ from the recorded attention map by ${size} at most.`));
  return rows;
}

// Hovering shows the number under the pointer; clicking a key chooses it.
function listen(row) {
  const { canvas, view } = row;
  const under = (event) => {
    for (const { name, isKey, cells } of row.areas) {
      const cell = cellUnder(event, { canvas, cells });
      if (cell) return { stage: row.stage, area: name, line: cell[0], column: cell[1], isKey };
    }
    return null;
  };
  canvas.onpointermove = canvas.onpointerdown = (event) => {
    const at = under(event);
    canvas.style.cursor = at?.isKey ? "pointer" : "default";
    if (JSON.stringify(at) === JSON.stringify(view.pointed)) return;
    view.pointed = at;
    note(row);
  };
  canvas.onpointerleave = ({ pointerType }) => {
    if (pointerType === "touch") return; // lifted; what it touched stays read
    view.pointed = null;
    note(row);
  };
  canvas.onclick = (event) => {
    const at = under(event);
    if (at?.isKey) view.chooseKey(at.column);
  };
}

function look(root, header) {
  const themes = themed(root);
  const signed = header.signed[themes.theme];
  const [negative, positive] = [colourOf(signed, 40), colourOf(signed, 215)];
  const roles = rolesOf(root, header, themes.theme);
  return { ...themes, negative, positive, roles, signed: wordsOf(signed) };
}

export default (host) => shown(host, "stages", component);
