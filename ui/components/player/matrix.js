// Both maps as one matrix: rows are decoder positions (queries), columns are keys, the source tokens
// and, after a gap, the prefix.
import { buildMatrix, cellCursor, cellLevel, cellName, drawCells, drawColumnNames, drawRowNames, enlarged, fitted, hatch, make, onPhone,
  pageTop, percent, rowColumns, setBox, sharp, startsOf, tallness, widestRow, widthsIn, windowHeight } from
  "../shared/index.js";

const LABEL = 12; // px at scale 1
const MOST_CELL = 26; // px in a window of 720 px
const MOST_SCROLLED = 128; // rows that a phone draws at that size
const FINGER = 18; // px, of a cell on a phone, where the maps scroll below their labels
const BLOCK_GAP = 16; // px, between the two maps
const LEAN = Math.PI / 3; // of the column labels: steep, so that neighbours do not touch

export const matrixPart = {
  buildMatrix() {
    const matrix = (this.matrix = buildMatrix("matrix"));
    const { under } = matrix;
    matrix.under = (event) => (event.offsetX < this.labelled ? null : under(event)); // cells scroll below labels
    // On a phone the maps are wider than the screen: the scroller moves what the canvas shows.
    this.whole = make("div", "whole");
    this.scroller = make("div", "scroller scrolls", this.whole, matrix.canvas);
    this.scroller.onscroll = () => this.drawMatrix();
    // The stop for Tab does not hold the canvas: a click leaves the arrow keys to the steps.
    this.plot = make("div", "plot", { tabindex: 0, role: "group" }, matrix.cursor);
    this.tip = make("p", "tip", { role: "status" });
    this.point = cellCursor(this.plot, [matrix], {
      readout: this.tip,
      describe: (at) => (at ? this.weightAt(...at) : ""),
      show: (at) => this.placeTip(at),
      choose: ([t]) => this.go(t),
      start: () => [this.step, 0],
    });
    return make("div", "maps", this.scroller, this.plot);
  },

  matrixFrame() {
    const { rows, source, keys } = this.message.header;
    const [T, columns] = [rows.length, source.length + keys.length];
    const [width, label] = [this.scroller.clientWidth, this.labelSize()];
    const wide = widthsIn(`${label}px ${this.look.font}`);
    const named = rowColumns(rows, wide, Math.max(7.6 * label, 0.26 * width), enlarged(this.root) > 1 && width < 700);
    const left = 2.4 * label + named.width;
    const top = Math.min(8 * label, 1.8 * label + widestRow([...source, ...keys], wide) * Math.sin(LEAN));
    const right = Math.min(44, top * 0.5); // slanted labels of the last columns lean out
    const scrolls = onPhone() && T <= MOST_SCROLLED;
    const free = (width - left - right - BLOCK_GAP) / columns;
    const most = enlarged(this.root) > 1
      ? Math.max(MOST_CELL, 3 * free)
      : Math.min(MOST_CELL * tallness(), Math.max(MOST_CELL, 2 * free)); // no stripes
    const tall = (cell) => top + 6 + T * cell;
    const height = scrolls ? tall(FINGER) : this.matrixHeight(tall(label), tall(most));
    const fits = Math.min(2 * most, free);
    const w = scrolls ? Math.max(FINGER, fits) : fits;
    const whole = left + columns * w + BLOCK_GAP + right;
    this.whole.style.width = scrolls && whole > width ? `${whole}px` : "0";
    const from = left - this.scroller.scrollLeft;
    const cells = { w, h: Math.min(most, (height - top - 6) / T), ys: [] };
    cells.ys = startsOf(T, cells.h, top);
    const block = (kind, labels, start, title) =>
      ({ ...cells, kind, labels, title, xs: startsOf(labels.length, w, start) });
    const blocks = [
      block("cross", source, from, `source: ${this.partOf("cross")}`),
      block("own", keys, from + source.length * w + BLOCK_GAP, `prefix: ${this.partOf("decoder_self")}`),
    ];
    return { blocks, left, top, named, width, height, label };
  },

  /** The remaining height of the window, to avoid scrolling; a little more if rows would lose their
   * labels, never more than `enough`. */
  matrixHeight(needed, enough) {
    const room = Math.min(enough, this.matrixRoom());
    return Math.min(enough, needed > room && needed <= 560 * tallness() ? needed : room);
  },

  matrixRoom() {
    return Math.max(240, windowHeight() - pageTop(this.scroller) - 14);
  },

  /** Size of labels in px; larger while presenting, and in a tall window, as far as rows and columns have theirs. */
  labelSize() {
    const { rows, source, keys } = this.message.header;
    const most = LABEL * enlarged(this.root) * Math.min(1.25, tallness());
    const beside = (0.66 * this.scroller.clientWidth) / (source.length + keys.length);
    return Math.max(LABEL, Math.min(most, beside, this.matrixRoom() / (rows.length + 8))); // 8: above the rows
  },

  drawMatrix() {
    if (this.scroller.clientWidth < 160) return; // not laid out yet, or hidden
    const { blocks, left, top, named, width, height, label } = this.matrixFrame();
    const { rows, query_title: title } = this.message.header;
    const { canvas } = this.matrix;
    const { ys, w, h } = blocks[0];
    const pen = sharp(canvas, width, height);
    this.labelled = left;
    this.matrix.cells = { ys, xs: blocks.flatMap(({ xs }) => xs), w, h };
    canvas.dataset.frame = JSON.stringify({ left, top, w, h });
    const [font, fillStyle] = [`${label}px ${this.look.font}`, this.look.ink];
    Object.assign(pen, { font, fillStyle, textBaseline: "middle", textRendering: "geometricPrecision" }); // no gaps
    drawRowNames(pen, { ys, xs: [left], h }, rows, { named, size: label, strong: this.step });
    this.writeQuery(pen, title, top, h * rows.length);
    pen.save();
    if (this.scroller.scrollLeft) pen.rect(left - 2, 0, width, height), pen.clip(); // row labels stay
    let shrunk = false;
    blocks.forEach((block, at) => {
      shrunk = this.drawBlock(pen, block) || shrunk;
      const end = blocks[at + 1]?.xs[0] - 8 || this.whole.clientWidth || width;
      this.writeKeys(pen, block, label, end);
    });
    pen.restore();
    this.matrixNote.textContent = shrunk
      ? "More cells than pixels: each pixel shows the strongest weight it covers."
      : "";
    this.point();
  },

  /** One map, with the current row outlined. Returns: true if it has more cells than pixels. */
  drawBlock(pen, block) {
    const { kind, xs, ys, w, h } = block;
    const n = xs.length;
    const map = this.shown()[kind];
    const { limit } = this.message.header;
    const wordAt = (at) => (this.exists(kind, Math.floor(at / n), at % n) ? this.words[cellLevel(map[at], limit)] : 0);
    const shrunk = drawCells(pen, { ...block, wordAt, rankAt: (at) => Math.abs(map[at]), smallest: Infinity });
    if (this.isOut(kind === "own" ? "decoder_self" : kind)) {
      hatch(pen, [[xs[0], ys[0], w * n, h * ys.length]], 9, { strokeStyle: this.look.border, lineWidth: 2 });
    }
    const frame = (y, height, colour, line) => {
      Object.assign(pen, { strokeStyle: colour, lineWidth: line });
      pen.strokeRect(xs[0] - line / 2, y - line / 2, w * n + line, height + line);
    };
    frame(ys[0], h * ys.length, this.look.border, 1);
    frame(ys[this.step], Math.max(1, h), this.look.accent, 2);
    return shrunk;
  },

  /** A position cannot attend to later ones: there is no weight, not a weight of 0. */
  exists(kind, t, column) {
    return kind === "cross" || this.message.header.keySpans[column][0] <= t;
  },

  writeQuery(pen, title, top, height) {
    pen.save();
    pen.fillStyle = this.look.q;
    pen.textAlign = "left";
    pen.translate(0.64 * this.labelSize(), top + height);
    pen.rotate(-Math.PI / 2);
    pen.fillText(fitted(pen, `← query: ${title}`, height + top - 16), 0, 0);
    pen.restore();
  },

  writeKeys(pen, { xs, ys, w, labels, title }, size, end) {
    const longest = (ys[0] - 1.64 * size) / Math.sin(LEAN);
    pen.save();
    pen.globalAlpha = 0.72;
    drawColumnNames(pen, { xs, ys, w }, labels, { longest, size, angle: LEAN });
    Object.assign(pen, { textAlign: "left", globalAlpha: 1, fillStyle: this.look.k });
    const room = Math.max(60, end - xs[0]);
    const names = [`${title} (keys) →`, title, title.replace(/ \S+-attention/, "")];
    pen.fillText(fitted(pen, names.find((name) => fitted(pen, name, room) === name) ?? names[2], room), xs[0], 0.64 * size);
    pen.restore();
  },

  /** A sentence about a cell, columns counted over both maps. */
  weightAt(t, column) {
    const { rows, source, bits, noun } = this.message.header;
    const [kind, key] = column < source.length ? ["cross", column] : ["own", column - source.length];
    const labels = this.columns(kind);
    const name = cellName(rows, labels, [t, key], this.exists(kind, t, key));
    const weight = this.shown()[kind][t * labels.length + key];
    if (!this.exists(kind, t, key)) return name;
    const of = kind === "cross" ? "cross-attention" : "self-attention";
    const digits = bits === 16 ? 2 : 0;
    return `${name}${noun ? weight.toFixed(digits + 2) : percent(weight, digits)} ${of}${noun ? `, ${noun}` : ""}`;
  },

  /** Read the current row's weight in a column while the pointer is on a chip of a lane. */
  pointFrom(chip, column) {
    this.chip = chip;
    this.point(chip && [this.step, column]);
  },

  /** Put the tip below the chip or cell that it describes, or above a cell at the bottom. */
  placeTip(at) {
    this.tip.hidden = !at;
    if (!at) return;
    const [outer, box] = [this.root, this.chip ?? this.matrix.cursor].map((element) => element.getBoundingClientRect());
    const { offsetWidth: w, offsetHeight: h } = this.tip;
    const x = (this.chip ? box.left : box.right + 4) - outer.left;
    const above = !this.chip && box.bottom + 4 + h > Math.min(outer.bottom, windowHeight());
    const y = (above ? box.top - h - 4 : box.bottom + 4) - outer.top;
    setBox(this.tip, Math.min(x, outer.width - w - 4), y);
  },
};
