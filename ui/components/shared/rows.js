// Labels of decoder rows, `reads → predicts` (figures/labels.py), by one rule in all views: both tokens in
// two columns, the first one muted, or, if space is short, `→ predicts`, since the row above predicts the
// token that is read. Titles and descriptions have the full label.
import { drawSlanted, fitted } from "./canvas.js";
import { extend, make, plain } from "./view.js";

// Splits a label into [reads, predicts]; `predicts` is "" if the label is a single token.
function rowSides(label) {
  const [reads, ...predicts] = plain(label).split(" → ");
  return [reads, predicts.join(" → ")];
}

// Writes a label into an element; `fitRows` lays out its columns.
export function writeRow(element, label) {
  const [reads, predicts] = rowSides(label);
  if (!predicts) {
    element.textContent = reads;
    return;
  }
  element.classList.add("both-sides");
  const sides = [make("span", "reads", reads), make("span", "to", "\u2192"), make("span", "predicts", predicts)];
  extend(element, { title: plain(label) }, sides);
}

export function widestRow(labels, widthOf) {
  return Math.max(...labels.map((label) => widthOf(plain(label))));
}

// Lays out label columns within `limit` px: {reads, predicts, width, tight}, widths in px.
export function rowColumns(labels, widthOf, limit, short = false) {
  const sides = labels.map(rowSides);
  const widest = (side) => Math.max(...sides.map((label) => widthOf(label[side])));
  const [reads, predicts, arrow] = [widest(0), widest(1), widthOf(" \u2192   ")];
  if (!sides.some(([, to]) => to)) return { reads, predicts: 0, width: Math.min(reads, limit), tight: false };
  const tight = short || reads + arrow + predicts > limit;
  return { reads, predicts, tight, width: Math.min(limit, (tight ? 0 : reads) + arrow + predicts) };
}

// Lays out the columns of all labels inside `root`, `short` with predictions alone. Returns their total width in px.
export function fitRows(root, labels, widthOf, limit, short) {
  const { predicts, tight, width } = rowColumns(labels, widthOf, limit, short);
  root.classList.toggle("tight-rows", tight);
  root.style.setProperty("--predicts", `${Math.ceil(predicts)}px`);
  return width;
}

// Writes row labels to the left of a matrix, laid out by `rowColumns` as `named`; thins them out if rows are
// lower than `size` px. Only row `strong`, if any, has full contrast.
export function drawRowNames(pen, { ys, xs, h }, rows, { named, size, strong = null }) {
  pen.save();
  rows.forEach((label, i) => {
    if (i % Math.ceil(size / h - 0.01)) return;
    pen.globalAlpha = strong === null || i === strong ? 1 : 0.72;
    drawRow(pen, label, named, xs[0] - 6, ys[i] + h / 2);
  });
  pen.restore();
}

// Writes slanted column labels above a matrix, at most `longest` px long; thins them out as well.
export function drawColumnNames(pen, { ys, xs, w }, columns, { longest, size, angle }) {
  columns.forEach((token, j) => {
    if (j % Math.ceil(size / w - 0.15)) return; // slanted, they may be a little closer
    drawSlanted(pen, fitted(pen, plain(token), longest), xs[j] + w / 2, ys[0] - 5, angle);
  });
}

function drawRow(pen, label, { predicts: column, width, tight }, x, y) {
  const [reads, predicts] = rowSides(label);
  const [alpha, gap] = [pen.globalAlpha, pen.measureText("  ").width];
  pen.textAlign = "right";
  pen.fillText(fitted(pen, predicts || reads, width), x, y);
  if (!predicts) return;
  pen.globalAlpha = 0.66 * alpha;
  const end = tight ? Math.min(pen.measureText(predicts).width, width) : column;
  pen.fillText(tight ? "\u2192" : `${reads} \u2192`, x - end - gap, y);
  pen.globalAlpha = alpha;
}
