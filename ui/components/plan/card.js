// The text that points: a block's name, what it does, its formula, and the numbers of the chosen token.
import { chance, extend, largest, make, percent, plain, range, setBox, signed } from "../shared/index.js";
import { partNow } from "./draw.js";
import { inText, seenBy, SHORT, textOf, titleOf, tokenOf, tokenText } from "./marks.js";

const bold = (text) => make("b", "", inText(text));

// A formula whose symbols light the parts of the picture, and are lit by them.
export function formulaOf(view, { formula }) {
  const parts = formula.split(/(\[[^\]]+\])/).map((run) => {
    const [, text, part] = run.match(/^\[(.+):(\w+)\]$/) ?? [];
    if (!part) return run;
    return make("span", `symbol ${"qkv".includes(part) ? part : ""}`, text, {
      "data-part": part, tabindex: -1,
      onpointerenter: () => view.light(part), onpointerleave: () => view.light(null),
    });
  });
  return make("p", "formula", parts);
}

export function fillCard(view) {
  const { plan, header } = view;
  const scene = view.film && !view.hover;
  const part = scene && view.film.landed ? { s: 1, block: "softmax" } : view.hover ?? partNow(view);
  view.card.hidden = plan.card.h < 50;
  if (view.card.hidden) return;
  setBox(view.card, plan.card.x, plan.card.y, plan.card.w, plan.card.h);
  const text = textOf(view, part);
  const [, short] = text.text.split(". ");
  view.card.replaceChildren(
    make("h3", "", titleOf(view, part).replace(plan.card.w < 310 * plan.unit ? " layer" : "", ""), make("span", "quiet", scene && !view.film.turn ? " paused: ‹ › show all" : "")),
    ...(header.stacks.some(({ rows }) => rows) ? [make("p", "quiet", "A long text: queries, keys and values are left out, and choosing a token is a request.")] : []),
    ...(scene ? [] : [make("p", "", ...(Number.isInteger(part.head) ? [`${short}.`] : [text.text, " ", make("span", "quiet", text.section)])), plan.low ? "" : formulaOf(view, text)]),
    extend(scene && !part.block ? sceneOf(view, part) : factsOf(view, part), ...(view.film ? [] : changeOf(view, [" The last change took ", " from ", " to ", "."]))),
  );
  const { children, firstChild: title, lastChild: facts } = view.card;
  while (view.card.scrollHeight > view.card.clientHeight + 1 && children.length > 1) { // the title goes last
    const least = children.length < 3 ? title : view.large || view.focus.head !== null ? children[1] : facts.previousSibling; // a class and a head need the formula
    if (least === title && facts.textContent.startsWith(short)) facts.firstChild.remove();
    else least.remove();
    if (least !== title && least.textContent.includes(short)) facts.prepend(`${short}. `);
  }
  if (!title.parentNode) facts.prepend(make("b", "", title.textContent, ": ")); // in the first line
  while (view.card.scrollHeight > view.card.clientHeight + 1 && facts.childNodes.length > 3) facts.lastChild.remove();
}

// What the last change did to the chosen word of this step, between words.
export function changeOf({ header, state: { row } }, [before, from, to, after]) {
  const was = header.was[row]?.find(([, , id]) => id === header.ids[row])?.[1];
  const now = chance(header.probabilities[row]);
  return was && chance(was) !== now ? [before, bold(header.predicted[row]), from, chance(was), to, now, after] : [];
}

// What a film's layer does to the chosen token.
function sceneOf(view, { s, layer }) {
  const seen = (block) => bold(seenBy(view, { s, layer, block }).text);
  const say = (...parts) => make("p", "", bold(tokenText(view, s)), " looks most at ", seen("self"), parts);
  const network = ` Then the feed-forward network adds ${percent(view.data.added(s, layer, "ffn", tokenOf(view, s)).share)}.`;
  if (!s) return say(", mean over heads.", network, " All source tokens do this at once.");
  const [guess, p] = view.header.lens[view.state.row][layer];
  return say(" in the translation and ", seen("cross"), ` in the source.${network}`,
    layer ? [` Best guess after layer ${layer}: `, bold(guess), `, ${chance(p)}.`] : "");
}

