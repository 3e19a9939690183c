// The decoding player. Stepping, playing, and changing layer or head happen here without the server,
// which is told once the user pauses.
import { chance, drawScale, extend, lasting, make, plain, press, range, rolesOf, rowOf, rowsInWords, shown, spokenList, syncChoice, themed,
  watch, wordsOf } from "../shared/index.js";
import { lane } from "./dom.js";
import { groupPart } from "./group.js";
import { lanesPart } from "./lanes.js";
import { mapsOf, opened, strongest } from "./maps.js";
import { matrixPart } from "./matrix.js";
import { nextPart } from "./next.js";
import { shiftPart } from "./shift.js";
import { transportPart } from "./transport.js";

const REPORT_MS = 300;
export const FAINT = 0.05; // weights below this get no number and no line
const PARTS = { cross: "cross-attention", decoder_self: "self-attention" };
const MOST_BUTTONS = 12; // more layers or heads than this become a drop-down

class Player {
  constructor(root) {
    this.root = root;
    this.timer = null;
    this.maps = new Map();
    this.build();
    this.onKey = (event) => this.key(event);
    document.addEventListener("keydown", this.onKey);
    this.beyond = false;
  }

  close() {
    this.stop();
    this.choice.cancel();
    document.removeEventListener("keydown", this.onKey);
  }

  build() {
    const about = "Decoding player: arrow keys step, space plays";
    extend(this.root, { tabindex: 0, role: "group", "aria-label": about });
    this.stage = make("div", "stage");
    this.rays = make("canvas", "rays", { "aria-hidden": true });
    this.source = lane(this.stage, "Source", "cross-attention", "Source tokens");
    this.rowName = make("span", "faint row-name", "", { title: "The query of this step: it reads one token and predicts the next" });
    this.source.previousSibling.append(this.rowName);
    this.stage.append(make("div", "gap"));
    this.target = lane(this.stage, "Translation", "self-attention", "Target tokens, choose one to go there");
    this.stage.prepend(this.rays);
    this.buildShift();
    this.choosers = make("div", "choices");
    this.switch = make("button", "switch", { onclick: () => this.send("switch") });
    this.matrixNote = make("p", "note");
    const lens = make("div", "panel lens", make("div", "choosers", this.choosers, this.switch), this.buildMatrix(), this.matrixNote);
    this.live = make("div", "unseen", { "aria-live": "polite" });
    this.spoken = { cross: spokenList("Cross-attention, row by row"), own: spokenList("Self-attention, row by row") };
    const lower = make("div", "lower", this.buildNext(), lens);
    this.root.append(this.stage, this.shift, this.buildTransport(), lower, this.tip, this.live,
      this.spoken.cross.element, this.spoken.own.element);
    this.source.onscroll = this.target.onscroll = () => this.drawRays();
  }

  /** Take a message. The place is kept while the trace is the same and no other place is requested. */
  receive(given, host) {
    const before = this.message?.header;
    const { header } = (this.message = opened(given));
    this.root.classList.toggle("follower", Boolean(header.follows));
    const anew = header.session !== before?.session; // another trace
    const refilled = anew || header.units !== before.units;
    if (anew) this.choice?.cancel();
    this.choice = syncChoice(host, header);
    if (refilled) {
      this.maps.clear();
      this.pointFrom(null);
    }
    if (anew || this.choice.fresh) this.moveTo(this.choice.value);
    if (refilled) this.fill();
    watch(this.root, () => this.dress());
  }

  /** Read the theme's colours and the available space, and draw. */
  dress() {
    this.look = { ...themed(this.root), ...rolesOf(this.root, this.message.header) };
    const { colours, reading, limit, ends, noun } = this.message.header;
    this.table = colours[this.look.theme];
    this.words = wordsOf(this.table);
    drawScale(this.scale, this.words);
    const low = limit ? `${ends[0]} \u2212${limit}` : `${noun || "weight"}\u00a00`;
    const high = limit ? `+${limit}` : `1 · ${reading[this.look.theme]}`;
    [this.scale.firstChild.textContent, this.scale.lastChild.textContent] = [low, high];
    extend(this.scale, { role: "img", "aria-label": `Colours: ${low} to ${high}` });
    this.fit();
    this.draw();
  }

