// "Outputs (shifted right)", the words of figure 1: what a position predicts drops one place to the
// right, where the next position reads it. One column per decoder position, predictions above.
import { calm, make, plain } from "../shared/index.js";
import { write } from "./dom.js";

const DROP_MS = 450;

export const shiftPart = {
  /** Build the strip, and the button in the lane's name that opens it. */
  buildShift() {
    const label = "Decoder positions, what each reads and predicts";
    this.positions = make("ol", "positions scrolls", { "aria-label": label });
    this.shiftNote = make("p", "note");
    const names = ["predicts", "reads"].map((name) => make("span", "", name));
    const title = make("div", "shift-names", { "aria-hidden": true }, names);
    this.shift = make("div", "shift", make("div", "lane", title, this.positions), this.shiftNote);
    const onclick = () => {
      this.shifted = !this.shifted;
      this.changed();
    };
    this.opener = make("button", "opener", { onclick });
    this.target.previousSibling.append(this.opener);
  },

  fillShift() {
    const { input, predicted, rows } = this.message.header;
    this.positions.replaceChildren(...rows.map((label, t) => {
      const [output, read] = [make("span", "chip output"), make("span", "chip input")];
      write(output, predicted[t]);
      write(read, input[t]);
      const about = { "aria-label": `${t + 1}: ${plain(label)}` };
      return make("li", "position", about, output, make("span", "way", "\u2191"), read);
    }));
    this.dropped = null;
  },

  drawShift() {
    this.shift.hidden = !this.shifted;
    this.opener.textContent = `shifted right ${this.shifted ? "\u25b4" : "\u25be"}`;
    this.opener.setAttribute("aria-expanded", String(this.shifted));
    const [t, before] = [this.step, this.dropped];
    this.dropped = this.shifted ? t : null;
    if (!this.shifted) return;
    const columns = [...this.positions.children];
    columns.forEach((item, j) => {
      item.classList.toggle("unwritten", j > t);
      item.classList.toggle("now", j === t);
    });
    const { input, predicted } = this.message.header;
    const from = t ? `which step ${t} wrote` : "since nothing has been written yet";
    this.shiftNote.textContent = plain(
      `Position ${t + 1} reads ${input[t]}, ${from}, and predicts ${predicted[t]}: ` +
        "the decoder's input is its output, shifted right by one place (figure 1).",
    );
    // The position in the middle, as far as whole columns begin at the edge.
    const places = columns.map((item) => item.offsetLeft - columns[0].offsetLeft);
    const edge = places[t] - (this.positions.clientWidth - columns[t].offsetWidth) / 2;
    this.positions.scrollLeft = places.find((place) => place >= edge);
    if (t && t !== before && (before === null || t === before + 1)) this.drop(columns[t - 1], columns[t]);
  },

  /** Let the token that was written drop into its place in the input, then show the next one. */
  drop(from, to) {
    if (calm()) return;
    const [here, there] = [from.firstChild, to.lastChild].map((chip) => chip.getBoundingClientRect());
    const written = `${here.left - there.left}px ${here.top - there.top}px`;
    to.lastChild.animate(
      [{ translate: written }, { translate: "0px 0px" }], { duration: DROP_MS, easing: "ease-in-out" },
    );
    for (const late of [to.children[0], to.children[1]]) {
      late.animate([{ opacity: 0 }, { opacity: 1 }], { delay: DROP_MS, duration: 200, fill: "backwards" });
    }
  },
};
