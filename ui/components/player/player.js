// The decoding player. Everything it shows arrives in one message; stepping, playing, and
// changing layer or head happen here without the server, which is told once things are at rest.
// Tokens are untrusted: they are only ever set as textContent or drawn on a canvas.

const REPORT_MS = 300;
const FAINT = 0.05; // weights below this get no number and no line
const MOST_BUTTONS = 12; // more layers or heads than this become a drop-down
const players = new WeakMap();

export default function ({ data, parentElement, setStateValue }) {
  let player = players.get(parentElement);
  if (!player) {
    player = new Player(parentElement);
    players.set(parentElement, player);
  }
  player.report = (value) => setStateValue("view", value);
  player.receive(unpack(data));
  return () => {
    player.close();
    players.delete(parentElement);
  };
}

class Player {
  constructor(parent) {
    this.step = 0;
    this.layer = null;
    this.head = null;
    this.hover = null;
    this.timer = null;
    this.reportTimer = null;
    this.seen = null;
    this.maps = new Map();
    this.build(parent);
    this.onKey = (event) => this.key(event);
    document.addEventListener("keydown", this.onKey);
    this.observer = new ResizeObserver(() => {
      this.fit();
      this.draw();
    });
    this.observer.observe(this.root);
    document.fonts?.ready.then(() => this.message && this.draw());
  }

  close() {
    this.stop();
    clearTimeout(this.reportTimer);
    document.removeEventListener("keydown", this.onKey);
    this.observer.disconnect();
    this.root.remove();
  }

  build(parent) {
    this.root = el("section", "player", { tabindex: "0", role: "group" });
    this.root.setAttribute("aria-label", "Decoding player: arrow keys step, space plays");
    this.stage = el("div", "stage");
    this.rays = el("canvas", "rays", { "aria-hidden": "true" });
    this.source = lane(this.stage, "Source", "keys", "Source tokens");
    this.stage.append(el("div", "gap"));
    this.target = lane(this.stage, "Translation", "queries", "Target tokens, click one to go there");
    this.stage.prepend(this.rays);
    const next = el("div", "panel next");
    this.nextTitle = el("h3");
    this.bars = el("ol", "bars");
    this.entropy = el("p", "note");
    next.append(this.nextTitle, this.bars, this.entropy);
    const lens = el("div", "panel lens");
    this.choosers = el("div", "choosers");
    this.matrix = el("canvas", "matrix", { role: "img" });
    this.matrixNote = el("p", "note");
    lens.append(this.choosers, this.matrix, this.matrixNote);
    const lower = el("div", "lower");
    lower.append(next, lens);
    this.tip = el("div", "tip", { "aria-hidden": "true" });
    this.live = el("div", "unseen", { "aria-live": "polite" });
    this.root.append(this.stage, this.buildTransport(), lower, this.tip, this.live);
    parent.append(this.root);
    for (const part of [this.source, this.target]) {
      part.addEventListener("scroll", () => this.drawRays());
    }
    this.matrix.addEventListener("mousemove", (event) => this.overMatrix(event));
    this.matrix.addEventListener("mouseleave", () => this.setHover(null));
    this.matrix.addEventListener("click", (event) => {
      const cell = this.cellAt(event);
      if (cell) this.go(cell.t);
    });
  }

  /** Take a message. The place is kept while the trace is the same and nobody asks for another. */
  receive(message) {
    const { trace, start, shape, colours } = message.header;
    this.message = message;
    const seen = `${trace} ${start.nonce}`;
    if (seen !== this.seen) {
      this.stop();
      clearTimeout(this.reportTimer);
      this.seen = seen;
      this.maps.clear();
      const [L, H, T] = shape;
      this.step = Math.min(Math.max(start.step, 0), T - 1);
      this.layer = start.layer !== null && start.layer < L ? start.layer : null;
      this.head = start.head !== null && start.head < H ? start.head : null;
      this.fill();
    }
    const background = getComputedStyle(this.root).getPropertyValue("--st-background-color");
    this.paper = rgb(background);
    this.dark = luminance(this.paper) < 0.2;
    this.root.classList.toggle("dark", this.dark);
    this.table = colourTable(this.dark ? colours.dark : colours.light);
    this.fit();
    this.draw();
  }

