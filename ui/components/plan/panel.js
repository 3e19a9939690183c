// The words and numbers of one block for the chosen token.
import { canvasOfImage, fourDigits, imageOf, make, plain, themeOf, wordsOf } from "../shared/index.js";
import { positionIn } from "./plan.js";

export function titleOf(view, block) {
  const words = view.header.words[block.words];
  const stack = view.header.stacks[block.stack].name;
  const where = stack[0].toUpperCase() + stack.slice(1);
  if (block.words === "layer") return `${where}, layer ${block.layer + 1}`;
  const layer = block.layer === undefined ? "" : ` layer ${block.layer + 1}`;
  return `${where}${layer}: ${words.name}`;
}

// A number of the chosen token at a block: "shares", "added" or "fired".
export function numberOf(view, block, name) {
  const stack = view.numbers[block.stack];
  const i = positionIn(view, block.stack);
  const line = name === "fired" ? block.layer : block.layer * stack.k + block.k;
  return stack[name][line * stack.n + i];
}

function normOf(view, s, step) {
  const stack = view.numbers[s];
  return stack.norms[step * stack.n + positionIn(view, s)];
}

// The head, key and weight of the largest weight of the chosen query.
export function lookOf(view, block) {
  const stack = view.numbers[block.stack];
  const at = (block.layer * stack.kinds + block.kind) * stack.n + positionIn(view, block.stack);
  return stack.looks.subarray(3 * at, 3 * at + 3);
}

export function showBlock(view, id) {
  const block = view.plan.blocks.find((each) => each.id === id);
  if (!block) return;
  view.shown = id;
  for (const [name, mark] of view.marks) {
    mark.classList.toggle("shown", name === id);
    mark.setAttribute("tabindex", name === id ? 0 : -1);
  }
  const words = view.header.words[block.words];
  const { header, chosen } = view;
  const own = header.stacks[block.stack].tokens[positionIn(view, block.stack)];
  const token = make("p", "of", "for ", make("bdi", "", plain(own)));
  if (block.stack === 1) token.append(" → ", make("bdi", "", plain(header.predicted[chosen.row])));
  const rows = factsOf(view, block).map(([name, value]) =>
    make("tr", "", make("th", "", name), make("td", "", value)));
  const facts = make("table", "facts", rows);
  const opens = view.alive || block.words === "layer" ? [make("p", "opens", words.opens)] : [];
  view.details.replaceChildren(
    make("h3", "", titleOf(view, block)),
    token,
    make("p", "", words.text),
    facts,
    ...stripOf(view, block),
    make("p", "quiet", words.section),
    ...opens,
  );
}

function factsOf(view, block) {
  const { header } = view;
  const stack = header.stacks[block.stack];
  const tensor = ["tensor", `${stack.tokens.length} × ${header.d_model}`];
  const length = (name, value) => [name, fourDigits(value)];
  const norm = (step) => normOf(view, block.stack, step);
  const leaving = view.numbers[block.stack].leaving[positionIn(view, block.stack)];
  if (block.words === "linear") return [tensor, length("length in", leaving)];
  if (block.words === "softmax") {
    const [p, next] = [header.probabilities, header.predicted].map((each) => each[view.chosen.row]);
    return [["predicts", plain(next)], ["probability", `${(100 * p).toFixed(1)}%`]];
  }
  if (block.look === "main") {
    return [
      tensor,
      length("length in", norm(block.step)),
      length("length added", numberOf(view, block, "added")),
      ["share added", `${(100 * numberOf(view, block, "shares")).toFixed(1)}%`],
      length("length out", norm(block.step + 1)),
      block.kind === undefined
        ? ["neurons above 0", `${numberOf(view, block, "fired")} of ${header.neurons[block.stack]}`]
        : ["looks most", mostSeen(view, block)],
    ];
  }
  if (block.look === "ports") return [["looks most", mostSeen(view, block)]];
  if (block.words === "final") {
    return [tensor, length("length in", norm(block.step)), length("length out", leaving)];
  }
  return block.step === undefined ? [tensor] : [tensor, length("length", norm(block.step))];
}

function mostSeen(view, block) {
  const [head, key, weight] = lookOf(view, block);
  const kind = view.header.stacks[block.stack].kinds[block.kind];
  const keys = view.header.stacks[kind === "decoder_self" ? 1 : 0].tokens;
  return `head ${head + 1} at ${plain(keys[key])}, ${(100 * weight).toFixed(0)}%`;
}

// The stream at a block as a strip of colours: the numbers themselves.
function stripOf(view, block) {
  if (block.step === undefined) return [];
  const { strip } = view.header.stacks[block.stack];
  const stack = view.numbers[block.stack];
  const step = block.look === "main" ? block.step + 1 : block.step;
  const from = (step * stack.n + positionIn(view, block.stack)) * strip;
  const table = view.header.signed[themeOf(view.root)];
  const canvas = make("canvas", "strip", { "aria-hidden": true });
  const words = wordsOf(table);
  canvasOfImage(imageOf(1, strip, (i) => words[stack.strips[from + i]]), canvas);
  const all = view.header.d_model;
  const what = strip < all ? `Its first ${strip} of ${all} numbers here` : `Its ${all} numbers here`;
  return [canvas, make("p", "quiet", what)];
}
