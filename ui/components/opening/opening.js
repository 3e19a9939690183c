// The opening: a sentence is translated token by token, stops before the pronoun, and asks what it
// stands for. With reduced motion, each stage appears at once.
import { calm, extend, lasting, make, shown, watch } from "../shared/index.js";
import { breakPart, runs } from "./breaking.js";
import { lightPart } from "./light.js";

const PACE = 430; // ms that one token takes, at most
const WRITING = 900; // ms that all of them take, at most
const ALONE = 300; // ms in which the source stands alone, to be read
const MOVING = 800; // ms in which the light falls, or moves
const COVER =
  ".st-key-translate_page { visibility: hidden !important; opacity: 0 !important; height: 0; " +
  "overflow: hidden; transition: none !important; }";
const SEEN = "headlight_opening=seen; path=/; max-age=31536000; samesite=lax";

class Opening {
  constructor(root, { header }) {
    this.root = root;
    this.header = header;
    this.at = 0; // which scene
    this.guess = null;
    this.waiting = false;
    this.taken = null; // the head whose trial is awaited, {} for one that decides
    this.guessing = false; // which head decides
    this.frame = null;
    this.light = { from: null, weights: [], strength: 0 };
    this.build();
    this.fill();
    this.onKey = (event) => {
      const typing = event.composedPath()[0].matches?.("input, textarea, select");
      if (event.key !== "Escape" || typing) return;
      event.preventDefault();
      this.leave();
    };
    document.addEventListener("keydown", this.onKey);
    // The page behind is laid out, and not seen. The frame's own styles may come later than it.
    this.cover = make("style", "", COVER);
    document.head.append(this.cover);
    try {
      document.cookie = SEEN; // from its first frame: nobody is shown it twice
    } catch {
      // A sandboxed frame has no cookies.
    }
    watch(this.root, () => this.dress());
    if (calm()) {
      this.root.classList.add("still");
      this.ask();
    } else this.write();
  }

  close() {
    cancelAnimationFrame(this.frame);
    document.removeEventListener("keydown", this.onKey);
    this.cover.remove();
  }

  get scene() {
    return this.header.scenes[this.at];
  }

  build() {
    const { lead, source, target } = this.header;
    const skip = make("button", "skip", { onclick: () => this.leave() }, "Skip", make("kbd", "", "Esc"));
    this.canvas = make("canvas", "rays", { "aria-hidden": true });
    this.source = make("p", "sentence", { lang: source.code });
    this.target = make("p", "sentence", { lang: target.code });
    this.stage = make("div", "stage", this.canvas,
      make("div", "line source", make("span", "name", source.name), this.source),
      make("div", "line", make("span", "name", target.name), this.target));
    this.below = make("div", "below");
    this.live = make("div", "unseen", { "aria-live": "polite" });
    const top = make("div", "top", make("p", "lead", lead), skip);
    extend(this.root, { role: "region", "aria-label": "Opening" }, top, this.stage, this.below, this.live);
  }

  /** Set both sentences of the scene; of the translation, the part before the pronoun. */
  fill() {
    const { words, special, tokens, step } = this.scene;
    this.words = words.map((text, i) => {
      const word = make("span", special[i] ? "word special" : "word", text, make("span", "share"));
      return special[i] ? extend(word, { title: "the end of the sentence" }) : word;
    });
    this.source.replaceChildren(...this.words.flatMap((word) => [word, " "]));
    this.tokens = tokens.map(({ text }) => make("span", "token", make("span", "text", text)));
    this.target.replaceChildren(
      ...this.tokens.flatMap((token, i) => (tokens[i].apart && i ? [" ", token] : [token])),
    );
    if (this.guess !== null) this.written(step);
  }

  written(count) {
    this.tokens.forEach((token, i) => token.classList.toggle("on", i < count));
  }

  receive({ header }, { setTriggerValue }) {
    this.header = header;
    this.report = (name, value = true) => setTriggerValue(name, value);
    if (!header.covers) this.report("covers");
    else if (this.waiting) this.show(this.at);
    else this.tellTaken();
  }

  /** Write the translation up to the pronoun, each token in the light that it was written from. */
  write() {
    const { step, written } = this.scene;
    const pace = Math.min(PACE, WRITING / step);
    this.play((elapsed) => {
      const time = Math.max(0, elapsed - ALONE);
      const now = Math.floor(time / pace);
      const part = time / pace - now;
      this.written(now + (part > 0.3));
      const strength = Math.min(1, part / 0.25, (1 - part) / 0.2);
      const lit = now < step && elapsed > ALONE;
      this.shine(this.tokens[now], lit ? written[now] : [], lit ? strength : 0);
      return now < step;
    }, () => this.ask());
  }

  /** Call `step` with the ms since now before every frame until it says no, then `then`. */
  play(step, then = () => {}) {
    cancelAnimationFrame(this.frame);
    const start = performance.now();
    const next = (now) => {
      if (step(Math.max(0, now - start))) this.frame = requestAnimationFrame(next);
      else then();
    };
    this.frame = requestAnimationFrame(next);
  }

