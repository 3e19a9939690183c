// The picture of every stage. Vectors are strips of cells on the diverging scale; whatever has one
// number for each key is drawn over the same columns, so that a key stays in its place.

const LONGEST_LABEL = 92; // px
const WIDEST_COLUMN = 44; // px

// Draws one stage; sets `row.areas`, what a pointer can hit, and `row.tell`, what is said there.
function drawStage(row) {
  const { view, canvas } = row;
  row.areas = [];
  const pen = pens[row.stage](row, {
    ...view,
    way: view.scaling ? "scaled" : "unscaled",
    width: row.picture.clientWidth,
    left: 4.6 * view.look.size,
    right: 4.4 * view.look.size,
    count: view.header.keys.length,
  });
  canvas.setAttribute("aria-label", plain(row.tell(null)));
  note(row);
  return pen;
}

// What is under the pointer, in words, with an outline around it.
function note(row) {
  const at = row.view.pointed?.stage === row.stage ? row.view.pointed : null;
  const area = at && row.areas.find((each) => each.name === at.area);
  row.readout.textContent = plain(row.tell(area ? at : null));
  row.cursor.hidden = !area;
  if (!area) return;
  const [w, h] = [area.w / area.columns, area.h / area.rows];
  Object.assign(row.cursor.style, {
    left: `${area.x + at.column * w}px`, top: `${area.y + at.line * h}px`,
    width: `${w}px`, height: `${h}px`,
  });
}

// A canvas as wide as the picture. Returns: its context, in CSS pixels.
function canvasOf(row, at, height) {
  const ratio = window.devicePixelRatio || 1;
  row.canvas.width = Math.round(at.width * ratio);
  row.canvas.height = Math.round(height * ratio);
  row.canvas.style.width = `${at.width}px`;
  row.canvas.style.height = `${height}px`;
  const pen = row.canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.font = fontOf(at);
  pen.textBaseline = "middle";
  return pen;
}

function fontOf(at, weight = 400, scale = 0.93) {
  return `${weight} ${at.look.size * scale}px ${at.look.font}`;
}

function put(pen, at, text, x, y, { align = "left", colour = at.look.ink, weight = 400 } = {}) {
  pen.font = fontOf(at, weight);
  pen.textAlign = align;
  pen.fillStyle = colour;
  pen.fillText(plain(text), x, y);
}

// A vector as a line of cells, its name on the left and the ends of its scale on the right.
function strip(row, pen, at, { name, label, values, y, h, limit }) {
  const w = at.width - at.left - at.right;
  const most = limit ?? largest(values);
  paintCells(pen, at, values, 1, values.length, at.left, y, w, h, most);
  put(pen, at, label, at.left - 8, y + h / 2, { align: "right" });
  put(pen, at, `±${short(most)}`, at.left + w + 8, y + h / 2);
  row.areas.push({ name, x: at.left, y, w, h, columns: values.length, rows: 1 });
}

// A matrix of cells; cells narrower than a pixel share it with their neighbours.
function paintCells(pen, at, values, rows, columns, x, y, w, h, limit) {
  const image = document.createElement("canvas");
  [image.width, image.height] = [columns, rows];
  const inner = image.getContext("2d");
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) {
      inner.fillStyle = at.look.signed(values[i * columns + j], limit);
      inner.fillRect(j, i, 1, 1);
    }
  }
  pen.imageSmoothingEnabled = false;
  pen.drawImage(image, x, y, w, h);
  pen.strokeStyle = at.look.ink;
  pen.globalAlpha = 0.16;
  pen.lineWidth = 1;
  pen.strokeRect(x - 0.5, y - 0.5, w + 1, h + 1);
  pen.globalAlpha = 1;
}

// Where the columns of the keys stand: the same in every stage.
function columnsOf(at) {
  const column = Math.min(WIDEST_COLUMN, (at.width - at.left - at.right) / at.count);
  return { column, w: column * at.count };
}

