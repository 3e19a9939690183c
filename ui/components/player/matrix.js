// The matrix under the lens: rows are decoder positions (queries); columns are keys, source tokens
// on the left and the prefix on the right.
import { cellUnder, drawCells, drawRow, drawSlanted, fitted, make, onPhone, pageTop, plain, rowColumns,
  setBox, sharp, startsOf, tallness, weightLevel, widestRow, widthsIn } from "../shared/index.js";

const LABEL = 11; // px at scale 1, and the least height of a row that has a label
const MOST_CELL = 26; // px in a window of 720 px
const MOST_SCROLLED = 128; // rows that a phone draws at that size
const FINGER = 18; // px, of a cell on a phone, where the maps scroll below their labels
const BLOCK_GAP = 16; // px, between the two maps

export const matrixPart = {
  /** Lay out the cells: margins for labels, then as large as fits. `blocks` are the two maps, side by
   * side over the same rows. */
  matrixFrame() {
    const { rows, source, keys } = this.message.header;
    const T = rows.length;
    const width = this.matrix.parentElement.clientWidth;
    const wide = widthsIn(this.labelFont());
    const scale = this.labelSize() / LABEL;
    const room = Math.max(84 * scale, 0.26 * width);
    const rowLabels = rowColumns(rows, wide, room);
    const wantLeft = 26 * scale + rowLabels.width;
    const wantTop = Math.min(78 * scale, 20 * scale + widestRow([...source, ...keys], wide) * 0.72);
    const label = this.labelSize();
    const most = MOST_CELL * tallness();
    const scrolls = onPhone() && T <= MOST_SCROLLED;
    const height = scrolls
      ? wantTop + 6 + T * FINGER
      : this.matrixHeight(wantTop + 6 + T * label, wantTop + 6 + T * most);
    // If rows or columns are too thin for labels, only some numbers are written.
    const rowsFit = (height - wantTop - 6) / T > label - 0.01; // both come from the same sums
    const columns = source.length + keys.length;
    const columnsFit = scrolls || (width - wantLeft - BLOCK_GAP - 24) / columns >= label;
    const left = rowsFit ? wantLeft : 40 * scale;
    const top = columnsFit ? wantTop : 30 * scale;
    // Slanted labels of the last columns lean out to the right.
    const right = columnsFit ? Math.min(44, top * 0.6) : 8;
    const fits = Math.min(2 * most, (width - left - right - BLOCK_GAP) / columns);
    const cell = { w: scrolls ? Math.max(FINGER, fits) : fits, h: Math.min(most, (height - top - 6) / T) };
    const whole = left + columns * cell.w + BLOCK_GAP + right; // of which a phone shows a part
    this.whole.style.width = scrolls && whole > width ? `${whole}px` : "0";
    const away = this.scroller.scrollLeft;
    const ys = startsOf(T, cell.h, top);
    const block = (kind, labels, from, title) =>
      ({ kind, labels, left: from, title, ...cell, ys, xs: startsOf(labels.length, cell.w, from) });
    const blocks = [
      block("cross", source, left - away, `source: ${this.partOf("cross")}`),
      block("own", keys, left - away + source.length * cell.w + BLOCK_GAP, `prefix: ${this.partOf("decoder_self")}`),
    ];
    return { T, blocks, left, top, cell, rowLabels, rowsFit, columnsFit, width, height };
  },

  /** The remaining height of the window, to avoid scrolling; a little more if rows would lose their
   * labels, never more than `enough`. */
  matrixHeight(needed, enough) {
    const room = Math.max(220, Math.min(enough, window.innerHeight - pageTop(this.matrix) - 14));
    return Math.min(enough, needed > room && needed <= 560 * tallness() ? needed : room);
  },

  /** Size of labels in px; larger while presenting, and in a tall window, whose cells are larger. */
  labelSize() {
    const scale = Number(getComputedStyle(this.root).getPropertyValue("--hl-scale")) || 1;
    return LABEL * scale * Math.min(1.25, tallness());
  },

  labelFont() {
    const font = getComputedStyle(this.root).getPropertyValue("--st-font") || "sans-serif";
    return `${this.labelSize()}px ${font}`;
  },

  drawMatrix() {
    if (this.matrix.parentElement.clientWidth < 160) return; // not laid out yet, or hidden
    const frame = this.matrixFrame();
    const { T, left, top, cell, blocks, width, height } = frame;
    const ctx = sharp(this.matrix, width, height);
    this.frame = frame;
    this.matrix.dataset.frame = JSON.stringify({ left, top, ...cell, own: blocks[1].left });
    const { ink, accent } = this.look;
    let shrunk = false;
    this.drawRowLabels(ctx, frame, ink);
    ctx.save();
    if (this.scroller.scrollLeft) ctx.rect(left - 2, 0, width, height), ctx.clip(); // labels stay
    for (const block of blocks) shrunk = this.drawBlock(ctx, block) || shrunk;
    for (const block of blocks) this.drawColumnLabels(ctx, frame, block, ink);
    ctx.strokeStyle = accent;
    ctx.lineWidth = 2;
    for (const block of blocks) {
      const w = cell.w * block.labels.length;
      ctx.strokeRect(block.left - 1, top + this.step * cell.h - 1, w + 2, Math.max(3, cell.h + 2));
    }
    if (this.hover?.onMatrix) {
      ctx.strokeStyle = ink;
      ctx.lineWidth = 1;
      const { t, column, kind } = this.hover;
      const block = blocks.find((each) => each.kind === kind);
      ctx.strokeRect(block.left + column * cell.w, top + t * cell.h, cell.w, cell.h);
    }
    ctx.restore();
    this.matrixNote.textContent = shrunk
      ? "More cells than pixels: each pixel shows the strongest weight it covers."
      : "";
  },

  /** One map. Returns: true if it has more cells than pixels. */
  drawBlock(ctx, block) {
    const { kind, xs, ys, w, h } = block;
    const n = xs.length;
    const map = this.shown()[kind];
    const wordAt = (at) => (this.exists(kind, Math.floor(at / n), at % n) ? this.words[weightLevel(map[at])] : 0);
    const shrunk = drawCells(ctx, { ...block, wordAt, rankAt: (at) => map[at], smallest: Infinity });
    ctx.strokeStyle = this.look.border;
    ctx.lineWidth = 1;
    ctx.strokeRect(xs[0] - 0.5, ys[0] - 0.5, w * n + 1, h * ys.length + 1);
    return shrunk;
  },

  /** A position cannot attend to later ones: there is no weight, not a weight of 0. */
  exists(kind, t, column) {
    return kind === "cross" || this.message.header.keySpans[column][0] <= t;
  },

  drawRowLabels(ctx, { T, left, top, cell, rowLabels, rowsFit }, ink) {
    const { rows, query_title: title } = this.message.header;
    ctx.font = this.labelFont();
    ctx.fillStyle = ink;
    ctx.textBaseline = "middle";
    ctx.textAlign = "right";
    const step = rowsFit ? 1 : every(T, cell.h * T);
    for (let t = 0; t < T; t += step) {
      ctx.globalAlpha = t === this.step || !rowsFit ? 1 : 0.72;
      const y = top + (t + 0.5) * cell.h;
      if (rowsFit) drawRow(ctx, rows[t], rowLabels, left - 6, y);
      else ctx.fillText(String(t + 1), left - 6, y);
    }
    ctx.globalAlpha = 0.72;
    ctx.textAlign = "left";
    ctx.save();
    ctx.translate(0.64 * this.labelSize(), top + cell.h * T);
    ctx.rotate(-Math.PI / 2);
    ctx.fillText(fitted(ctx, `← query: ${title}`, cell.h * T + top - 16), 0, 0);
    ctx.restore();
    ctx.globalAlpha = 1;
  },

  drawColumnLabels(ctx, { top, cell, columnsFit, width, blocks }, { labels, left, title }, ink) {
    const n = labels.length;
    const next = blocks.map((each) => each.left - 8).filter((x) => x > left);
    const room = Math.min(this.whole.clientWidth || width, ...next);
    ctx.fillStyle = ink;
    ctx.textAlign = "left";
    ctx.globalAlpha = columnsFit ? 0.72 : 1;
    const step = columnsFit ? 1 : every(n, cell.w * n);
    for (let c = 0; c < n; c += step) {
      const text = columnsFit
        ? fitted(ctx, plain(labels[c]), (top - 1.64 * this.labelSize()) / 0.72)
        : String(c + 1);
      const [angle, align] = columnsFit ? [Math.PI / 4, "left"] : [0, "center"];
      drawSlanted(ctx, text, left + (c + 0.5) * cell.w, top - 6, angle, align);
    }
    ctx.globalAlpha = 0.72;
    ctx.fillText(fitted(ctx, `${title} (keys) →`, Math.max(60, room - left)), left, 0.64 * this.labelSize());
    ctx.globalAlpha = 1;
  },

  cellAt(event) {
    if (!this.frame) return null; // nothing was drawn yet
    if (event.clientX - this.matrix.getBoundingClientRect().left < this.frame.left) return null;
    for (const block of this.frame.blocks) {
      const cell = cellUnder(event, { canvas: this.matrix, cells: block });
      if (cell && this.exists(block.kind, ...cell)) return { t: cell[0], kind: block.kind, column: cell[1] };
    }
    return null;
  },

  overMatrix(event) {
    const cell = this.cellAt(event);
    this.matrix.style.cursor = cell ? "pointer" : "default";
    this.setHover(cell && { ...cell, onMatrix: true, x: event.clientX, y: event.clientY });
  },

  /** Show the exact weight of one cell beside the pointer. */
  setHover(hover) {
    const redraw = this.hover?.onMatrix || hover?.onMatrix;
    this.hover = hover;
    this.tip.classList.toggle("shown", Boolean(hover));
    if (hover) {
      const { rows, bits } = this.message.header;
      const labels = this.columns(hover.kind);
      const weight = this.shown()[hover.kind][hover.t * labels.length + hover.column];
      const what = hover.kind === "cross" ? "cross-attention" : "self-attention";
      const line = (...parts) =>
        make("div", "", parts.map(([kind, text]) => make("span", kind, plain(text))));
      this.tip.replaceChildren(
        line(["strong", weight.toFixed(bits === 16 ? 4 : 2)], ["faint", ` ${what}`]),
        line(["faint", "query "], ["", `${hover.t + 1} ${rows[hover.t]}`]),
        line(["faint", "key "], ["", `${hover.column + 1} ${labels[hover.column]}`]),
      );
      const box = this.root.getBoundingClientRect();
      const at = hover.chip ? hover.chip.getBoundingClientRect() : null;
      const x = (at ? at.left : hover.x + 14) - box.left;
      const y = (at ? at.bottom + 4 : hover.y + 14) - box.top;
      const { offsetWidth: w, offsetHeight: h } = this.tip;
      setBox(this.tip, Math.min(x, box.width - w - 4), y + h > box.height && !at ? y - h - 24 : y);
    }
    if (redraw) this.drawMatrix();
  },
};

/** The step between numbered rows or columns, for `n` of them within `size` pixels. */
function every(n, size) {
  return Math.max(1, Math.ceil(n / Math.max(1, Math.floor(size / 32))));
}
