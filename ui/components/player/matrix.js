// The matrix under the lens: rows are target positions (queries), columns source tokens (keys).

const LABEL = 11; // px, and the least height of a row that has a label
const MOST_CELL = 26; // px

Object.assign(Player.prototype, {
  /** Where the cells lie: margins for labels, then as large as fits. */
  matrixFrame() {
    const { source, predicted, shape } = this.message.header;
    const [, , T, S] = shape;
    const width = this.matrix.parentElement.clientWidth;
    const ctx = this.matrix.getContext("2d");
    ctx.font = this.labelFont();
    const longest = (texts) => Math.max(...texts.map((text) => ctx.measureText(thin(text)).width));
    const wantLeft = Math.min(120, 26 + longest(predicted));
    const wantTop = Math.min(78, 20 + longest(source) * 0.72);
    const height = this.matrixHeight(wantTop + 6 + T * LABEL, wantTop + 6 + T * MOST_CELL);
    // Labels need room; where rows or columns are too thin for them, only some numbers are written.
    const rowsFit = (height - wantTop - 6) / T >= LABEL;
    const columnsFit = (width - wantLeft - 10) / S >= LABEL;
    const left = rowsFit ? wantLeft : 30;
    const top = columnsFit ? wantTop : 30;
    // Slanted labels of the last columns lean out to the right.
    const right = columnsFit ? Math.min(64, top * 0.9) : 8;
    const cell = {
      w: Math.min(2 * MOST_CELL, (width - left - right) / S),
      h: Math.min(MOST_CELL, (height - top - 6) / T),
    };
    return { T, S, left, top, cell, rowsFit, columnsFit, width, height };
  },

  /** What is left of the window, so that nothing needs scrolling where that can be; a little more
   * where the rows would lose their labels, and never more than `enough`. */
  matrixHeight(needed, enough) {
    const scrolled = document.querySelector('[data-testid="stMain"]')?.scrollTop ?? 0;
    const above = this.matrix.getBoundingClientRect().top + scrolled;
    const room = Math.max(220, Math.min(560, window.innerHeight - above - 14));
    return Math.min(enough, needed > room && needed <= 560 ? needed : room);
  },

  labelFont() {
    const font = getComputedStyle(this.root).getPropertyValue("--st-font") || "sans-serif";
    return `${LABEL}px ${font}`;
  },

  drawMatrix() {
    if (this.matrix.parentElement.clientWidth < 160) return; // not laid out yet, or hidden
    const frame = this.matrixFrame();
    const { T, S, left, top, cell, width, height } = frame;
    const ctx = sized(this.matrix, width, height);
    this.frame = frame;
    this.matrix.dataset.frame = JSON.stringify({ left, top, w: cell.w, h: cell.h });
    const style = getComputedStyle(this.root);
    const ink = style.getPropertyValue("--st-text-color");
    const w = cell.w * S;
    const h = cell.h * T;
    const ratio = window.devicePixelRatio || 1;
    const small = shrink(this.map(), T, S, Math.floor(h * ratio), Math.floor(w * ratio));
    ctx.imageSmoothingEnabled = false;
    ctx.drawImage(picture(small, this.table), left, top, w, h);
    ctx.strokeStyle = style.getPropertyValue("--st-border-color");
    ctx.lineWidth = 1;
    ctx.strokeRect(left - 0.5, top - 0.5, w + 1, h + 1);
    this.drawAxes(ctx, frame, ink);
    ctx.strokeStyle = style.getPropertyValue("--st-primary-color");
    ctx.lineWidth = 2;
    ctx.strokeRect(left - 1, top + this.step * cell.h - 1, w + 2, Math.max(3, cell.h + 2));
    if (this.hover && this.hover.onMatrix) {
      ctx.strokeStyle = ink;
      ctx.lineWidth = 1;
      const { t, s } = this.hover;
      ctx.strokeRect(left + s * cell.w, top + t * cell.h, cell.w, cell.h);
    }
    const shrunk = small.T < T || small.S < S;
    this.matrixNote.textContent = shrunk
      ? "More cells than pixels: each pixel shows the strongest weight it covers."
      : "";
  },

  drawAxes(ctx, { T, S, left, top, cell, rowsFit, columnsFit }, ink) {
    const { source, predicted } = this.message.header;
    ctx.font = this.labelFont();
    ctx.fillStyle = ink;
    ctx.textBaseline = "middle";
    ctx.textAlign = "right";
    const every = (n, size) => Math.max(1, Math.ceil(n / Math.max(1, Math.floor(size / 32))));
    const rowStep = rowsFit ? 1 : every(T, cell.h * T);
    for (let t = 0; t < T; t += rowStep) {
      const now = t === this.step;
      ctx.globalAlpha = now || !rowsFit ? 1 : 0.72;
      const text = rowsFit ? fitted(ctx, thin(predicted[t]), left - 22) : String(t + 1);
      ctx.fillText(text, left - 6, top + (t + 0.5) * cell.h);
    }
    ctx.textAlign = "left";
    const columnStep = columnsFit ? 1 : every(S, cell.w * S);
    for (let s = 0; s < S; s += columnStep) {
      ctx.globalAlpha = columnsFit ? 0.72 : 1;
      ctx.save();
      ctx.translate(left + (s + 0.5) * cell.w, top - 6);
      if (columnsFit) ctx.rotate(-Math.PI / 4);
      else ctx.textAlign = "center";
      ctx.fillText(columnsFit ? fitted(ctx, thin(source[s]), (top - 18) / 0.72) : String(s + 1), 0, 0);
      ctx.restore();
    }
    ctx.globalAlpha = 0.72;
    ctx.textAlign = "left";
    ctx.fillText("source token (key) →", left, 7);
    this.drawScale(ctx, left + cell.w * S);
    ctx.save();
    ctx.translate(7, top + cell.h * T);
    ctx.rotate(-Math.PI / 2);
    ctx.fillText(fitted(ctx, "← target position (query)", cell.h * T + top - 16), 0, 0);
    ctx.restore();
    ctx.globalAlpha = 1;
  },

  /** The colour scale, the same in every picture: a weight of 0 to a weight of 1. */
  drawScale(ctx, right) {
    const width = 72;
    const x = right - width - 10;
    const strip = { map: Float32Array.from(range(256), (i) => i / 255), T: 1, S: 256 };
    ctx.globalAlpha = 1;
    ctx.drawImage(picture(strip, this.table), x, 3, width, 8);
    ctx.strokeStyle = getComputedStyle(this.root).getPropertyValue("--st-border-color");
    ctx.strokeRect(x - 0.5, 2.5, width + 1, 9);
    ctx.globalAlpha = 0.72;
    ctx.textAlign = "right";
    ctx.fillText("weight 0", x - 4, 7);
    ctx.textAlign = "left";
    ctx.fillText("1", x + width + 4, 7);
  },

  cellAt(event) {
    const box = this.matrix.getBoundingClientRect();
    const { left, top, cell, T, S } = this.frame;
    const s = Math.floor((event.clientX - box.left - left) / cell.w);
    const t = Math.floor((event.clientY - box.top - top) / cell.h);
    return s >= 0 && s < S && t >= 0 && t < T ? { t, s } : null;
  },

  overMatrix(event) {
    const cell = this.cellAt(event);
    this.matrix.style.cursor = cell ? "pointer" : "default";
    this.setHover(cell && { ...cell, onMatrix: true, x: event.clientX, y: event.clientY });
  },

  /** Show the exact weight of one cell beside the pointer. */
  setHover(hover) {
    const redraw = (this.hover && this.hover.onMatrix) || (hover && hover.onMatrix);
    this.hover = hover;
    this.tip.classList.toggle("shown", Boolean(hover));
    if (hover) {
      const { source, predicted, input, bits, shape } = this.message.header;
      const weight = this.map()[hover.t * shape[3] + hover.s];
      const line = (parts) => {
        const row = el("div");
        for (const [kind, text] of parts) {
          const part = el("span", kind);
          part.textContent = thin(text);
          row.append(part);
        }
        return row;
      };
      this.tip.replaceChildren(
        line([["strong", weight.toFixed(bits === 16 ? 4 : 2)]]),
        line([["faint", "key "], ["", `${hover.s + 1} ${source[hover.s]}`]]),
        line([["faint", "query reads "], ["", `${hover.t + 1} ${input[hover.t]}`]]),
        line([["faint", "and predicts "], ["", predicted[hover.t]]]),
      );
      const box = this.root.getBoundingClientRect();
      const at = hover.chip ? hover.chip.getBoundingClientRect() : null;
      const x = (at ? at.left : hover.x + 14) - box.left;
      const y = (at ? at.bottom + 4 : hover.y + 14) - box.top;
      this.tip.style.left = `${Math.min(x, box.width - this.tip.offsetWidth - 4)}px`;
      this.tip.style.top = `${y + this.tip.offsetHeight > box.height && !at ? y - this.tip.offsetHeight - 24 : y}px`;
    }
    if (redraw) this.drawMatrix();
  },
});

/** A map as a canvas of one pixel a cell. */
function picture({ map, T, S }, table) {
  const canvas = document.createElement("canvas");
  canvas.width = S;
  canvas.height = T;
  const ctx = canvas.getContext("2d");
  const image = ctx.createImageData(S, T);
  for (let i = 0; i < T * S; i += 1) {
    const [r, g, b] = colourAt(table, map[i]);
    image.data.set([r, g, b, 255], 4 * i);
  }
  ctx.putImageData(image, 0, 0);
  return canvas;
}

/** A token with the mark of a word's start as an underscore: the mark itself is wide on a canvas. */
function thin(token) {
  return token.replaceAll("▁", "_");
}

/** Text cut to a width, with an ellipsis where something is left out. */
function fitted(ctx, text, width) {
  if (ctx.measureText(text).width <= width) return text;
  const letters = [...text];
  while (letters.length > 1 && ctx.measureText(`${letters.join("")}…`).width > width) letters.pop();
  return `${letters.join("")}…`;
}