  ask() {
    cancelAnimationFrame(this.frame);
    const { question, why } = this.header;
    const nouns = this.scene.nouns.map((at) => this.words[at].firstChild.textContent.replace(/\P{L}+$/u, ""));
    this.written(this.scene.step);
    this.shine(null, [], 0);
    this.tokens[this.scene.step].classList.add("slot");
    this.words[this.scene.pronoun].classList.add("asked");
    const heading = make("h2", "", question, { tabindex: -1 });
    const take = (guess, { currentTarget }) => {
      this.guess = guess;
      this.waiting = !this.header.covers; // the light is still being looked for
      if (this.waiting) currentTarget.setAttribute("aria-busy", "true");
      else this.show(this.at);
    };
    const answers = make("div", "choices",
      nouns.map((noun, i) => make("button", "answer", { onclick: (event) => take(i, event) }, noun)));
    this.below.replaceChildren(heading, make("p", "", why), answers);
    if (document.activeElement === document.body) heading.focus({ preventScroll: true });
    else this.live.textContent = `${question} ${why}`;
  }

  /** Let the light of a scene fall: from where it was, if the other scene was lit before. */
  show(at) {
    const before = this.light.weights;
    this.waiting = false;
    this.turn(at);
    this.fill();
    const { pronoun, kind, light, step, tokens } = this.scene;
    for (const each of [this.words[pronoun], this.tokens[step]]) each.classList.add("asked");
    this.explain();
    const from = kind === "cross" ? this.tokens[step] : this.words[pronoun];
    const moving = before.length === light.length;
    const frame = (part) => {
      const weights = moving ? light.map((w, i) => before[i] + part * (w - before[i])) : light;
      this.shine(from, weights, moving ? 1 : part);
    };
    if (this.root.classList.contains("still")) {
      this.written(tokens.length);
      frame(1);
      return;
    }
    this.play((elapsed) => {
      const part = Math.min(1, elapsed / MOVING);
      frame(part * part * (3 - 2 * part));
      const rest = Math.max(0, elapsed - MOVING / 2);
      this.written(step + 1 + Math.floor(rest / 110));
      return part < 1 || rest / 110 < tokens.length - step;
    });
  }

  /** Say what the light shows, and what can be done next. */
  explain() {
    const { heading, replies, verdict, detail } = this.scene;
    const focused = this.root.getRootNode().activeElement;
    const reply = make("h2", "", heading || replies[this.guess]);
    const outcome = make("p", "verdict", runs(verdict));
    const guesses = this.unsolved().map((at) => this.guessAt(at, "answer"));
    const [removals, explore] = [this.removal(), this.way("translate")];
    const tried = this.header.scenes.some(({ breaks }) => breaks?.trials.length);
    [...guesses, ...(tried ? [] : removals), explore][0].className = "main"; // what is new leads on
    const choices = make("div", "choices", guesses, removals, this.onward(), explore);
    const more = make("p", "detail", detail);
    this.below.replaceChildren(reply, outcome, more, choices);
    if (focused) choices.firstChild.focus({ preventScroll: true });
    this.live.textContent = [reply, outcome, more].map((each) => each.textContent).join(" ");
  }

  /** The button that takes the lit head out. */
  removal() {
    const { lit } = this.scene.breaks ?? {};
    if (!lit || this.at === this.header.scenes.length - 1) return [];
    const onclick = ({ currentTarget }) => this.take(currentTarget, lit);
    return [make("button", "answer", { onclick }, this.header.removal)];
  }

  /** The button for the next sentence. */
  onward() {
    const { onward, scenes } = this.header;
    if (!scenes[1]) return [];
    const next = () => {
      const at = (this.at + 1) % scenes.length;
      if (scenes[at].heading) return this.show(at); // the sentence before, with another noun
      this.turn(at);
      this.guess = null;
      this.fill();
      this.ask();
      this.below.querySelector("h2").focus({ preventScroll: true });
    };
    return make("button", "answer swap", { onclick: next }, runs(onward[this.at]));
  }

  /** Turn to a scene, before any guess; its sentence is then in the sidebar, too. */
  turn(at) {
    if (at !== this.at) {
      this.report("scene", at);
      this.stage.scrollIntoView({ block: "nearest" });
    }
    this.at = at;
    this.guessing = false;
    this.root.classList.remove("guessing");
  }

  /** A button that leaves for a page on this scene. */
  way(to, look = "answer") {
    const onclick = ({ currentTarget }) => {
      currentTarget.setAttribute("aria-busy", "true");
      this.report("leave", { scene: this.at, to });
    };
    return make("button", look, { onclick }, this.header.ways[to]);
  }

  /** Give way to the page, which fades in. */
  leave() {
    if (this.root.hidden) return;
    const focused = this.root.getRootNode().activeElement;
    cancelAnimationFrame(this.frame);
    this.root.hidden = true;
    this.cover.remove();
    if (focused) {
      const views = [...document.querySelectorAll(".st-key-translate_page *")];
      const player = views.map((each) => each.shadowRoot?.querySelector(".player")).find(Boolean);
      player?.style.setProperty("outline", "none"); // nobody moved the focus there
      player?.addEventListener("blur", () => player.style.removeProperty("outline"), { once: true });
      player?.focus({ preventScroll: true });
    }
    this.report("leave", { scene: this.at, to: "" });
  }
}

Object.assign(Opening.prototype, lightPart, breakPart);

export default (host) => shown(host, "opening", (given) => lasting(Opening, given, host));