  fill() {
    const [L, H, T] = this.message.header.shape;
    this.fillLanes();
    this.fillShift();
    this.scrubber.max = String(T);
    const parts = Object.entries(PARTS).map(([kind, name]) => [kind, name.split("-")[0], name]);
    parts.push(["mean", "mean", "mean over all heads"]);
    const counted = (count) => [[null, "mean"], ...range(count).map((i) => [i, String(i + 1)])];
    this.choosers.replaceChildren(
      this.chooser("Part", parts, "part"),
      this.chooser("Layer", counted(L), "layer"),
      this.chooser("Head", counted(H), "head"),
    );
  }

  /** A row of buttons, "mean 1 2 3", or a drop-down if there are many, for a field of this view. */
  chooser(name, options, field) {
    const box = make("div", "chooser", { role: "group", "aria-label": name }, make("span", "label", name));
    const choose = ([value]) => {
      if (this.kind === "both") this.kind = "cross"; // a head of one part from now on
      this[field] = value;
      this.changed();
    };
    const now = () => options.findIndex(([value]) => value === this[field]);
    if (options.length > MOST_BUTTONS + 1) {
      const select = make("select", "", { "aria-label": name }, options.map(([, text]) => new Option(text)));
      select.onchange = () => choose(options[select.selectedIndex]);
      box.show = () => { select.selectedIndex = now(); };
      return extend(box, select);
    }
    const buttons = options.map((option) => make("button", "choice", option[1], {
      "aria-label": `${name} ${option.at(-1)}`, onclick: () => choose(option),
    }));
    box.show = () => press(buttons, (i) => i === now());
    return extend(box, buttons);
  }

  /** Move to a place as Python has it, counted from 1, as far as this trace and model have it. */
  moveTo({ step, kind, layer, head, shifted }) {
    const { shape: [L, H, T], group } = this.message.header;
    const within = (at, count) => (at !== null && at <= count ? at - 1 : null);
    this.stop();
    this.beyond = Boolean(group) && step > T;
    this.step = Math.min(Math.max(step, 1), T) - 1;
    this.kind = kind;
    this.layer = within(layer, L);
    this.head = within(head, H);
    this.shifted = shifted;
  }

  go(step) {
    const T = this.message.header.shape[2];
    const bounded = Math.min(Math.max(step, 0), T - 1);
    if (this.timer !== null && bounded === T - 1) this.stop();
    if (bounded === this.step && !this.beyond) return;
    this.step = bounded;
    this.changed();
  }

  changed() {
    this.beyond = false;
    this.draw();
    if (this.timer === null) this.choice.later(this.place(), REPORT_MS);
    for (const other of this.members()) if (other !== this) other.follow(this);
  }

  place() {
    const number = (value) => (value === null ? null : value + 1);
    return {
      step: this.step + 1,
      kind: this.kind,
      layer: number(this.layer),
      head: number(this.head),
      shifted: this.shifted,
    };
  }

  /** The maps under the lens, columns by token or word: {cross: [T, S], own: [T, T]}. */
  shown() {
    const key = `${this.kind} ${this.layer} ${this.head}`;
    if (!this.maps.has(key)) {
      if (this.maps.size > 40) this.maps.clear();
      this.maps.set(key, mapsOf(this.message, this.headOf("cross"), this.headOf("decoder_self")));
    }
    return this.maps.get(key);
  }

  get part() {
    return this.layer === null && this.head === null ? "mean" : this.kind;
  }

