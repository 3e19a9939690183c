// Blocks without heads, unfolded: the network's neurons, Add & Norm, the embedding and the softmax.
import { chance, make, norm, percent, plain, signed } from "../shared/index.js";
import { barOf, tokenOf } from "./marks.js";
import { listOf, vectorRows, wordsIn } from "./unfold.js";

// The neurons that fire most, and the words that they and the whole network promote.
export function drawNetwork(view, body, width) {
  const { data, header, focus } = view;
  const { s, layer } = focus;
  const token = tokenOf(view, s);
  const stack = header.stacks[s];
  const i = data.row(s, token);
  const [neurons, fired] = [data.at(`i.${stack.name}`, layer, i), data.at(`f.${stack.name}`, layer, i)];
  if (!neurons) return;
  const most = Math.max(...fired) || 1;
  const rows = [...neurons].filter((_, n) => fired[n] > 0).map((neuron, n) => {
    const bar = barOf("bar", { width: `${Math.max(0, (Math.min(110, 0.25 * width) * fired[n]) / most)}px` });
    const words = s ? data.words(layer, token, data.part("neuron", n)) : [];
    return make("tr", "", make("th", "", `${neuron + 1}`, { scope: "row" }), make("td", "", bar, fired[n].toFixed(2)),
      ...(words.length ? [wordsIn(words)] : []));
  });
  body.append(
    make("p", "", make("b", "", `${stack.firing[layer][token].toLocaleString("en")} of ${stack.neurons.toLocaleString("en")}`), " neurons are above 0. The strongest:"),
    listOf(["neuron", "fires", ...(rows[0]?.children.length > 2 ? ["promotes"] : [])], rows, { "data-part": "neurons" }),
    pushed(view, layer, token, s),
    ...vectorRows(view, [["adds", "adds", data.added(s, layer, "ffn", token).output]], width, 10),
  );
}

function pushed({ data, header }, layer, row, s) {
  if (!s) return make("p", "quiet", "An encoder's neuron is never multiplied by the output matrix, so it promotes no words.");
  const words = data.words(layer, row, data.part("network"));
  const exact = layer === header.stacks[1].depth - 1 && !header.pre ? "exactly" : "read as if no layer followed";
  return make("p", "", { "data-part": "adds" }, "Together they promote ", words.map(([word, logit], n) =>
    [n ? ", " : "", make("b", "", plain(word)), ` ${signed(logit)}`]), words.length ? make("span", "quiet", ` (${exact})`) : "");
}

// The stream before a block, what the block adds, and the stream after.
export function drawNorm(view, body, width) {
  const { data, header, focus } = view;
  const [token, block] = [tokenOf(view, focus.s), focus.block.replace("_norm", "")];
  const added = data.added(focus.s, focus.layer, block, token);
  if (!added) return;
  const after = header.pre ? [["= x after", "residual", added.after]] : [["= sum", "sum", added.sum], ["LayerNorm", "after", added.after]];
  body.append(...vectorRows(view, [["x before", "before", added.before], ["+ block adds", "adds", added.output], ...after], width, 18));
  const cosine = added.before.reduce((sum, value, c) => sum + value * added.after[c], 0) / (norm(added.before) * norm(added.after) || 1);
  body.append(make("p", "", "The block adds ", make("b", "", percent(added.share)),
    `: ${added.more.toFixed(2)} / (${added.length.toFixed(2)} + ${added.more.toFixed(2)}). The cosine between the stream before and after it is ${cosine.toFixed(2)}.`));
}

// A token's row of the embedding matrix, its position, and their sum.
export function drawEmbedding(view, body, width) {
  const { data, header, focus } = view;
  const token = tokenOf(view, focus.s);
  const [{ name }, i] = [header.stacks[focus.s], data.row(focus.s, token)];
  const [own, sum] = [data.at(`e.${name}`, 0, i), data.at(`x.${name}`, 0, i)];
  if (!own) return;
  const { text, formula } = header.texts[`${name}.embedding`];
  const rows = [[`row of E${text.includes("√") ? ` × √${own.length}` : ""}`, "row", own], ...(formula.includes("PE") ? [[`+ position ${token + 1}`, "position", sum.map((value, c) => value - own[c])]] : []), ["= x", "sum", sum]];
  body.append(...vectorRows(view, rows, width, 22));
}

// The candidates and all other tokens as bars, and the softmax read after every layer.
export function drawSoftmax(view, body) {
  const { header, state } = view;
  const best = header.candidates[state.row];
  const rest = ["everything else", Math.max(0, 1 - best.reduce((sum, [, p]) => sum + p, 0))];
  const bar = (p) => barOf("bar", { "--p": `${100 * p}%` });
  const candidates = [...best, rest].map(([token, p, id], n) => make("tr", "", make("th", "", plain(token), { scope: "row" }),
    make("td", "", bar(p)), make("td", "", percent(p, 2)), make("td", "quiet", id === undefined ? "" : header.logs[state.row][n] === null ? "forbidden" : signed(header.logs[state.row][n])), { "aria-current": id === header.ids[state.row] }));
  const layers = header.lens[state.row].map(([token, p, , rank, own], layer) =>
    make("tr", "", make("th", "", layer ? `layer ${layer}` : "input", { scope: "row" }), make("td", "", plain(token)),
      make("td", "", bar(p)), make("td", "", chance(p)), make("td", "quiet", own), make("td", "quiet", rank.toLocaleString("en")))).reverse();
  body.append(make("div", "beside", listOf(["candidate", "0–100%", "p", "log"], candidates, { "data-part": "candidates" }),
    listOf(["after", "would\u00a0say", "0–100%", "p", plain(header.predicted[state.row]), "rank"], layers, { "data-part": "before" })));
}
