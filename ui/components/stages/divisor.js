// What q · k is divided by: a slider, and the weights, output and contribution that follow.
import { make } from "../shared/index.js";

const SNAP = 0.03; // of the slider's range: so near the model's own divisor, a drag stays on it

// What follows from dividing q · k by a number: {logits, weights, output, contribution}.
export function weighed({ header, numbers }, divisor) {
  const [model, keys, , v] = header.sizes;
  const relative = header.relative; // what a distance adds, in models with relative positions
  const logits = Float64Array.from(numbers.dots, (dot, j) => dot / divisor + (relative ? relative[j] : 0));
  const top = logits.reduce((most, e, j) => (header.mask[j] ? Math.max(most, e) : most), -Infinity);
  const weights = logits.map((e, j) => (header.mask[j] ? Math.exp(e - top) : 0));
  const sum = weights.reduce((all, each) => all + each, 0);
  const [output, contribution] = [new Float64Array(v), new Float64Array(model)];
  for (let j = 0; j < keys; j++) {
    weights[j] /= sum;
    for (let c = 0; c < v; c++) output[c] += weights[j] * numbers.values[j * v + c];
  }
  for (let c = 0; c < v; c++) {
    for (let i = 0; i < model; i++) contribution[i] += header.gate * output[c] * numbers.wO[c * model + i];
  }
  return { logits, weights, output, contribution };
}

// Sharpness of weights, as in transformer/measures/heads.py.
export function spreadOf(weights) {
  let [entropy, slope] = [0, 0];
  for (const a of weights) {
    if (a > 0) entropy -= a * Math.log2(a);
    slope += a * (1 - a);
  }
  return { entropy: Math.max(0, entropy), largest: Math.max(...weights), slope };
}

// The divisor as text, by name where it has one.
export function divisorName({ header, divisor }) {
  if (divisor === header.root) return `√${header.sizes[2]}`;
  return divisor === 1 ? "1" : divisor.toFixed(2);
}

// The slider and the three divisors that have names. Returns: {input, show}.
export function divisorSlider(place, view, { move, choose }) {
  const { root, sizes } = view.header;
  const shown = make("output");
  const range = { type: "range", min: 1, max: 2 * root, step: "any" };
  const input = make("input", "divisor", range, { "aria-label": "Divide q · k by" });
  const label = make("label", "", make("span", "", "Divide q · k by "), shown, input);
  const near = SNAP * (2 * root - 1);
  let dragged = false; // keys step past the model's divisor, a pointer stays on it
  const read = () => {
    const value = Math.min(2 * root, Number(Number(input.value).toFixed(2)));
    return Math.abs(value - root) <= (dragged ? near : near / 7) ? root : value;
  };
  input.onpointerdown = input.onkeydown = ({ type }) => {
    dragged = type === "pointerdown";
  };
  input.oninput = () => move(read());
  input.onchange = () => choose({ divisor: read() });
  const named = [["1", 1], [`√${sizes[2]}`, root], [`2√${sizes[2]}`, 2 * root]];
  const marks = make("div", "marks", named.map(([text, divisor]) => make("button", "mark", text, {
    "aria-label": `Divide by ${text}`, onclick: () => choose({ divisor }),
  })));
  marks.style.setProperty("--own", (root - 1) / (2 * root - 1));
  place.append(label, marks);
  return {
    input,
    show() {
      input.value = view.divisor;
      const own = view.divisor === root;
      shown.textContent = own ? `√${sizes[2]} = ${root.toFixed(2)}, as the model does` : divisorName(view);
      input.setAttribute("aria-valuetext", shown.textContent);
    },
  };
}
