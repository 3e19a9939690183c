// The text that points: a block's name, what it does, its formula, and the numbers of the chosen token.
import { chance, make, percent, plain, setBox, signed } from "../shared/index.js";
import { partNow } from "./draw.js";
import { mostSeen, textOf, titleOf, tokenOf, tokenText } from "./marks.js";

const NAMES = { self: "attention", cross: "cross-attention", ffn: "feed-forward" };

// A formula whose symbols light the parts of the picture, and are lit by them.
export function formulaOf(view, { formula }) {
  const parts = formula.split(/(\[[^\]]+\])/).map((run) => {
    const symbol = run.match(/^\[(.+):(\w+)\]$/);
    if (!symbol) return run;
    const [, text, part] = symbol;
    return make("span", `symbol ${"qkv".includes(part) ? part : ""}`, text, {
      "data-part": part, tabindex: -1,
      onpointerenter: () => view.light(part), onpointerleave: () => view.light(null),
    });
  });
  return make("p", "formula", parts);
}

export function fillCard(view) {
  const { plan, header } = view;
  const scene = view.film && !view.hover && !view.focus.block;
  const part = scene && view.film.landed ? { s: 1, block: "softmax" } : view.hover ?? partNow(view);
  view.card.hidden = plan.card.h < 50;
  if (view.card.hidden) return;
  setBox(view.card, plan.card.x, plan.card.y, plan.card.w, plan.card.h);
  const text = textOf(view, part);
  const long = "A long text: queries, keys and values are left out, and choosing a token is a request.";
  view.card.replaceChildren(
    make("h3", "", titleOf(view, part)),
    ...(header.stacks.some(({ rows }) => rows) ? [make("p", "quiet", long)] : []),
    ...(scene ? [] : [make("p", "", text.text, " ", make("span", "quiet", text.section))]),
    ...(plan.low || scene ? [] : [formulaOf(view, text)]),
    scene && !part.block ? sceneOf(view, part) : factsOf(view, part),
  );
  while (view.card.scrollHeight > view.card.clientHeight + 1 && view.card.children.length > 2) view.card.lastChild.previousSibling.remove();
}

// What a film's layer does to the chosen token.
function sceneOf(view, { s, layer }) {
  const bold = (text) => make("b", "", text);
  const looks = (block) => {
    const [token, weight] = mostSeen(view, s, layer, block);
    return [bold(token), ` (${weight})`];
  };
  const say = (...parts) => make("p", "", bold(tokenText(view, s)), parts);
  if (!s) return say(" looks most at ", looks("self"), ", mean over heads. All source tokens do this at once.");
  const [guess, p] = view.header.lens[view.state.row][layer];
  const before = layer ? [" Best guess so far: ", bold(plain(guess)), `, ${chance(p)}.`] : [];
  return say(" looks most at ", looks("self"), " in the translation and ", looks("cross"), " in the source.", before);
}

// What happens to the chosen token there, in a sentence.
function factsOf(view, { s, layer, block }) {
  const { header, state, data } = view;
  const bold = (text) => make("b", "", plain(text));
  const [token, chosen] = [bold(tokenText(view, s)), bold(header.predicted[state.row])];
  const say = (...parts) => make("p", "facts", parts.flat(2));
  if (block === "softmax") {
    const [first, most, id] = header.candidates[state.row][0];
    const passed = id === header.ids[state.row] ? [] : [" The most probable is ", bold(first), `, ${chance(most)}.`];
    return say("After ", token, ", the softmax gives ", chosen, ` ${chance(header.probabilities[state.row])}.`, passed);
  }
  if (block === "embedding") return say(`Here: ${tokenText(view, s)}, position ${tokenOf(view, s) + 1}.`);
  // The logits that parts add to the chosen token: none in the encoder, or if nothing was read.
  const own = (s && data.at("p", layer, data.row(1, state.row))) || [];
  const raised = { ffn: own[data.part("network")], self: own.at(-2), cross: own.at(-1) };
  const known = (block ? [block.replace("_norm", "")] : header.stacks[s].blocks)
    .map((name) => [name, data.added(s, layer, name, tokenOf(view, s)), raised[name]]).filter(([, added]) => added);
  if (block) {
    const [[name, added, logit] = []] = known;
    const words = s && name === "ffn" ? data.words(layer, state.row, data.part("network")) : [];
    return say("At ", token, ` this block adds ${added ? percent(added.share) : ""}`,
      logit === undefined ? "" : [`, and ${logit < 0 ? "lowers" : "raises"} the chosen `, chosen, ` by ${Math.abs(logit).toFixed(2)} (logit)`], ".",
      words.length ? [" It raises ", bold(words[0][0]), ` most, by ${words[0][1].toFixed(2)}.`] : "");
  }
  const off = view.alive ? make("button", "tool", "Heads off", { onclick: () => view.send("open", { page: "removals", stack: "decoder", kind: "", layer: 0, head: 0 }) }) : "Heads off";
  const matter = [" Adding much need not matter: ", off, "."];
  const adds = known.map(([name, { share }], n) => `${NAMES[name]} ${n ? "" : "adds "}${percent(share)}`).join(", ");
  if (!s) return say("At ", token, ` ${adds}.`, matter);
  const [[, , , , before], [guess, p, , rank, after]] = header.lens[state.row].slice(layer);
  const logits = own.length ? [`, and ${known.map(([, , logit]) => signed(logit)).join(", ")} to the logit of `] : [". The layer takes "];
  return say("At ", token, ` ${adds}`, logits, "the chosen ", chosen, own.length ? [". The layer takes ", chosen.cloneNode(true)] : "", ` from ${before} to ${after}`,
    rank > 1 ? [" (best guess ", bold(guess), `, ${chance(p)})`] : "", ".", matter);
}