  /** Show a head of a part, the last one if the mean was shown, or the mean over all. */
  set part(value) {
    if (value !== "mean") {
      if (this.part === "mean") [this.layer, this.head] = this.before ?? [0, 0];
      this.kind = value;
    } else if (this.part !== "mean") {
      this.before = [this.layer, this.head];
      this.layer = this.head = null;
    }
  }

  /** [layer, head] of one of the `PARTS`: a head belongs to one of them, the other shows its mean. */
  headOf(kind) {
    return this.kind === kind || this.kind === "both" ? [this.layer, this.head] : [null, null];
  }

  /** The name of one of the `PARTS`, with the head on screen: "cross-attention 4.7". */
  partOf(kind) {
    const [layer, head] = this.headOf(kind).map((at) => (at === null ? "mean" : at + 1));
    const place = layer === head && head === "mean" ? "mean" : `${layer}.${head}`;
    return `${PARTS[kind]} ${place}${this.isOut(kind) ? " (removed)" : ""}`;
  }

  /** True if the head on screen is removed. */
  isOut(kind) {
    const at = String([kind, ...this.headOf(kind)]);
    return this.message.header.out.some((head) => String(head) === at);
  }

  /** Weights of the current step: "cross" on the source, "own" on the prefix. */
  row(kind) {
    return rowOf(this.shown()[kind], this.step, this.columns(kind).length);
  }

  columns(kind) {
    const { source, keys } = this.message.header;
    return kind === "cross" ? source : keys;
  }

  draw() {
    if (!this.look) return; // it was hidden all the time
    if (this.chip) this.pointFrom(null); // it describes the step before
    this.drawLanes();
    this.drawShift();
    this.drawRays();
    this.drawTransport();
    this.drawNext();
    for (const chooser of this.choosers.children) chooser.show();
    this.switch.hidden = !this.message.header.steerable || this.part === "mean" || [this.layer, this.head].includes(null);
    this.switch.textContent = this.isOut(this.kind === "both" ? "cross" : this.kind) ? "Bring it back" : "Take it out";
    this.drawMatrix();
    this.align();
    this.announce();
  }

  /** Write the rows of the maps under the lens in words. */
  speak() {
    if (this.told === this.shown()) return;
    this.told = this.shown();
    const { rows, noun } = this.message.header;
    for (const [kind, list] of Object.entries(this.spoken)) {
      const columns = this.columns(kind);
      const valueAt = (t, column) => (this.exists(kind, t, column) ? this.told[kind][t * columns.length + column] : null);
      list.write(rowsInWords(rows, columns, valueAt, noun ? (value) => value.toFixed(2) : null));
    }
  }

  announce() {
    const { rows, source, keys, chosen } = this.message.header;
    const row = this.row("cross");
    const own = this.row("own");
    const most = strongest(row);
    const before = strongest(own);
    const name = (value, what) => (value === null ? `mean over ${what}s` : `${what} ${value + 1}`);
    const where = `${PARTS[this.kind] ?? "both parts"}, ${name(this.layer, "layer")}, ${name(this.head, "head")}`;
    const label = `${where}; ${rows.length} decoder positions (queries): cross-attention onto ` +
      `${source.length} source columns, self-attention onto ${keys.length} prefix columns`;
    this.speak();
    this.plot.setAttribute("aria-label", `${label}. Arrow keys read the weights, Enter goes to a step.`);
    if (this.timer === null) {
      this.live.textContent =
        `Step ${this.step + 1}: ${plain(rows[this.step])}, probability ` +
        `${chance(chosen[this.step].probability)}; looks most at ${source[most]}, ` +
        `${row[most].toFixed(2)}, and back at ${keys[before]}, ${own[before].toFixed(2)}`;
    }
  }
}

Object.assign(Player.prototype, groupPart, lanesPart, matrixPart, nextPart, shiftPart, transportPart);

export default (host) => shown(host, "player", (given) => lasting(Player, given, host));
