// The text that points: a block's name, what it does, its formula, and the numbers of the chosen token.
import { chance, make, percent, plain, setBox } from "../shared/index.js";
import { partNow } from "./draw.js";
import { mostSeen, textOf, titleOf, tokenOf, tokenText } from "./marks.js";

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
  const token = make("b", "", tokenText(view, s));
  const say = (...parts) => make("p", "facts", parts);
  if (block === "softmax") {
    const [first, most, id] = header.candidates[state.row][0];
    const passed = id === header.ids[state.row] ? [] : [" The most probable is ", make("b", "", plain(first)), `, ${chance(most)}.`];
    return say(token, " → ", make("b", "", plain(header.predicted[state.row])), ` with ${chance(header.probabilities[state.row])}.`, passed);
  }
  if (block === "embedding") return say(`Here: ${tokenText(view, s)}, position ${tokenOf(view, s) + 1}.`);
  const known = block ? [block.replace("_norm", "")] : header.stacks[s].blocks;
  const shares = known.map((name) => {
    const added = data.added(s, layer, name, tokenOf(view, s));
    const label = { self: "attention", cross: "cross-attention", ffn: "feed-forward" }[name];
    return added ? `${label} ${percent(added.share)}` : "";
  });
  const words = s && (block === "ffn" || !block) ? data.words(layer, state.row, data.part("network")) : [];
  const pushes = words.length ? [" The feed-forward network raises ", make("b", "", plain(words[0][0])), ` by ${words[0][1].toFixed(2)} (logit).`] : [];
  const guess = s ? header.lens[state.row][layer + 1] : null;
  const chosen = guess?.[3] > 1 ? [", the chosen ", make("b", "", plain(header.predicted[state.row])), ` ${guess[4]}`] : [];
  const after = guess ? [" After this layer: ", make("b", "", plain(guess[0])), ` ${chance(guess[1])}`, ...chosen, "."] : [];
  return say("At ", token, ` this ${block ? "block" : "layer"} adds ${shares.join(", ")}.`, pushes, after);
}