// A band behind the chosen key.
function band(pen, at, y, h) {
  const { column } = columnsOf(at);
  pen.globalAlpha = 0.16;
  pen.fillStyle = at.look.accent;
  pen.fillRect(at.left + at.key * column, y, column, h);
  pen.globalAlpha = 1;
}

// The keys' tokens below their columns. Returns: the height they take.
function labels(pen, at, y) {
  const { column } = columnsOf(at);
  const every = Math.max(1, Math.ceil((at.look.size * 0.95) / column));
  at.header.keys.forEach((token, j) => {
    const chosen = j === at.key;
    if (!chosen && (j % every !== 0 || Math.abs(j - at.key) < every)) return;
    pen.save();
    pen.translate(at.left + (j + 0.5) * column + 3, y + 6);
    pen.rotate(-Math.PI / 3);
    put(pen, at, clipped(pen, at, token), 0, 0, {
      align: "right", weight: chosen ? 600 : 400, colour: chosen ? at.look.accent : at.look.ink,
    });
    pen.restore();
  });
}

function labelHeight(at) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = fontOf(at, 600);
  const widths = at.header.keys.map((token) => pen.measureText(clipped(pen, at, token)).width);
  return Math.max(...widths) * Math.sin(Math.PI / 3) + at.look.size;
}

function clipped(pen, at, token) {
  let text = plain(token);
  pen.font = fontOf(at, 600);
  while (text.length > 2 && pen.measureText(text).width > LONGEST_LABEL) {
    text = `${text.slice(0, -2)}…`;
  }
  return text;
}

// One bar for each key in each series, over a common axis from low to high.
function keyBars(row, at, { series, low, high, ticks, masked, height = 104 }) {
  const h = (height * at.look.size) / 14;
  const top = 8;
  const pen = canvasOf(row, at, top + h + labelHeight(at));
  const { column, w } = columnsOf(at);
  const place = (value) => top + h - ((value - low) / (high - low || 1)) * h;
  band(pen, at, top, h);
  for (const tick of ticks) {
    put(pen, at, short(tick), at.left - 8, place(tick), { align: "right" });
    pen.globalAlpha = tick === 0 ? 0.5 : 0.14;
    pen.fillStyle = at.look.ink;
    pen.fillRect(at.left, place(tick) - 0.5, w, 1);
    pen.globalAlpha = 1;
  }
  const bar = (column * 0.74) / series.filter((each) => !each.ghost).length;
  let solid = 0;
  for (const { values, colour, ghost } of series) {
    const start = column * 0.13 + (ghost ? 0 : bar * solid++);
    const wide = ghost ? column * 0.74 : bar;
    for (let j = 0; j < at.count; j++) {
      if (masked && !at.header.mask[j]) continue;
      const [from, to] = [place(0), place(values[j])];
      const x = at.left + j * column + start;
      if (ghost) {
        pen.globalAlpha = 0.45;
        pen.strokeStyle = at.look.ink;
        pen.setLineDash([2, 2]);
        pen.strokeRect(x + 0.5, Math.min(from, to), Math.max(1, wide - 1), Math.abs(to - from));
        pen.setLineDash([]);
        pen.globalAlpha = 1;
      } else {
        pen.fillStyle = colour(values[j]);
        pen.fillRect(x, Math.min(from, to), Math.max(1, wide), Math.max(1, Math.abs(to - from)));
      }
    }
  }
  if (masked) hatch(pen, at, top, h);
  labels(pen, at, top + h);
  row.areas.push({ name: "keys", x: at.left, y: top, w, h, columns: at.count, rows: 1, isKey: true });
  return pen;
}

// Keys that the mask takes away.
function hatch(pen, at, top, h) {
  const { column } = columnsOf(at);
  pen.save();
  pen.beginPath();
  at.header.mask.forEach((seen, j) => {
    if (!seen) pen.rect(at.left + j * column, top, column, h);
  });
  pen.clip();
  pen.strokeStyle = at.look.ink;
  pen.globalAlpha = 0.3;
  pen.beginPath();
  for (let x = at.left - h; x < at.left + at.count * column; x += 7) {
    pen.moveTo(x, top + h);
    pen.lineTo(x + h, top);
  }
  pen.stroke();
  pen.restore();
}

