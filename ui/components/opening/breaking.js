// Removing heads: every head is a button, and the translation changes with each choice.
import { make, rove, touching } from "../shared/index.js";

/** Text with the runs between ** in elements of their own. */
export const runs = (text, tag = "strong", look = "") =>
  text.split("**").map((run, i) => (i % 2 ? make(tag, look, run) : make("span", "", run)));

const same = (one, other) => one && other && one.every((part, i) => part === other[i]);

export const breakPart = {
  /** Show the translation without a head, or without one that decides; a new one is asked for. */
  take(button, head = null) {
    this.taken = { head };
    if (this.tellTaken()) return;
    button.setAttribute("aria-busy", "true");
    this.report("take", { scene: this.at, head });
  },

  /** Show the trial of the head that was taken, if it is known. */
  tellTaken() {
    const trial = this.taken && this.scene.breaks.trials.find(
      ({ head, hit }) => (this.taken.head ? same(head, this.taken.head) : hit));
    if (!trial) return false;
    this.taken = null;
    this.tell(trial);
    return true;
  },

  /** Show a trial, or ask for one; while the visitor guesses, all heads. */
  tell(trial = null) {
    const { breaks } = this.scene;
    const { heading, verdict } = trial ?? breaks;
    const reply = make("h2", "", heading, { tabindex: -1 });
    const outcome = make("p", "verdict", verdict);
    const grids = this.guessing ? [this.heads(breaks, trial?.head), this.legend(breaks)] : [];
    this.below.replaceChildren(reply, outcome, ...grids, make("div", "choices", this.ways(trial)));
    this.root.classList.toggle("guessing", this.guessing);
    this.shine(null, [], 0); // the light goes out
    if (trial) this.rewrite(trial.text);
    else this.mark(breaks.step);
    const focus = this.below.querySelector("[data-last]") ?? this.below.querySelector(".main");
    focus?.focus({ preventScroll: true });
    this.stage.scrollIntoView({ block: "nearest" });
    this.live.textContent = `${reply.textContent} ${outcome.textContent}`;
  },

  /** Write the translation without a head, its new words marked, lost ones struck through. */
  rewrite(text) {
    this.target.replaceChildren(...text.split("~~").flatMap(
      (run, i) => (i % 2 ? make("del", "", run) : runs(run, "span", "asked"))));
  },

  /** Mark the token that is asked about. */
  mark(step) {
    this.fill();
    this.written(this.tokens.length);
    this.tokens[step].classList.add("asked");
  },

  ways(trial) {
    const solved = this.scene.breaks.trials.some(({ hit }) => hit);
    const [next] = this.unsolved();
    const ways = [];
    if (this.guessing && !solved) {
      const onclick = ({ currentTarget }) => this.take(currentTarget);
      if (trial) ways.push(make("button", "answer", { onclick }, "Show me"));
    } else if (next !== undefined) {
      ways.push(this.guessAt(next, "main"));
    }
    if (solved) ways.push(this.way("removals", next === undefined ? "main" : "answer"), this.way("floor"));
    return [...ways, this.onward()];
  },

  /** The scenes whose word depends on a head that is not found yet. */
  unsolved() {
    const { scenes, guesses } = this.header;
    return guesses.filter((at) => !scenes[at].breaks.trials.some(({ hit }) => hit));
  },

  /** A button that asks which head a scene's word depends on. */
  guessAt(at, look) {
    const { scenes, guesses, guess } = this.header;
    const { breaks, words, nouns } = scenes[at];
    const asked = at === this.at ? guess : `${guess} with “${words[nouns[0]].replace(/\P{L}+$/u, "")}”`;
    const onclick = () => {
      this.turn(at);
      this.guessing = true;
      this.tell();
    };
    return make("button", look, { onclick }, guesses.indexOf(at) ? `Lose “${breaks.word}” instead` : asked);
  },

  /** The cells' looks in words. */
  legend({ word }) {
    const looks = { lit: "the head lit at the start", tried: `removed: “${word}” stays`, hit: `removed: “${word}” is lost` };
    return make("p", "detail", Object.entries(looks).map(
      ([look, words]) => make("span", "look", make("span", `head ${look}`), words)), make("span", "look", this.scene.mistake));
  },

  /** All heads by kind, a row for each numbered layer; arrow keys move within a kind. */
  heads({ kinds, lit, trials }, last) {
    const number = (n) => make("span", "number", { "aria-hidden": true }, `${n || ""}`);
    return make("div", "kinds", kinds.map(([kind, name, [layers, heads]]) => {
      const cells = [];
      const rows = Array.from({ length: heads + 1 }, (_, n) => number(n));
      for (let layer = 0; layer < layers; layer++) {
        rows.push(number(layer + 1));
        for (let head = 0; head < heads; head++) {
          const at = [kind, layer, head];
          const trial = trials.find((each) => same(each.head, at));
          const label = `${name}, layer ${layer + 1}, head ${head + 1}`;
          const found = !trial ? "" : trial.hit ? " hit" : " tried";
          const onclick = ({ currentTarget }) => this.take(currentTarget, at);
          const cell = make("button", `head${found}${same(lit, at) ? " lit" : ""}`, { onclick });
          const state = same(lit, at) ? ", the head lit at the start" : "";
          cell.title = touching() ? "" : label + state; // a finger leaves a tip behind
          cell.setAttribute("aria-label", label + state + (trial ? `: ${trial.heading}` : ""));
          if (same(last, at)) cell.dataset.last = "";
          cells.push(cell);
          rows.push(cell);
        }
      }
      rove(cells, { row: heads });
      const grid = make("div", "heads", rows, { role: "group", "aria-label": name });
      grid.style.setProperty("--heads", heads);
      return make("div", "kind", make("span", "name", name), grid);
    }));
  },
};
