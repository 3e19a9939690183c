// Maps as coloured cells, counted row by row. Colours are pixel values (colours.js), 0 for none.

// The cell that each of h x w pixels shows: of those it covers, the one that ranks highest, so that a
// single bright cell never disappears. `rankAt(cell, column)` is below 0 for cells never shown; a
// pixel without any other is -1.
function pooled(rows, columns, h, w, rankAt) {
  const shown = new Int32Array(h * w);
  const [down, across] = [blocks(rows, h), blocks(columns, w)];
  for (let y = 0; y < h; y++) {
    const [top, bottom] = down[y];
    if (y && top === down[y - 1][0] && bottom === down[y - 1][1]) {
      shown.copyWithin(y * w, (y - 1) * w, y * w);
      continue;
    }
    for (let x = 0; x < w; x++) {
      const [left, right] = across[x];
      let [best, most] = [-1, -1];
      for (let i = top; i < bottom; i++) {
        for (let j = left; j < right; j++) {
          const rank = rankAt(i * columns + j, j);
          if (rank > most) [best, most] = [i * columns + j, rank];
        }
      }
      shown[y * w + x] = best;
    }
  }
  return shown;
}

// The cells of each pixel along one axis: [its first, the one after its last].
function blocks(cells, pixels) {
  return Array.from({ length: pixels }, (_, at) => {
    const first = Math.floor((at * cells) / pixels);
    return [first, Math.max(first + 1, Math.floor(((at + 1) * cells) / pixels))];
  });
}

// Draws a map as one image in a box [left, top, width, height], in CSS pixels. `wordAt(cell)` is a
// colour. Returns: true if it has more cells than device pixels.
function drawMap(pen, rows, columns, box, wordAt, rankAt = () => 0) {
  const ratio = window.devicePixelRatio || 1;
  const fitting = (cells, side) => Math.min(cells, Math.max(1, Math.floor(side * ratio)));
  const [w, h] = [fitting(columns, box[2]), fitting(rows, box[3])];
  const cells = pooled(rows, columns, h, w, rankAt);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(setPixels(make("canvas"), h, w, (at) => wordAt(cells[at])), ...box);
  return h < rows || w < columns;
}

// Draws square cells of `side` px that begin at `ys` and `xs`: with a gap between them, or as one
// image if they are smaller than `smallest` px. A cell without a colour is masked: it gets a dot,
// since it is not a weight of 0 that the model chose. `finish(cell, x, y, colour)` adds to a cell.
function drawCells(pen, { ys, xs, side, wordAt, ink, finish, smallest = 12 }) {
  const columns = xs.length;
  const apart = side >= smallest;
  if (!apart) {
    drawMap(pen, ys.length, columns, [xs[0], ys[0], side * columns, side * ys.length], wordAt);
  }
  const every = Math.max(1, Math.ceil(6 / side)); // of the dots
  for (let i = 0; i < ys.length; i++) {
    for (let j = 0; j < columns; j++) {
      const word = wordAt(i * columns + j);
      if (!word && !(i % every) && !(j % every)) dot(pen, xs[j], ys[i], side, ink);
      if (!word || !apart) continue;
      const colour = (pen.fillStyle = cssOf(word));
      pen.fillRect(xs[j], ys[i], side - (side > 5), side - (side > 5));
      finish?.(i * columns + j, xs[j], ys[i], colour);
    }
  }
}

function dot(pen, x, y, side, ink) {
  pen.globalAlpha = 0.25;
  pen.fillStyle = ink;
  pen.beginPath();
  pen.arc(x + side / 2, y + side / 2, Math.min(1.4, Math.max(0.5, side / 8)), 0, 2 * Math.PI);
  pen.fill();
  pen.globalAlpha = 1;
}

// The starts of cells of `side` px, with a gap of `gap` px after every `group` of them.
function startsOf(count, side, from = 0, group = count, gap = 0) {
  return Array.from({ length: count }, (_, at) => from + at * side + Math.floor(at / group) * gap);
}
