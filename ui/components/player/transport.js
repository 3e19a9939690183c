// Moving through the steps: buttons, scrubber, playing, and keys.
import { buildScale, extend, make, modified } from "../shared/index.js";
import { icon } from "./dom.js";

const PLAY_MS = 800;

export const transportPart = {
  buildTransport() {
    const button = (name, label, onclick) =>
      make("button", "icon", icon(name), { "aria-label": label, title: label, onclick });
    this.first = button("first", "First step (Home)", () => this.go(0));
    this.back = button("back", "One step back (left arrow)", () => this.go(this.step - 1));
    this.play = button("play", "Play (space)", () => this.toggle());
    this.play.classList.add("main");
    this.forward = button("forward", "One step forward (right arrow)", () => this.go(this.step + 1));
    this.last = button("last", "Last step (End)", () => this.go(Infinity));
    this.scrubber = make("input", "", { type: "range", min: 1, "aria-label": "Decoding step" });
    this.scrubber.oninput = () => this.go(Number(this.scrubber.value) - 1);
    this.count = make("output", "count");
    this.scale = buildScale("weight 0", "1");
    this.scale.removeAttribute("aria-hidden");
    this.transport = make("div", "transport", this.first, this.back, this.play, this.forward,
      this.last, this.scrubber, this.count, this.scale);
    return this.transport;
  },

  drawTransport() {
    const T = this.message.header.shape[2];
    this.scrubber.value = String(this.step + 1);
    this.count.textContent = this.where();
    this.root.classList.toggle("ended", this.beyond);
    this.first.disabled = this.back.disabled = this.step === 0;
    this.forward.disabled = this.last.disabled = this.step === T - 1;
  },

  where() {
    const T = this.message.header.shape[2];
    return this.beyond ? `ended after step ${T}` : `step ${this.step + 1} of ${T}`;
  },

  toggle() {
    if (this.timer !== null) {
      this.stop();
      this.changed();
      return;
    }
    const T = this.message.header.shape[2];
    if (T < 2) return;
    if (this.step === T - 1) this.go(0);
    this.timer = setInterval(() => this.go(this.step + 1), PLAY_MS);
    this.choice.cancel();
    this.showPlaying();
  },

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.showPlaying();
  },

  showPlaying() {
    const playing = this.timer !== null;
    const label = playing ? "Pause (space)" : "Play (space)";
    this.play.replaceChildren(icon(playing ? "pause" : "play"));
    extend(this.play, { "aria-label": label, title: label });
  },

  /** Keys work inside the player, and arrows also where nothing on the page wants them. */
  key(event) {
    // Shift and an arrow turn the pages.
    if (modified(event) || event.defaultPrevented) return;
    if (getComputedStyle(this.root).visibility === "hidden") return; // the opening plays before it
    const path = event.composedPath();
    const target = path[0];
    const inside = path.includes(this.root);
    const idle = target === document.body || (target.tagName === "BUTTON" && !target.role);
    if (!inside && !(idle && event.key.startsWith("Arrow"))) return;
    if (target.tagName === "SELECT") return;
    const acts = {
      ArrowLeft: () => this.go(this.step - 1),
      ArrowRight: () => this.go(this.step + 1),
      Home: () => this.go(0),
      End: () => this.go(Infinity),
      " ": () => this.toggle(),
    };
    if (event.key === " " && target.tagName === "BUTTON") return; // presses that button
    if (!Object.hasOwn(acts, event.key)) return;
    event.preventDefault();
    acts[event.key]();
  },
};
