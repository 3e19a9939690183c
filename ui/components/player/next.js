// The next token: the most probable candidates, their entropy, and the running score. Another
// candidate can be taken instead; Python then continues decoding from it.
import { chance, extend, make, signed, term } from "../shared/index.js";
import { write } from "./dom.js";

export const nextPart = {
  buildNext() {
    this.nextTitle = make("h3");
    // Beside what was clicked; the sidebar, which has it too, is folded up on a phone.
    const about = { title: "Undo the last change", onclick: () => this.send("undo") };
    this.undo = make("button", "undo", "Undo", about);
    this.bars = make("ol", "bars");
    this.facts = make("p", "note facts");
    this.rule = make("p", "note");
    this.badge = make("span");
    const recorded = make("summary", "", "How it was recorded");
    return make("div", "panel next", make("div", "next-title", this.nextTitle, this.undo), this.bars,
      this.facts, this.rule, make("details", "note badge", recorded, this.badge));
  },

  drawNext() {
    const { top, input, ids, chosen, predicted, nForced, forced, steerable } = this.message.header;
    this.undo.hidden = !steerable || !(nForced || forced);
    const t = this.step;
    const token = make("span", "quote");
    write(token, input[t]);
    const given = t < nForced;
    const how = !given ? " comes" : forced ? ", as given:" : ", you chose:";
    this.nextTitle.replaceChildren("After ", token, how);
    const rows = top[t].map(([text, probability, id, cut], k) => ({
      text, probability, id, cut, taken: k === chosen[t].rank,
    }));
    if (chosen[t].rank < 0) {
      const { probability } = chosen[t];
      rows.push({ text: predicted[t], probability, id: ids[t], cut: false, taken: true });
    }
    const rest = Math.max(0, 1 - rows.reduce((sum, { probability }) => sum + probability, 0));
    rows.push({ text: "all others", probability: rest, id: null });
    this.bars.replaceChildren(...rows.map((row) => this.bar(row)));
    this.drawFacts();
  },

  /** One candidate: a button if it can be taken. */
  bar({ text, probability, id, cut, taken }) {
    const { steerable, never } = this.message.header;
    const possible = steerable && !taken && ![...never, null].includes(id);
    const name = make("span", "name");
    write(name, text);
    const fill = make("span", "fill");
    fill.style.width = `${100 * probability}%`;
    const title = [`${text}: probability ${probability.toPrecision(4)}`];
    if (taken) title.push("taken");
    if (cut) title.push("cut off, could not be drawn");
    if (possible) title.push("choose it to take it instead");
    const line = make(possible ? "button" : "div", "candidate", { title: title.join("; ") },
      name, make("span", "track", fill), make("span", "value", chance(probability)));
    const label = `Take ${text} instead, probability ${chance(probability)}`;
    if (possible) extend(line, { "aria-label": label, onclick: () => this.send(id) });
    return make("li", `${taken ? "taken" : ""} ${cut ? "cut" : ""}`.trim(), line);
  },

  /** Ask Python to continue with a token (its id) at the current step, or to "undo" the last one. */
  send(take) {
    this.stop();
    this.choice.set(this.place(), { ...this.place(), take });
  },

  drawFacts() {
    const { entropy, running, penalties, gap, origin, forced, drawn, units } = this.message.header;
    this.rule.textContent = units === "words"
      ? "Columns are words: the weights of their pieces added up. Steps stay tokens."
      : "";
    const t = this.step;
    const fact = (name, entry, value, unit, title) =>
      make("span", "fact", { title },
        entry ? term(name, entry) : name, " ", make("b", "", value), unit);
    const parts = [
      fact("entropy", "entropy", entropy[t].toFixed(2), " bit",
        "How uncertain the choice is: 0 bits if one token is certain, 1 bit for a fair coin"),
      fact("log p so far", "log-probability", signed(running[t]), "",
        `Natural logarithm of the probability of the first ${t + 1} tokens, in nats`),
    ];
    if (t in penalties) { // unknown in a file of another program
      parts.push(fact("score so far", "score", signed(running[t] / penalties[t]), "",
        `log p / ${penalties[t]}, the length penalty: what a beam search compares`));
    }
    if (drawn) {
      parts.push(fact("drawn from", "", String(drawn[t]), drawn[t] === 1 ? " token" : " tokens",
        "How many tokens temperature, top k and top p left to draw from"));
    }
    this.facts.replaceChildren(...parts);
    if (forced) this.badge.textContent = "Attention of one teacher-forced pass";
    else if (gap !== null) this.badge.textContent = `${origin}; a second pass agrees to ${gap}`;
    else this.badge.textContent = origin;
    this.badge.title = gap === null || forced
      ? ""
      : `No recorded attention weight, of any layer and head, differs by more than ${gap} from ` +
        "one pass over the finished translation (teacher forcing)";
  },
};
