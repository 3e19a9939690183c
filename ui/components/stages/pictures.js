// The picture of every stage, drawn with the primitives of drawing.js.
import { fourDigits, largest, make, norm, outlineCell, plain, rowOf, touching } from "../shared/index.js";
import { divisorName, spreadOf, weighed } from "./divisor.js";
import { addArea, canvasOf, columnsOf, keyBars, labelHeight, labels, paintCells, put, range, shade, short, strip } from "./drawing.js";

// Draws one stage; sets `row.areas`, the hit areas, and `row.describe`, their descriptions.
export function drawStage(row) {
  const { view, canvas } = row;
  row.areas = [];
  pens[row.stage](row, {
    ...view,
    own: view.divisor === view.header.root,
    width: row.picture.clientWidth,
    left: 4.6 * view.look.size,
    right: 4.4 * view.look.size,
    count: view.header.keys.length,
  });
  canvas.setAttribute("aria-label", plain(row.describe(null)));
  note(row);
}

// Describes and outlines what is under the pointer.
export function note(row) {
  const at = row.view.pointed?.stage === row.stage ? row.view.pointed : null;
  const area = at && row.areas.find(({ name }) => name === at.area);
  row.readout.textContent = plain(row.describe(area ? at : null));
  outlineCell(row.cursor, { canvas: row.canvas, cells: area?.cells }, area && [at.line, at.column]);
}

