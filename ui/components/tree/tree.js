// The view of a search tree: what is chosen, hidden, zoomed to and scrolled to. The choice, {a, b,
// dropped}, is reported once the user pauses.
import { classHeight, enlarged, lasting, make, plain, shown, signed, spokenList, syncChoice, term, touching, watch } from "../shared/index.js";
import { COLUMN, CUT, extent, geometry, inkOf, paintTree, rectOf } from "./draw.js";

const REST_MS = 250;
const ZOOMS = [0.35, 0.5, 0.7, 0.85, 1, 1.2, 1.45];
const LEGIBLE_ZOOM = 0.92; // "Fit" goes no smaller while shorter columns make room
const LEAST_COLUMN = 60; // px that still hold the beginning of a word; a longer tree scrolls
const MOST_HEIGHT = 430; // px of tree before it scrolls

class TreeView {
  constructor(root) {
    this.root = root;
    this.state = { a: null, b: null, slot: "a", dropped: false, onA: new Set(), onB: new Set() };
    this.zoom = null;
    this.narrow = 1;
    this.hover = null;
    this.fits = new Map();
    this.build();
  }

  close() {
    this.choice.cancel();
  }

  build() {
    const button = (text, title, onclick, className = "") =>
      make("button", className, text, { title, "aria-label": title, onclick });
    const second = touching() ? "" : " (key B, or shift and click)";
    this.slots = {
      a: button("A", "Make the chosen node A (key A)", () => this.use("a"), "slot slot-a"),
      b: button("B", `Make the chosen node B${second}`, () => this.use("b"), "slot slot-b"),
    };
    this.clear = button("Clear B", "Stop comparing (Escape)", () => this.choose("b", null));
    this.toggle = button("", "Show or hide what the search dropped (key D)",
      () => this.setDropped(!this.state.dropped));
    const sample = (name, text) =>
      make("span", `sample ${name}`, make("i"), make("span", "", text));
    this.numbers = make("span", "numbers", "so far: ",
      term("log p", "log-probability"), " · ", term("score", "score"));
    const legend = make("span", "legend", sample("won", "winner"),
      sample("other", "also finished"), sample("fork", "leaves the winner"), sample("dead", "abandoned"), this.numbers);
    const zooms = make("span", "zooms", button("−", "Smaller (key −)", () => this.zoomBy(-1)),
      button("+", "Larger (key +)", () => this.zoomBy(1)),
      button("Fit", "All steps in sight (key F)", () => this.fit()));
    const { a, b } = this.slots;
    const bar = make("div", "bar", a, b, this.clear, this.toggle, legend, zooms);
    this.canvas = make("canvas", "nodes", { "aria-hidden": true });
    this.space = make("div", "space", this.canvas);
    this.view = make("div", "view scrolls", this.space, { tabindex: 0, role: "application" });
    this.readout = make("p", "readout", { role: "status" });
    this.spoken = spokenList("Hypotheses of the search, from the start to where each ends");
    this.root.replaceChildren(bar, this.view, this.readout, this.spoken.element);
    this.listen();
  }

  receive({ header }, host) {
    const anew = header.session !== this.header?.session; // another tree
    this.header = header;
    this.fits.clear();
    if (anew) {
      this.choice?.cancel();
      this.zoom = null;
      this.narrow = 1;
      this.view.scrollTop = this.view.scrollLeft = 0;
      this.children = header.parent.map(() => []);
      header.parent.forEach((parent, index) => parent >= 0 && this.children[parent].push(index));
    }
    this.choice = syncChoice(host, header);
    if (anew || this.choice.fresh) {
      const { value } = this.choice;
      Object.assign(this.state, value, { slot: value.b === null ? "a" : this.state.slot });
    }
    this.view.setAttribute("aria-label", `${header.label}. Arrow keys move between nodes.`);
    this.derive();
    watch(this.root, () => this.layOut());
    this.reveal(this.chosen());
  }

  /** Derive from the choice which nodes are shown and which paths are marked. */
  derive() {
    const { header, state } = this;
    const isShown = (i) => state.dropped || header.kind[i] <= CUT || i === state.a || i === state.b;
    this.shown = [...header.step.keys()].filter(isShown);
    state.onA = new Set(this.path(state.a));
    state.onB = new Set(this.path(state.b));
    const hidden = header.kind.filter((kind) => kind > CUT).length;
    const what = header.beam === 1 ? "runners-up" : "dropped";
    this.toggle.textContent = `${state.dropped ? "Hide" : "Show"} ${hidden} ${what}`;
    this.toggle.hidden = hidden === 0;
    for (const name of ["a", "b"]) {
      this.slots[name].setAttribute("aria-pressed", state.slot === name);
    }
    this.clear.hidden = state.b === null;
    this.slots.a.hidden = this.slots.b.hidden = Boolean(header.single);
    this.describe(this.chosen());
    const seen = new Set(this.shown);
    const ends = this.shown.filter((index) => !this.children[index].some((child) => seen.has(child)));
    this.spoken.write(ends.map((index) => {
      const words = this.path(index).reverse().map((at) => header.texts[header.text[at]]);
      return `${words.join(" ")}: ${header.outcomes[header.kind[index]]}, log p so far ${signed(header.total[index])}`;
    }));
  }

