// The next token: the most probable candidates, their entropy, and the running score. Another
// candidate can be taken instead; Python then continues decoding from it.

Object.assign(Player.prototype, {
  buildNext() {
    const next = el("div", "panel next");
    this.nextTitle = el("h3");
    // Beside what was clicked; the sidebar, which has it too, is folded up on a phone.
    this.undo = el("button", "undo", { type: "button", title: "Take the last steer back" });
    this.undo.textContent = "Undo";
    this.undo.addEventListener("click", () => this.send({ undo: true }));
    const title = el("div", "next-title");
    title.append(this.nextTitle, this.undo);
    this.bars = el("ol", "bars");
    this.facts = el("p", "note facts");
    this.rule = el("p", "note");
    const recorded = el("details", "note badge");
    const summary = el("summary");
    summary.textContent = "How it was recorded";
    this.badge = el("span");
    recorded.append(summary, this.badge);
    next.append(title, this.bars, this.facts, this.rule, recorded);
    return next;
  },

  drawNext() {
    const { top, input, ids, chosen, predicted, nForced, forced, steerable } = this.message.header;
    this.undo.hidden = !steerable || this.steer === null || !(nForced || forced);
    const t = this.step;
    const token = el("span", "quote");
    write(token, input[t]);
    const given = t < nForced;
    const how = !given ? "" : forced ? " (as given)" : " (given)";
    this.nextTitle.replaceChildren("After ", token, ` comes${how}`);
    const rows = top[t].map(([text, probability, id, cut], k) => ({
      text, probability, id, cut, taken: k === chosen[t].rank,
    }));
    if (chosen[t].rank < 0) {
      const { probability } = chosen[t];
      rows.push({ text: predicted[t], probability, id: ids[t], cut: false, taken: true });
    }
    this.bars.replaceChildren(...rows.map((row) => this.bar(row)));
    this.drawFacts();
  },

  /** One candidate: a button if it can be taken. */
  bar({ text, probability, id, cut, taken }) {
    const { steerable, never } = this.message.header;
    const possible = steerable && !taken && this.steer !== null && !never.includes(id);
    const item = el("li", `${taken ? "taken" : ""} ${cut ? "cut" : ""}`.trim());
    const line = el(possible ? "button" : "div", "candidate", possible ? { type: "button" } : {});
    const name = el("span", "name");
    write(name, text);
    const track = el("span", "track");
    const fill = el("span", "fill");
    fill.style.width = `${100 * probability}%`;
    track.append(fill);
    const value = el("span", "value");
    value.textContent = percent(probability);
    const about = [`${text}: probability ${probability.toPrecision(4)}`];
    if (taken) about.push("taken");
    if (cut) about.push("cut off, could not be drawn");
    if (possible) about.push("choose it to take it instead");
    line.title = about.join("; ");
    if (possible) {
      line.setAttribute("aria-label", `Take ${text} instead, probability ${percent(probability)}`);
      line.addEventListener("click", () => this.take(id));
    }
    line.append(name, track, value);
    item.append(line);
    return item;
  },

  /** Ask Python to continue with this token at the current step. */
  take(id) {
    this.send({ token: id });
  },

  send(what) {
    if (this.steer === null) return;
    this.stop();
    clearTimeout(this.reportTimer);
    this.steer({ ...this.place(), ...what });
  },

  drawFacts() {
    const { entropy, running, alpha, gap, origin, forced, drawn, units } = this.message.header;
    this.rule.textContent = units === "words"
      ? "Columns are words: the weights of their pieces added up. Steps stay tokens."
      : "";
    const t = this.step;
    const fact = (name, entry, value, unit, title) => {
      const part = el("span", "fact", { title });
      const number = el("b");
      number.textContent = value;
      part.append(entry ? term(name, entry) : name, " ", number, unit);
      return part;
    };
    const penalised = running[t] / ((5 + t + 1) / 6) ** alpha;
    const parts = [
      fact("entropy", "entropy", entropy[t].toFixed(2), " bit",
        "How uncertain the choice is: 0 bits if one token is certain, 1 bit for a fair coin"),
      fact("log P", "log-probability", signed(running[t]), "",
        `Natural logarithm of the probability of the first ${t + 1} tokens, in nats`),
      fact("score", "score", signed(penalised), "",
        `log P / ((5 + ${t + 1}) / 6)^${alpha}: what a beam search compares`),
    ];
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
});