const pens = {
  project(row, at) {
    const { header, numbers } = at;
    const [model, , k, v] = header.sizes;
    const line = 1.5 * at.look.size;
    const pen = canvasOf(row, at, 7.6 * line + 4);
    const xKey = rowOf(numbers.xKeys, at.key, model);
    const vectors = {
      "x query": ["x", header.query, numbers.xQuery],
      q: ["q", header.query, numbers.q],
      "x key": ["x", header.keys[at.key], xKey],
      k: ["k", header.keys[at.key], rowOf(numbers.keys, at.key, k)],
      v: ["v", header.keys[at.key], rowOf(numbers.values, at.key, v)],
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
    row.describe = (hit) => {
      if (!hit) return `Blue is negative, orange positive. ${touching() ? "Tap" : "Point at"} a cell to read its number.`;
      const [label, token, values] = vectors[hit.area];
      return `${label} of ${token}, dimension ${hit.column + 1}: ${fourDigits(values[hit.column])}`;
    };
  },

  compare(row, at) {
    const { numbers, header } = at;
    const k = header.sizes[2];
    const [q, key] = [numbers.q, rowOf(numbers.keys, at.key, k)];
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
    shade(pen, [at.left, zero - 0.5, w, 1], at.look.ink, 0.5);
    put(pen, at, "q × k", at.left - 8, zero, { align: "right" });
    put(pen, at, short(most), at.left - 8, top + 5, { align: "right" });
    put(pen, at, short(-most), at.left - 8, top + h - 5, { align: "right" });
    put(pen, at, "sum", at.left + w + 8, zero - at.look.size * 0.7);
    put(pen, at, short(numbers.dots[at.key]), at.left + w + 8, zero + at.look.size * 0.6, { weight: 600 });
    addArea(row, "products", [at.left, top, w, h], 1, k);
    row.describe = (hit) => {
      const c = hit?.column;
      if (hit) return `dimension ${c + 1}: ${fourDigits(q[c])} × ${fourDigits(key[c])} = ${fourDigits(products[c])}`;
      const up = products.reduce((sum, value) => sum + Math.max(0, value), 0);
      return `${header.query} · ${header.keys[at.key]}: positive products ${fourDigits(up)}, negative ` +
        `${fourDigits(numbers.dots[at.key] - up)}, together ${fourDigits(numbers.dots[at.key])}`;
    };
  },

  dots(row, at) {
    const { numbers, header } = at;
    keyBars(row, at, { series: [{ values: numbers.dots, colour: signedBar(at) }], ...range(numbers.dots) });
    row.describe = (hit) => {
      const j = hit ? hit.column : at.key;
      return `key ${j + 1} ${header.keys[j]}: q · k = ${fourDigits(numbers.dots[j])}`;
    };
  },

  divide(row, at) {
    const { numbers, header } = at;
    const used = at.used.logits;
    const ghost = { values: numbers.dots, ghost: true };
    keyBars(row, at, {
      series: [...(at.divisor === 1 ? [] : [ghost]), { values: used, colour: signedBar(at) }],
      ...range([...numbers.dots, ...used]),
    });
    facts(row.picture.querySelector(".facts"), at);
    row.describe = (hit) => {
      const j = hit ? hit.column : at.key;
      const start = `key ${j + 1} ${header.keys[j]}: ${fourDigits(numbers.dots[j])}`;
      const far = header.relative ? ` + ${fourDigits(header.relative[j])} for its distance` : "";
      return at.divisor === 1
        ? `${start}, not divided${far && `${far} = ${fourDigits(used[j])}`}`
        : `${start} / ${divisorName(at)}${far} = ${fourDigits(used[j])}`;
    };
  },

  mask(row, at) {
    const { header } = at;
    const used = at.used.logits;
    keyBars(row, at, {
      series: [{ values: used, colour: signedBar(at) }], ...range(used), masked: true, height: 84,
    });
    row.describe = (hit) => {
      const j = hit ? hit.column : at.key;
      const becomes = header.mask[j] ? `stays ${fourDigits(used[j])}` : "comes later, so −∞";
      return `key ${j + 1} ${header.keys[j]}: ${becomes}`;
    };
  },

  softmax(row, at) {
    const { numbers, header } = at;
    const quiet = () => `color-mix(in srgb, ${at.look.ink} 38%, ${at.look.paper})`;
    const strong = () => at.look.accent;
    const used = { values: at.used.weights, colour: strong };
    const series = at.own ? [used] : [{ values: numbers.weights, colour: quiet }, used];
    keyBars(row, at, { series, low: 0, high: 1, ticks: [0, 0.5, 1] });
    row.describe = (hit) => {
      const j = hit ? hit.column : at.key;
      const start = `key ${j + 1} ${header.keys[j]}: weight ${fourDigits(at.used.weights[j])}`;
      return at.own ? start : `${start}; divided by √dₖ ${fourDigits(numbers.weights[j])}`;
    };
  },

  values(row, at) {
    const { numbers, header } = at;
    const v = header.sizes[3];
    const { weights, output } = at.used;
    const h = Math.max(90, Math.min(170, 4 * v));
    const pen = canvasOf(row, at, 8 + h + labelHeight(at));
    const { column, w } = columnsOf(at);
    const weighted = new Float32Array(v * at.count); // [v, keys]: columns stay the keys'
    for (let j = 0; j < at.count; j++) {
      for (let c = 0; c < v; c++) weighted[c * at.count + j] = weights[j] * numbers.values[j * v + c];
    }
    const limit = Math.max(largest(weighted), largest(output));
    paintCells(pen, at, weighted, v, at.count, at.left, 8, w, h, limit);
    Object.assign(pen, { strokeStyle: at.look.accent, lineWidth: 1.5 });
    pen.strokeRect(at.left + at.key * column, 8, column, h);
    put(pen, at, "a × v", at.left - 8, 8 + h / 2, { align: "right" });
    put(pen, at, "=", at.left + w + 12, 8 + h / 2);
    const x = at.left + w + 28;
    const wide = Math.min(20, at.width - x - 16);
    paintCells(pen, at, output, v, 1, x, 8, wide, h, limit);
    put(pen, at, "z", x + wide / 2, 8 + h + at.look.size * 0.7, { align: "center", weight: 600 });
    labels(pen, at, 8 + h);
    addArea(row, "weighted", [at.left, 8, w, h], v, at.count, true);
    addArea(row, "output", [x, 8, wide, h], v, 1);
    row.describe = (hit) => {
      if (hit?.area === "output") return `z, dimension ${hit.line + 1}: ${fourDigits(output[hit.line])}`;
      const j = hit ? hit.column : at.key;
      const start = `key ${j + 1} ${header.keys[j]}: weight ${fourDigits(weights[j])}`;
      if (!hit) return `${start}. Scale ±${short(limit)}`;
      const value = numbers.values[j * v + hit.line];
      return `${start} × ${fourDigits(value)} (dimension ${hit.line + 1}) = ${fourDigits(weights[j] * value)}`;
    };
  },

  output(row, at) {
    const { numbers, header } = at;
    const line = 1.6 * at.look.size;
    const pen = canvasOf(row, at, 3 * line + 6);
    const { output, contribution: mine } = at.used;
    const limit = Math.max(largest(mine), largest(numbers.together));
    const h = line - 5;
    strip(row, pen, at, { name: "z", label: "z", values: output, y: 2, h });
    strip(row, pen, at, { name: "mine", label: "this head", values: mine, y: 2 + line, h, limit });
    strip(row, pen, at, {
      name: "all", label: "all heads", values: numbers.together, y: 2 + 2 * line, h, limit,
    });
    const shown = { z: output, mine, all: numbers.together };
    row.describe = (hit) => {
      if (hit) return `dimension ${hit.column + 1}: ${fourDigits(shown[hit.area][hit.column])}`;
      const gate = header.gate === 1 ? "" : ` (gate ${fourDigits(header.gate)})`;
      const undivided = at.own ? "" : " All heads: as the model has it, divided by √dₖ.";
      return `Length of this head's contribution${gate} ${fourDigits(norm(mine))}, of all heads together ` +
        `${fourDigits(norm(numbers.together))}.${undivided}`;
    };
  },
};

// How sharp the softmax is now, and beside it as the model has it, or without the division.
function facts(table, at) {
  const names = [["entropy", "entropy", " bit"], ["largest", "largest weight", ""],
                 ["slope", "slope, Σ a(1 − a)", ""]];
  const line = (cells, tag) =>
    make("tr", "", cells.map(([text, used]) => make(text ? tag : "td", used ? "used" : "", text)));
  const now = spreadOf(at.used.weights);
  const other = spreadOf(at.own ? weighed(at, 1).weights : at.numbers.weights);
  table.replaceChildren(
    line([["", false], [`divided by ${divisorName(at)}`, true],
          [at.own ? "not divided" : `divided by √${at.header.sizes[2]}`, false]], "th"),
    ...names.map(([key, name, unit]) => line(
      [[name, false], [fourDigits(now[key]) + unit, true], [fourDigits(other[key]) + unit, false]],
      "td",
    )),
  );
}

function signedBar(at) {
  return (value) => (value < 0 ? at.look.negative : at.look.positive);
}