  chosen() {
    return this.state[this.state.slot] ?? this.state.a;
  }

  path(index) {
    const found = [];
    for (let at = index ?? -1; at >= 0; at = this.header.parent[at]) found.push(at);
    return found;
  }

  /** Sizes that depend on the window, the zoom and the theme; then paint. */
  layOut() {
    this.numbers.hidden = this.narrow < 1;
    this.type = enlarged(this.root);
    this.ink = inkOf(this.root, this.header);
    this.font = this.ink.font;
    if (this.zoom === null) return this.fit(); // to the last step, as long as words can be read
    this.size = geometry(this.header, this.zoom, this.type, this.narrow);
    const { width, height } = extent(this.header, this.size, this.shown);
    const bar = width > this.view.clientWidth ? 16 : 2;
    this.view.style.height = `${Math.min(height + bar, Math.max(MOST_HEIGHT * this.type, classHeight(this.view, 3)))}px`;
    this.space.style.width = `${width}px`;
    this.space.style.height = `${height}px`;
    this.paint();
  }

  paint() {
    if (!this.size) return;
    const { scrollLeft: left, scrollTop: top, clientWidth: width, clientHeight: height } = this.view;
    Object.assign(this, { left, top, width, height });
    const inSight = paintTree(this, this.state);
    this.canvas.dataset.painted = String(this.shown.length);
    // Where to click a node, for tests: "step.rank" to [x, y].
    const places = inSight.slice(0, 400).map((index) => {
      const { x, y, w, h } = this.placeOf(index);
      const name = `${this.header.step[index] + 1}.${this.header.rank[index] + 1}`;
      return [name, [Math.round(x + w / 2), Math.round(y + h / 2)]];
    });
    this.canvas.dataset.places = JSON.stringify(Object.fromEntries(places));
  }

