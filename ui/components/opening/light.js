// Light between words: beams from a token of the translation up to the source, or arcs between
// words of the source. Its width is the word's, its strength the weight.
import { lightUp, sharp, themeOf } from "../shared/index.js";

const FAINT = 0.05; // weights below this throw no light

export const lightPart = {
  /** Throw light from a word or token on the source words by their weights, at a strength 0 to 1. */
  shine(from, weights, strength) {
    this.light = { from, weights, strength };
    this.draw();
  },

  dress() {
    this.table = this.header.colours[themeOf(this.root)];
    this.draw();
  },

  draw() {
    if (!this.table) return;
    const { from, weights, strength } = this.light;
    const shown = this.guess !== null && strength > 0;
    this.words.forEach((word, i) => {
      const lit = (weights[i] ?? 0) >= FAINT && strength > 0;
      lightUp(word, this.table, lit ? strength * weights[i] : null);
      const share = shown && this.scene.nouns.includes(i) ? (weights[i] ?? 0).toFixed(2) : "";
      if (word.lastChild.textContent !== share) word.lastChild.textContent = share;
    });
    const box = this.stage.getBoundingClientRect();
    const pen = sharp(this.canvas, box.width, box.height);
    if (!from?.isConnected || !strength) return;
    const start = this.boxOf(from, box);
    pen.fillStyle = pen.strokeStyle = getComputedStyle(this.root).getPropertyValue("--st-primary-color");
    this.words.forEach((word, i) => {
      if (word === from || (weights[i] ?? 0) < FAINT) return;
      const end = this.boxOf(word, box);
      if (this.words.includes(from)) {
        const share = word.lastChild; // the weight, below which the arc ends
        const bottom = share.textContent ? this.boxOf(share, box).bottom : end.bottom;
        arc(pen, start, { ...end, bottom }, strength * weights[i]);
      } else beam(pen, start, end, strength * weights[i]);
    });
  },

  boxOf(element, box) {
    const { left, right, top, bottom } = element.getBoundingClientRect();
    return { left: left - box.left, right: right - box.left, top: top - box.top, bottom: bottom - box.top };
  },
};

// A beam that widens from a token to the word above it.
function beam(pen, start, end, weight) {
  const middle = (start.left + start.right) / 2;
  const half = Math.min(10, (start.right - start.left) / 2);
  const fall = pen.createLinearGradient(0, start.top, 0, end.bottom);
  const colour = pen.fillStyle;
  fall.addColorStop(0, colour);
  fall.addColorStop(1, `color-mix(in srgb, ${colour} 55%, transparent)`);
  pen.save();
  pen.globalAlpha = Math.min(1, 0.05 + 1.5 * weight);
  pen.fillStyle = fall;
  pen.beginPath();
  pen.moveTo(middle - half, start.top);
  pen.lineTo(end.left, end.bottom);
  pen.lineTo(end.right, end.bottom);
  pen.lineTo(middle + half, start.top);
  pen.fill();
  pen.restore();
}

// An arc below the line from one word to another.
function arc(pen, start, end, weight) {
  const [x0, x1] = [start, end].map((each) => (each.left + each.right) / 2);
  const depth = Math.max(start.bottom, end.bottom) + Math.min(70, 24 + Math.abs(x1 - x0) / 8);
  pen.save();
  pen.globalAlpha = 0.2 + 0.7 * weight;
  pen.lineWidth = 2 + 9 * weight;
  pen.lineCap = "round";
  pen.beginPath();
  pen.moveTo(x0, start.bottom);
  pen.bezierCurveTo(x0, depth, x1, depth, x1, end.bottom);
  pen.stroke();
  pen.restore();
}