  /** Set the tokens as large as lets each lane keep to one line, or small where none does. */
  fit() {
    if (!this.message) return;
    this.root.classList.toggle("narrow", this.root.clientWidth < 640);
    const sizes = ["", "many", "tight"];
    const oneLine = (list) => list.clientHeight < 1.6 * list.firstChild.offsetHeight;
    const most = Math.max(this.source.children.length, this.target.children.length);
    for (const size of most > 40 ? ["crowd"] : [...sizes, "many"]) {
      this.root.classList.remove("crowd", ...sizes.filter(Boolean));
      if (size) this.root.classList.add(size);
      if (oneLine(this.source) && oneLine(this.target)) break;
    }
  }

  /** Everything that changes with the trace only. */
  fill() {
    const { source, predicted, unknown, special, shape } = this.message.header;
    const [L, H, T] = shape;
    this.source.replaceChildren(
      ...source.map((text, s) => {
        const item = el("li");
        const chip = el("span", "chip");
        write(chip, text);
        if (unknown.includes(s)) chip.classList.add("unknown");
        if (special.includes(s)) chip.classList.add("special");
        item.append(chip, el("span", "weight"));
        item.addEventListener("mouseenter", () => this.setHover({ t: this.step, s, chip }));
        item.addEventListener("mouseleave", () => this.setHover(null));
        return item;
      }),
    );
    this.target.replaceChildren(
      ...predicted.map((text, t) => {
        const item = el("li");
        const chip = el("button", "chip", { type: "button" });
        write(chip, text);
        if (t === T - 1 && this.message.header.complete) chip.classList.add("special");
        chip.setAttribute("aria-label", `Step ${t + 1}: ${text}`);
        chip.addEventListener("click", () => this.go(t));
        item.append(chip);
        return item;
      }),
    );
    this.scrubber.max = String(T);
    this.choosers.replaceChildren(
      this.chooser("Layer", L, () => this.layer, (value) => { this.layer = value; }),
      this.chooser("Head", H, () => this.head, (value) => { this.head = value; }),
    );
  }

  /** A row of buttons, "mean 1 2 3", or a drop-down where they are many. */
  chooser(name, count, get, set) {
    const box = el("div", "chooser", { role: "group", "aria-label": name });
    const label = el("span", "label");
    label.textContent = name;
    box.append(label);
    const values = [null, ...range(count)];
    const text = (value) => (value === null ? "mean" : String(value + 1));
    const choose = (value) => {
      set(value);
      this.changed();
    };
    if (count > MOST_BUTTONS) {
      const select = el("select", "", { "aria-label": name });
      for (const value of values) select.add(new Option(text(value), text(value)));
      select.addEventListener("change", () => choose(values[select.selectedIndex]));
      box.show = () => { select.selectedIndex = values.indexOf(get()); };
      box.append(select);
    } else {
      const buttons = values.map((value) => {
        const button = el("button", "choice", { type: "button" });
        button.textContent = text(value);
        button.setAttribute("aria-label", `${name} ${text(value)}`);
        button.addEventListener("click", () => choose(value));
        return button;
      });
      box.show = () => buttons.forEach((button, i) => {
        button.setAttribute("aria-pressed", String(values[i] === get()));
      });
      box.append(...buttons);
    }
    return box;
  }

  go(step) {
    const T = this.message.header.shape[2];
    const bounded = Math.min(Math.max(step, 0), T - 1);
    if (this.timer !== null && bounded === T - 1) this.stop();
    if (bounded === this.step) return;
    this.step = bounded;
    this.changed();
  }

  changed() {
    this.draw();
    clearTimeout(this.reportTimer);
    if (this.timer === null) this.reportTimer = setTimeout(() => this.tell(), REPORT_MS);
  }

  /** Tell Python where things stand, so that the link says it; steps are counted from 1 there. */
  tell() {
    const number = (value) => (value === null ? null : value + 1);
    this.report({
      trace: this.message.header.trace,
      step: this.step + 1,
      layer: number(this.layer),
      head: number(this.head),
    });
  }

  /** The map under the lens, [T, S]. */
  map() {
    const key = `${this.layer} ${this.head}`;
    if (!this.maps.has(key)) {
      if (this.maps.size > 40) this.maps.clear();
      this.maps.set(key, mapOf(this.message, this.layer, this.head));
    }
    return this.maps.get(key);
  }

  row() {
    const S = this.message.header.shape[3];
    return this.map().subarray(this.step * S, (this.step + 1) * S);
  }

  draw() {
    if (!this.message) return;
    this.drawTokens();
    this.drawRays();
    this.drawNext();
    for (const chooser of this.choosers.children) chooser.show();
    this.drawMatrix();
    this.say();
  }