  soon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.paint();
    });
  }

  placeOf(index) {
    const { x, y, w, h } = rectOf(this.header, this.size, index);
    return { x: x - this.view.scrollLeft, y: y - this.view.scrollTop, w, h };
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const near = 2;
    const found = this.shown.find((index) => {
      const { x: left, y: top, w, h } = this.placeOf(index);
      return x >= left && x <= left + w && y >= top - near && y <= top + h + near;
    });
    return found ?? null;
  }

  listen() {
    const { view } = this;
    let grip = null;
    view.onscroll = () => this.soon();
    view.onpointerdown = (event) => {
      if (event.pointerType !== "mouse" || event.button !== 0 || event.target !== this.canvas) return;
      grip = { x: event.clientX, y: event.clientY, left: view.scrollLeft, top: view.scrollTop };
    };
    view.onpointermove = (event) => {
      if (grip && event.buttons & 1) {
        const [dx, dy] = [event.clientX - grip.x, event.clientY - grip.y];
        if (grip.moved || Math.hypot(dx, dy) > 4) {
          grip.moved = true;
          view.classList.add("dragged");
          view.scrollTo(grip.left - dx, grip.top - dy);
        }
        return;
      }
      const index = this.at(event);
      if (index === this.hover) return;
      this.hover = index;
      view.classList.toggle("on-node", index !== null);
      this.describe(index ?? this.chosen());
      this.soon();
    };
    view.onpointerleave = () => {
      this.hover = null;
      this.describe(this.chosen());
      this.soon();
    };
    view.onclick = (event) => {
      const dragged = grip?.moved;
      grip = null;
      view.classList.remove("dragged");
      if (dragged) return;
      const index = this.at(event);
      if (index !== null) this.choose(event.shiftKey ? "b" : this.state.slot, index);
    };
    this.root.onkeydown = (event) => this.press(event);
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const acts = {
      a: () => this.use("a"),
      b: () => this.use("b"),
      d: () => this.setDropped(!this.state.dropped),
      f: () => this.fit(),
      "+": () => this.zoomBy(1),
      "=": () => this.zoomBy(1),
      "-": () => this.zoomBy(-1),
      ...(this.state.b !== null && { Escape: () => this.choose("b", null) }),
    };
    const moves = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"];
    const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (moves.includes(name) && this.view.contains(event.target)) this.move(name);
    else if (Object.hasOwn(acts, name)) acts[name]();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Arrows go to the parent, to the best continuation, and along the ranks of a step. */
  move(name) {
    const { header, state } = this;
    const from = state[state.slot] ?? state.a ?? state.b;
    if (from === null) return;
    const seen = new Set(this.shown);
    const next = (index) => {
      const after = this.children[index].filter((child) => seen.has(child));
      return after.sort((one, other) => header.line[other] - header.line[one])[0] ?? null;
    };
    let to = null;
    if (name === "ArrowLeft") to = header.parent[from];
    if (name === "ArrowRight") to = next(from);
    if (name === "ArrowUp" || name === "ArrowDown") {
      const column = this.shown.filter((index) => header.step[index] === header.step[from]);
      to = column[column.indexOf(from) + (name === "ArrowUp" ? -1 : 1)] ?? null;
    }
    if (name === "Home") to = this.path(from).at(-1);
    if (name === "End") for (let at = from; at !== null; at = next(at)) to = at;
    if (to !== null && to >= 0 && to !== from) this.choose(state.slot, to);
  }

  use(slot) {
    if (this.header.single) return;
    this.state.slot = slot;
    this.derive();
    this.layOut();
    this.view.focus({ preventScroll: true });
  }

  choose(wanted, index) {
    const slot = this.header.single ? "a" : wanted;
    if (slot !== wanted && index === null) return; // there is no B to let go of
    this.state[slot] = index;
    if (slot === "b") this.state.slot = index === null ? "a" : this.state.slot;
    this.changed();
    this.reveal(index);
  }

  setDropped(dropped) {
    this.state.dropped = dropped;
    this.changed();
  }

  changed() {
    this.derive();
    this.layOut();
    const { a, b, dropped } = this.state;
    this.choice.later({ a, b, dropped }, REST_MS);
  }

  zoomBy(by) {
    const far = (zoom) => Math.abs(zoom - this.zoom);
    const nearest = ZOOMS.reduce((best, zoom) => (far(zoom) < far(best) ? zoom : best));
    this.zoomTo(ZOOMS[ZOOMS.indexOf(nearest) + by] ?? nearest);
  }

  /** Show all steps: shorten the columns before the words become too small to read. */
  fit() {
    const one = geometry(this.header, 1, this.type);
    const all = extent(this.header, one, this.shown).width - one.gutter;
    const zoom = (this.view.clientWidth - one.gutter) / all;
    const narrow = Math.max(zoom / LEGIBLE_ZOOM, LEAST_COLUMN / (COLUMN * LEGIBLE_ZOOM));
    if (zoom >= LEGIBLE_ZOOM) this.zoomTo(Math.min(this.type > 1 ? 1.6 : 1.2, zoom));
    else this.zoomTo(Math.max(this.zoom === null ? 12 / 14 / this.type : 0.12, zoom / narrow), narrow); // 12 px of 14
  }

  zoomTo(zoom, narrow = 1) {
    this.zoom = zoom;
    this.narrow = narrow;
    this.fits.clear();
    this.layOut();
    this.reveal(this.chosen());
  }

  /** Scroll the view, never the page, until a node is visible. */
  reveal(index) {
    if (index === null || index === undefined || !this.size) return;
    const { view } = this;
    const place = this.placeOf(index);
    const [w, h] = [view.clientWidth, view.clientHeight];
    if (place.x < this.size.gutter || place.x + place.w + 20 > w) {
      view.scrollLeft += place.x + place.w / 2 - w / 2;
    }
    if (place.y < this.size.head || place.y + place.h + 4 > h) {
      view.scrollTop += place.y + place.h / 2 - h / 2;
    }
    this.paint();
  }

  describe(index) {
    if (index === null || index === undefined) {
      this.readout.textContent = "Choose a node, also with the arrow keys.";
      return;
    }
    const { header } = this;
    const log = header.log_prob[index];
    this.readout.textContent =
      `Step ${header.step[index] + 1}, rank ${header.rank[index] + 1}: ` +
      `${plain(header.texts[header.text[index]])} · ${header.outcomes[header.kind[index]]} · ` +
      `log p ${signed(log)} (${(100 * Math.exp(log)).toFixed(1)}%) · ` +
      `so far ${signed(header.total[index])} · score ${signed(header.score[index])}`;
  }
}

export default (host) => shown(host, "tree", (given) => lasting(TreeView, given, host));
