// The maps of a grid: from bytes to numbers, and from numbers to pixels.
//
// Each map is drawn at device pixels: larger ones shrink by taking the largest weight of every
// block, so that a single bright cell never disappears; smaller ones grow without blur.

// The maps [row][column][query][key]: single heads travel as they are; the last column and row as
// the difference to what the single ones combine to.
function unfold(header, body) {
  const { queries, keys, row_names: rows, column_names: columns } = header;
  const [size, layers, heads] = [queries * keys, rows.length - 1, columns.length - 1];
  const maps = new Uint8Array(rows.length * columns.length * size);
  const mapAt = (row, column) => maps.subarray((row * columns.length + column) * size).subarray(0, size);
  const byLayer = Array.from({ length: layers }, () => new Uint32Array(size));
  const byHead = Array.from({ length: heads }, () => new Uint32Array(size));
  const all = new Uint32Array(size);
  const max = header.how === "max";
  const join = (sums, one) => {
    if (max) for (let i = 0; i < size; i++) sums[i] = Math.max(sums[i], one[i]);
    else for (let i = 0; i < size; i++) sums[i] += one[i];
  };
  let from = 0;
  const next = () => body.subarray(from, (from += size));
  for (let layer = 0; layer < layers; layer++) {
    for (let head = 0; head < heads; head++) {
      const map = next();
      mapAt(layer, head).set(map);
      join(byLayer[layer], map);
      join(byHead[head], map);
    }
    join(all, byLayer[layer]);
  }
  const finish = (target, sums, count) => {
    const differs = next();
    const n = max ? 1 : count;
    for (let i = 0; i < size; i++) {
      target[i] = differs[i] + Math.floor((2 * sums[i] + n) / (2 * n));
    }
  };
  byLayer.forEach((sums, layer) => finish(mapAt(layer, heads), sums, heads));
  finish(mapAt(layers, heads), all, layers * heads);
  byHead.forEach((sums, head) => finish(mapAt(layers, head), sums, layers));
  return maps;
}

// Draws every cell of a pane, unless it shows these very pixels already.
function drawAll(root, pane) {
  const { sheet, cells, table } = pane;
  const width = cells[0][0].button.clientWidth;
  if (!width || !root.querySelector(".probe")) return; // hidden, or not watched yet
  const ratio = window.devicePixelRatio || 1;
  const theme = themeOf(root);
  const drawn = `${width} ${ratio} ${theme}`;
  if (pane.drawn === drawn) return;
  pane.drawn = drawn;
  const { queries, keys } = sheet;
  // Rows stay rows: a map is as tall as its queries, within limits that keep it readable.
  const height = Math.round(width * Math.min(1.25, Math.max(0.45, queries / keys)));
  table.style.setProperty("--map-height", `${height}px`);
  table.classList.toggle("narrow", width < 48);
  const words = wordsOf(sheet.colours[theme]);
  const [cover] = wordsOf(sheet.cover[theme]);
  const w = Math.min(keys, Math.max(1, Math.round(width * ratio)));
  const h = Math.min(queries, Math.max(1, Math.round(height * ratio)));
  const image = new ImageData(w, h);
  const pixels = new Uint32Array(image.data.buffer);
  const size = queries * keys;
  const middle = sheet.limit ? 128 : 0; // the byte of no weight, or of no difference
  const rank = Uint8Array.from({ length: 256 }, (_, value) => Math.abs(value - middle));
  cells.forEach((line, row) =>
    line.forEach(({ canvas }, column) => {
      const at = (row * line.length + column) * size;
      shrink(sheet.maps.subarray(at, at + size), sheet, w, h, rank, words, cover, pixels);
      canvas.width = w;
      canvas.height = h;
      canvas.getContext("2d").putImageData(image, 0, 0);
    }),
  );
  drawScale(pane.scale, words);
}

// Writes h x w pixels, each the colour of the byte in its block that ranks highest: the largest
// weight, or the largest difference of either sign. Covered columns go last.
function shrink(map, { queries, keys, dimmed }, w, h, rank, words, cover, pixels) {
  const covered = new Uint8Array(keys);
  for (const column of dimmed) covered[column] = 1;
  for (let y = 0; y < h; y++) {
    const top = Math.floor((y * queries) / h);
    const bottom = Math.floor(((y + 1) * queries) / h);
    for (let x = 0; x < w; x++) {
      const left = Math.floor((x * keys) / w);
      const right = Math.floor(((x + 1) * keys) / w);
      let best = -1;
      for (let i = top; i < bottom; i++) {
        for (let j = left; j < right; j++) {
          const value = map[i * keys + j];
          if (!covered[j] && (best < 0 || rank[value] > rank[best])) best = value;
        }
      }
      pixels[y * w + x] = best < 0 ? cover : words[best];
    }
  }
}