const pens = {
  project(row, at) {
    const { header, numbers } = at;
    const [model, , k, v] = header.sizes;
    const line = 1.5 * at.look.size;
    const pen = canvasOf(row, at, 7.6 * line + 4);
    const xKey = slice(numbers.xKeys, at.key, model);
    const vectors = {
      "x query": ["x", header.query, numbers.xQuery],
      q: ["q", header.query, numbers.q],
      "x key": ["x", header.keys[at.key], xKey],
      k: ["k", header.keys[at.key], slice(numbers.keys, at.key, k)],
      v: ["v", header.keys[at.key], slice(numbers.values, at.key, v)],
    };
    let y = 2;
    for (const [name, [label, token, values]] of Object.entries(vectors)) {
      if (label === "x") {
        const isQuery = name === "x query";
        put(pen, at, `${isQuery ? "query" : "key"}  ${token}`, at.left, y + line * 0.45, {
          weight: 600, colour: isQuery ? at.look.ink : at.look.accent,
        });
        y += line;
      }
      strip(row, pen, at, { name, label, values, y, h: line - 5 });
      y += line + (name === "q" ? 0.6 * line : 0);
    }
    row.tell = (hit) => {
      if (!hit) return "Blue is negative, orange positive. Point at a cell to read its number.";
      const [label, token, values] = vectors[hit.area];
      return `${label} of ${token}, dimension ${hit.column + 1}: ${exact(values[hit.column])}`;
    };
  },

  compare(row, at) {
    const { numbers, header } = at;
    const k = header.sizes[2];
    const [q, key] = [numbers.q, slice(numbers.keys, at.key, k)];
    const products = q.map((value, c) => value * key[c]);
    const line = 1.5 * at.look.size;
    const h = 100;
    const pen = canvasOf(row, at, 2 * line + h + 16);
    const limit = Math.max(largest(q), largest(key));
    strip(row, pen, at, { name: "q", label: "q", values: q, y: 2, h: line - 5, limit });
    strip(row, pen, at, { name: "k", label: "k", values: key, y: 2 + line, h: line - 5, limit });
    const [top, w, most] = [2 * line + 8, at.width - at.left - at.right, largest(products) || 1];
    const zero = top + h / 2;
    const wide = w / k;
    products.forEach((value, c) => {
      pen.fillStyle = value < 0 ? at.look.negative : at.look.positive;
      const height = (Math.abs(value) / most) * (h / 2);
      pen.fillRect(at.left + c * wide + wide * 0.1, value < 0 ? zero : zero - height,
                   Math.max(1, wide * 0.8), Math.max(0.5, height));
    });
    pen.globalAlpha = 0.5;
    pen.fillStyle = at.look.ink;
    pen.fillRect(at.left, zero - 0.5, w, 1);
    pen.globalAlpha = 1;
    put(pen, at, "q × k", at.left - 8, zero, { align: "right" });
    put(pen, at, short(most), at.left - 8, top + 5, { align: "right" });
    put(pen, at, short(-most), at.left - 8, top + h - 5, { align: "right" });
    put(pen, at, "sum", at.left + w + 8, zero - at.look.size * 0.7);
    put(pen, at, short(numbers.dots[at.key]), at.left + w + 8, zero + at.look.size * 0.6, { weight: 600 });
    row.areas.push({ name: "products", x: at.left, y: top, w, h, columns: k, rows: 1 });
    row.tell = (hit) => {
      const c = hit?.column;
      if (hit) return `dimension ${c + 1}: ${exact(q[c])} × ${exact(key[c])} = ${exact(products[c])}`;
      const up = products.reduce((sum, value) => sum + Math.max(0, value), 0);
      return `${header.query} · ${header.keys[at.key]}: positive products ${exact(up)}, negative ` +
        `${exact(numbers.dots[at.key] - up)}, together ${exact(numbers.dots[at.key])}`;
    };
  },

  dots(row, at) {
    const { numbers, header } = at;
    keyBars(row, at, { series: [{ values: numbers.dots, colour: signedBar(at) }], ...range(numbers.dots) });
    row.tell = (hit) => {
      const j = hit ? hit.column : at.key;
      return `key ${j + 1} ${header.keys[j]}: q · k = ${exact(numbers.dots[j])}`;
    };
  },

  divide(row, at) {
    const { numbers, header } = at;
    const k = header.sizes[2];
    const used = logits(at);
    const ghost = { values: numbers.dots, ghost: true };
    keyBars(row, at, {
      series: [...(at.scaling ? [ghost] : []), { values: used, colour: signedBar(at) }],
      ...range(numbers.dots),
    });
    row.tell = (hit) => {
      const j = hit ? hit.column : at.key;
      const start = `key ${j + 1} ${header.keys[j]}: ${exact(numbers.dots[j])}`;
      return at.scaling ? `${start} / √${k} = ${exact(used[j])}` : `${start}, not divided`;
    };
  },

  mask(row, at) {
    const { header } = at;
    const used = logits(at);
    keyBars(row, at, {
      series: [{ values: used, colour: signedBar(at) }], ...range(used), masked: true, height: 84,
    });
    row.tell = (hit) => {
      const j = hit ? hit.column : at.key;
      const becomes = header.mask[j] ? `stays ${exact(used[j])}` : "comes later, so −∞";
      return `key ${j + 1} ${header.keys[j]}: ${becomes}`;
    };
  },

  softmax(row, at) {
    const { numbers, header } = at;
    const { scaled, unscaled } = numbers.weights;
    const quiet = () => `color-mix(in srgb, ${at.look.ink} 38%, ${at.look.paper})`;
    const strong = () => at.look.accent;
    const series = at.scaling
      ? [{ values: scaled, colour: strong }]
      : [{ values: scaled, colour: quiet }, { values: unscaled, colour: strong }];
    keyBars(row, at, { series, low: 0, high: 1, ticks: [0, 0.5, 1] });
    facts(row.picture.querySelector(".facts"), at);
    row.tell = (hit) => {
      const j = hit ? hit.column : at.key;
      const start = `key ${j + 1} ${header.keys[j]}: weight ${exact(numbers.weights[at.way][j])}`;
      return at.scaling ? start : `${start}; with the division ${exact(scaled[j])}`;
    };
  },

  values(row, at) {
    const { numbers, header } = at;
    const v = header.sizes[3];
    const weights = numbers.weights[at.way];
    const h = Math.max(90, Math.min(170, 4 * v));
    const pen = canvasOf(row, at, 8 + h + labelHeight(at));
    const { column, w } = columnsOf(at);
    const weighted = new Float32Array(v * at.count); // [v, keys]: columns stay the keys'
    for (let j = 0; j < at.count; j++) {
      for (let c = 0; c < v; c++) weighted[c * at.count + j] = weights[j] * numbers.values[j * v + c];
    }
    const output = numbers.output[at.way];
    const limit = Math.max(largest(weighted), largest(output));
    paintCells(pen, at, weighted, v, at.count, at.left, 8, w, h, limit);
    pen.strokeStyle = at.look.accent;
    pen.lineWidth = 1.5;
    pen.strokeRect(at.left + at.key * column, 8, column, h);
    put(pen, at, "a × v", at.left - 8, 8 + h / 2, { align: "right" });
    put(pen, at, "=", at.left + w + 12, 8 + h / 2);
    const x = at.left + w + 28;
    const wide = Math.min(20, at.width - x - 16);
    paintCells(pen, at, output, v, 1, x, 8, wide, h, limit);
    put(pen, at, "z", x + wide / 2, 8 + h + at.look.size * 0.7, { align: "center", weight: 600 });
    labels(pen, at, 8 + h);
    row.areas.push(
      { name: "weighted", x: at.left, y: 8, w, h, columns: at.count, rows: v, isKey: true },
      { name: "output", x, y: 8, w: wide, h, columns: 1, rows: v },
    );
    row.tell = (hit) => {
      if (hit?.area === "output") return `z, dimension ${hit.line + 1}: ${exact(output[hit.line])}`;
      const j = hit ? hit.column : at.key;
      const start = `key ${j + 1} ${header.keys[j]}: weight ${exact(weights[j])}`;
      if (!hit) return `${start}. Scale ±${short(limit)}`;
      const value = numbers.values[j * v + hit.line];
      return `${start} × ${exact(value)} (dimension ${hit.line + 1}) = ${exact(weights[j] * value)}`;
    };
  },

  output(row, at) {
    const { numbers, header } = at;
    const line = 1.6 * at.look.size;
    const pen = canvasOf(row, at, 3 * line + 6);
    const mine = numbers.contribution[at.way];
    const limit = Math.max(largest(mine), largest(numbers.together));
    const h = line - 5;
    strip(row, pen, at, { name: "z", label: "z", values: numbers.output[at.way], y: 2, h });
    strip(row, pen, at, { name: "mine", label: "this head", values: mine, y: 2 + line, h, limit });
    strip(row, pen, at, {
      name: "all", label: "all heads", values: numbers.together, y: 2 + 2 * line, h, limit,
    });
    const shown = { z: numbers.output[at.way], mine, all: numbers.together };
    row.tell = (hit) => {
      if (hit) return `dimension ${hit.column + 1}: ${exact(shown[hit.area][hit.column])}`;
      const gate = header.gate === 1 ? "" : ` (gate ${exact(header.gate)})`;
      const undivided = at.scaling ? "" : " All heads: as the model has it, with the division.";
      return `Length of this head's contribution${gate} ${exact(norm(mine))}, of all heads together ` +
        `${exact(norm(numbers.together))}.${undivided}`;
    };
  },
};

