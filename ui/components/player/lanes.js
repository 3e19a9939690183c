// The two lanes: source tokens under cross-attention, the translation under self-attention. Both
// show where the newest position looks, on the same colour scale.
import { extend, lightUp, make, plain, sharp, signed } from "../shared/index.js";
import { inView, reveal, write } from "./dom.js";
import { strongest } from "./maps.js";
import { FAINT } from "./player.js";

export const lanesPart = {
  fillLanes() {
    const { source, keys, predicted, input, rows, unknown, special, laneSpans, sourceSpans, ended, nForced,
      forced } = this.message.header;
    const T = predicted.length;
    this.source.replaceChildren(
      ...source.map((text, s) => {
        const chip = make("span", "chip");
        write(chip, text);
        chip.classList.toggle("unknown", unknown.includes(s));
        chip.classList.toggle("special", special.includes(s));
        const item = make("li", "", chip, this.askOf("cross", sourceSpans[s][0]));
        return this.explained(item, chip, s);
      }),
    );
    // Position j of the decoder's input: <s>, then the translation.
    const chips = [input[0], ...predicted].map((text, j) => {
      const first = j === 0;
      const chip = make(first ? "span" : "button", "chip");
      write(chip, text);
      chip.classList.toggle("special", first || (j === T && ended));
      const given = !first && j <= nForced;
      if (given && !forced) {
        chip.classList.add("given");
        chip.title = "given, not chosen by the model";
      }
      if (!first) {
        const label = `Step ${j}: ${plain(rows[j - 1])}${given ? ", given" : ""}`;
        extend(chip, { "aria-label": label, onclick: () => this.go(j - 1) });
      }
      return chip;
    });
    this.start = chips[0];
    this.steps = chips.slice(1);
    this.target.replaceChildren(
      ...laneSpans.map(([first, end], c) => {
        const pieces = make("span", "pieces", chips.slice(first, end));
        const item = make("li", end - first > 1 ? "word" : "", pieces, this.askOf("decoder_self", first));
        return this.explained(item, pieces, c < keys.length ? source.length + c : null);
      }),
    );
  },

  /** The weight of a lane's item: a button that asks which heads look so at the key. */
  askOf(of, ask) {
    if (!this.message.header.asks) return make("span", "weight");
    const onclick = () => this.choice.set(this.place(), { ...this.place(), of, ask });
    return make("button", "weight", { title: "Which heads do this?", onclick });
  },

  /** Read the weight of a lane's item, of this column of the matrix, while the pointer is on it. */
  explained(item, chip, column) {
    const onmouseenter = () => this.pointFrom(column === null ? null : chip, column);
    return extend(item, { onmouseenter, onmouseleave: () => this.pointFrom(null) });
  },

  /** Use the largest type that keeps each lane on one line, or small type if none does. */
  fit() {
    this.root.classList.toggle("narrow", this.root.clientWidth < 640);
    const sizes = ["", "many", "tight", "slim"];
    const oneLine = (list) => list.clientHeight < 1.6 * list.firstChild.offsetHeight;
    const most = Math.max(this.source.children.length, this.steps.length);
    for (const size of most > 40 ? ["crowd"] : [...sizes, "many"]) {
      this.root.classList.remove("crowd", ...sizes.filter(Boolean));
      if (size) this.root.classList.add(size);
      if (oneLine(this.source) && oneLine(this.target)) break;
    }
  },

  drawLanes() {
    const { laneSpans, limit } = this.message.header;
    const cross = this.row("cross");
    const own = this.row("own");
    this.rowName.textContent = plain(this.message.header.rows[this.step]);
    this.source.parentElement.classList.toggle("out", this.isOut("cross"));
    this.target.parentElement.classList.toggle("out", this.isOut("decoder_self"));
    [...this.source.children].forEach((item, s) => {
      lightUp(item.firstChild, this.table, cross[s], limit);
      item.lastChild.textContent = written(cross[s]);
    });
    [...this.target.children].forEach((item, c) => {
      const [first, end] = laneSpans[c];
      for (let j = first; j < end; j += 1) {
        // Later tokens get no light: nothing can attend to them.
        const chip = j === 0 ? this.start : this.steps[j - 1];
        lightUp(chip, this.table, j <= this.step ? own[c] : null, limit);
      }
      item.lastChild.textContent = first <= this.step ? written(own[c]) : "";
    });
    this.steps.forEach((chip, t) => {
      chip.classList.toggle("now", t === this.step);
      chip.classList.toggle("later", t > this.step);
      if (t === this.step) chip.setAttribute("aria-current", "step");
      else chip.removeAttribute("aria-current");
    });
    reveal(this.target, this.steps[this.step].closest("li"));
    reveal(this.source, this.source.children[strongest(cross)]);
  },

  /** Light from the target token to the source tokens it attends to; lines of a lane in between cover it. */
  drawRays() {
    if (!this.look) return;
    const box = this.stage.getBoundingClientRect();
    const ctx = sharp(this.rays, box.width, box.height);
    const now = this.steps[this.step];
    if (!now || !inView(this.target, now.closest("li"))) return;
    const from = now.getBoundingClientRect();
    ctx.translate(-box.left, -box.top);
    const x0 = from.left + from.width / 2;
    ctx.strokeStyle = this.look.accent;
    ctx.lineCap = this.isOut("cross") ? "butt" : "round";
    ctx.setLineDash(this.isOut("cross") ? [3, 5] : []);
    const most = this.message.header.limit || 1;
    const row = this.row("cross").map((value) => Math.abs(value) / most);
    [...this.source.children].forEach((item, s) => {
      if (row[s] < FAINT || !inView(this.source, item)) return;
      const to = item.getBoundingClientRect(); // its bottom is below the number
      const x1 = to.left + to.width / 2;
      const half = (from.top - to.bottom) / 2;
      ctx.globalAlpha = 0.2 + 0.7 * row[s];
      ctx.lineWidth = 1 + 6 * row[s];
      ctx.beginPath();
      ctx.moveTo(x0, from.top);
      ctx.bezierCurveTo(x0, from.top - half, x1, to.bottom + half, x1, to.bottom);
      ctx.stroke();
    });
  },
};

function written(weight) {
  return Math.abs(weight) >= FAINT ? signed(weight) : "";
}