  drawTokens() {
    const row = this.row();
    const T = this.message.header.shape[2];
    [...this.source.children].forEach((item, s) => {
      const colour = colourAt(this.table, row[s]);
      item.firstChild.style.backgroundColor = `rgb(${colour})`;
      item.firstChild.style.color = inkOn(colour);
      item.lastChild.textContent = row[s] >= FAINT ? row[s].toFixed(2) : "";
    });
    [...this.target.children].forEach((item, t) => {
      item.classList.toggle("now", t === this.step);
      item.classList.toggle("later", t > this.step);
      if (t === this.step) item.firstChild.setAttribute("aria-current", "step");
      else item.firstChild.removeAttribute("aria-current");
    });
    this.scrubber.value = String(this.step + 1);
    this.count.textContent = `step ${this.step + 1} of ${T}`;
    this.first.disabled = this.back.disabled = this.step === 0;
    this.forward.disabled = this.last.disabled = this.step === T - 1;
    reveal(this.target, this.target.children[this.step]);
    reveal(this.source, this.source.children[strongest(row)]);
  }

  /** Light from the target token to the source tokens it looks at. */
  drawRays() {
    if (!this.message) return;
    const box = this.stage.getBoundingClientRect();
    const ctx = sized(this.rays, box.width, box.height);
    const now = this.target.children[this.step];
    if (!now || !inView(this.target, now)) return;
    const from = now.getBoundingClientRect();
    const x0 = from.left + from.width / 2 - box.left;
    const y0 = from.top - box.top;
    ctx.strokeStyle = getComputedStyle(this.root).getPropertyValue("--st-primary-color");
    ctx.lineCap = "round";
    const row = this.row();
    [...this.source.children].forEach((item, s) => {
      if (row[s] < FAINT || !inView(this.source, item)) return;
      const to = item.getBoundingClientRect();
      const x1 = to.left + to.width / 2 - box.left;
      const y1 = to.bottom - box.top; // below the number
      const half = (y0 - y1) / 2;
      ctx.globalAlpha = 0.2 + 0.7 * row[s];
      ctx.lineWidth = 1 + 6 * row[s];
      ctx.beginPath();
      ctx.moveTo(x0, y0);
      ctx.bezierCurveTo(x0, y0 - half, x1, y1 + half, x1, y1);
      ctx.stroke();
    });
  }

  drawNext() {
    const { top, input, entropy, chosen, predicted } = this.message.header;
    const t = this.step;
    this.nextTitle.textContent = "After ";
    const token = el("span", "quote");
    write(token, input[t]);
    this.nextTitle.append(token, " comes");
    const rows = top[t].map(([text, probability], k) => ({ text, probability, taken: k === chosen[t].rank }));
    if (chosen[t].rank < 0) {
      rows.push({ text: predicted[t], probability: chosen[t].probability, taken: true });
    }
    this.bars.replaceChildren(
      ...rows.map(({ text, probability, taken }) => {
        const item = el("li", taken ? "taken" : "");
        const name = el("span", "name");
        write(name, text);
        const track = el("span", "track");
        const fill = el("span", "fill");
        fill.style.width = `${100 * probability}%`;
        track.append(fill);
        const value = el("span", "value");
        value.textContent = percent(probability);
        item.title = `${text}: probability ${probability.toPrecision(4)}${taken ? ", taken" : ""}`;
        item.append(name, track, value);
        return item;
      }),
    );
    this.entropy.textContent = `entropy ${entropy[t].toFixed(2)} bit`;
    this.entropy.title = "How open the choice is: 0 bit where one token is certain, 1 bit for a fair coin";
  }

  say() {
    const { predicted, source, chosen } = this.message.header;
    const row = this.row();
    const most = strongest(row);
    const name = (value, what) => (value === null ? `mean over ${what}s` : `${what} ${value + 1}`);
    const where = `${name(this.layer, "layer")}, ${name(this.head, "head")}`;
    this.matrix.setAttribute(
      "aria-label",
      `Cross-attention, ${where}: ${predicted.length} target positions (queries) by ` +
        `${source.length} source tokens (keys)`,
    );
    if (this.timer === null) {
      this.live.textContent =
        `Step ${this.step + 1}: ${predicted[this.step]}, probability ` +
        `${percent(chosen[this.step].probability)}; looks most at ${source[most]}, ${row[most].toFixed(2)}`;
    }
  }
}