// How sharp the softmax is, with and without the division; what is in use stands out.
function facts(table, at) {
  const names = [["entropy", "entropy", " bit"], ["largest", "largest weight", ""],
                 ["slope", "slope Σ ∂a/∂e", ""]];
  const line = (cells, tag) => {
    const row = make("tr", "");
    row.append(...cells.map(([text, used]) => make(tag, used ? "used" : "", text)));
    return row;
  };
  const { scaled, unscaled } = at.header.facts;
  table.replaceChildren(
    line([["", false], ["divided by √dₖ", at.scaling], ["not divided", !at.scaling]], "th"),
    ...names.map(([key, name, unit]) => line(
      [[name, false], [exact(scaled[key]) + unit, at.scaling], [exact(unscaled[key]) + unit, !at.scaling]],
      "td",
    )),
  );
}

// The logits in use.
function logits(at) {
  const by = at.scaling ? Math.sqrt(at.header.sizes[2]) : 1;
  return at.numbers.dots.map((value) => value / by);
}

function signedBar(at) {
  return (value) => (value < 0 ? at.look.negative : at.look.positive);
}

// An axis that holds all of some values and 0.
function range(values) {
  const low = Math.min(0, ...values);
  const high = Math.max(0, ...values);
  const room = high - low || 1;
  const far = (value) => Math.abs(value) > 0.15 * room;
  return { low, high, ticks: [0, ...[low, high].filter(far)] };
}

function slice(matrix, row, columns) {
  return matrix.subarray(row * columns, (row + 1) * columns);
}

function largest(values) {
  let most = 0;
  for (const value of values) most = Math.max(most, Math.abs(value));
  return most;
}

function norm(values) {
  return Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
}

function minus(text) {
  return text.replaceAll("-", "−");
}

// A number for an axis.
function short(value) {
  const size = Math.abs(value);
  if (value === 0) return "0";
  return minus(value.toFixed(size >= 100 ? 0 : size >= 9.95 ? 1 : 2)).replace(/(\.\d)0$/, "$1");
}

// A number for reading: four digits, tiny ones as powers of ten.
function exact(value) {
  const size = Math.abs(value);
  if (size !== 0 && size < 0.0005) return minus(value.toExponential(1));
  return minus(value.toFixed(size >= 100 ? 1 : size >= 10 ? 2 : 3));
}