// What happens to the chosen token there, in a sentence.
function factsOf(view, { s, layer, block, head }) {
  const { header, state, data } = view;
  const [token, chosen] = [bold(tokenText(view, s)), bold(header.predicted[state.row])];
  const say = (...parts) => make("p", "facts", parts.flat(3));
  if (!view.hover && header.lost.some(([t, lost]) => t === state.row && lost === view.lost)) {
    const [, p = 0] = header.candidates[state.row].find(([other]) => other === view.lost) ?? [];
    return say(bold(view.lost), " stood here before the last change. Now ", chosen,
      ` has ${chance(header.probabilities[state.row])}, ${plain(view.lost)} ${p ? chance(p) : "less than all candidates"}.`);
  }
  if (block === "softmax") {
    const [first, most, id] = header.candidates[state.row][0];
    const passed = id === header.ids[state.row] ? [] : [" The most probable is ", bold(first), `, ${chance(most)}.`];
    const alone = header.logs[state.row][1] === null; // a grammar forbids all others
    return say("After ", token, alone ? ", the grammar of trees allows " : ", the softmax gives ", chosen,
      ...(alone ? [` alone. The model itself gives it ${header.lens[state.row].at(-1)[4]}.`] : [` ${chance(header.probabilities[state.row])}.`, passed]));
  }
  if (block === "embedding") return say(`Here: ${tokenText(view, s)}, position ${tokenOf(view, s) + 1}.`);
  // The logit that a block adds to the chosen token; undefined in the encoder, or if it was not read.
  const { blocks } = header.stacks[s];
  const both = (valueOf) => {
    const [now, was] = [data, view.before(s) ?? data].map(valueOf);
    return was === now ? now : `${now} (was ${was})`;
  };
  const names = block ? [block.replace("_norm", "")] : blocks;
  const own = (from) => (from.header.ids[state.row] === header.ids[state.row] ? from : data); // another word's logit is no "before"
  const logitOf = (from, name) => (s ? own(from).at("p", layer, own(from).row(1, state.row))?.[blocks.indexOf(name)] : undefined);
  const shares = names.map((name, n) => `${SHORT[name].toLowerCase()} ${n ? "" : "adds "}${both((from) => percent(from.added(s, layer, name, tokenOf(view, s))?.share ?? 0))}`).join(", ");
  const logits = logitOf(data, names[0]) === undefined ? (s ? "; logits and promoted words are not read here" : "") : [`, and ${names.map((name) => both((from) => signed(logitOf(from, name) ?? 0))).join(", ")} to the logit of the chosen `, chosen];
  const lensOf = (from) => from.header.lens[state.row].slice(layer);
  const [[, , , place, before], [, , , rank, after] = []] = s ? lensOf(data) : [[]];
  const change = s && before === after ? `rank ${place.toLocaleString("en")} to ${rank.toLocaleString("en")}` : `${before} to ${after}`;
  const best = (from) => `${plain(lensOf(from)[1][0])}, ${chance(lensOf(from)[1][1])}`;
  const takes = [" The layer takes ", chosen.cloneNode(true), ` from ${change}`, rank > 1 ? ` (best guess ${both(best)}).` : "."];
  const open = () => view.send("open", { page: "removals", stack: "decoder", kind: "", layer: 0, head: 0 });
  const matter = [" Adding much need not matter: ", view.alive ? make("button", "tool", "Heads off", { onclick: open }) : "Heads off", "."];
  return say(Number.isInteger(head) || (!s && block === "self") ? headOf(view, { s, layer, block }, head) : [], make("span", "", "At ", token, `, ${shares}`, logits, ". "), block ? [] : [s ? takes : [], view.before(s) ? [] : matter]);
}

// Where a head, in the encoder the one that adds most, takes its values from, and how much of the block's sum it adds.
function headOf(view, part, head) {
  const heads = range(view.data.heads(view.kinds[`${view.header.stacks[part.s].name}.${part.block}`])).map((h) => seenBy(view, part, h));
  const most = largest(heads.map((each) => each?.length ?? 0));
  const [first, name] = [heads.findIndex((each) => each?.length === most), (h) => `${part.layer + 1}.${h + 1}`];
  const { out = true, key, weight, length } = heads[head ?? first] ?? {};
  const rank = length === most ? `the most of ${heads.length} heads` : `less than head ${name(first)} with ${most.toFixed(2)}`;
  return out ? [] : [`Head ${name(head ?? first)} takes ${percent(weight)} of its values from `, bold(key), `. It adds length ${length.toFixed(2)}, ${rank}. `];
}
