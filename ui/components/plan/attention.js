// Attention unfolded: its heads as small maps with a switch each, and one query through a head.
import { colourOf, drawMap, extend, hatch, largest, make, norm, plain, press, range, rove, sharp, signed, touching, weightLevel, wordsOf } from "../shared/index.js";
import { barOf, inText, seenBy, shortener, tokenOf, tokenText } from "./marks.js";
import { cellsOf, listOf, wordsIn } from "./unfold.js";

export function drawAttention(view, body, width) {
  const { focus, header: { stacks } } = view;
  const kind = view.kinds[`${stacks[focus.s].name}.${focus.block}`];
  const at = { view, kind, layer: focus.layer, query: tokenOf(view, focus.s), keys: stacks[kind === "cross" ? 0 : focus.s].tokens };
  body.append(headRow(at, width));
  if (focus.head === null) body.append(headTable(view));
  else body.append(stages(at, focus.head, width));
}

// The heads' maps: a click opens a head, the switch below removes it.
function headRow({ view, kind, layer, query }, width) {
  const { data, header, look, focus } = view;
  const count = data.heads(kind);
  const [, , rows, columns] = data.arrays.get(`w.${kind}`).shape;
  const least = Math.max(58, 3.4 * look.size); // a name and a switch
  const across = Math.ceil(count / Math.ceil((count * least) / width)); // in rows of equal length
  const side = Math.max(46, Math.min((view.large ? 68 : 58) * view.plan.unit, width / across - 10));
  const high = (view.large ? 0.4 : 0.56) * side;
  const words = wordsOf(header.colours[look.theme]);
  const place = view.data.row(kind === "encoder_self" ? 0 : 1, query);
  // A film has no later queries: its maps grow with the text, from four rows.
  const written = view.none ? 0 : view.film && kind !== "encoder_self" ? place + 1 : rows;
  const [down, over] = [rows, kind === "decoder_self" ? columns : 0].map((n) => (written < rows ? Math.min(n, Math.max(4, place + 1)) : n) || columns);
  const causal = kind === "decoder_self" && !header.unmasked[layer];
  const items = Array.from({ length: count }, (_, h) => {
    const canvas = make("canvas", "", { "aria-hidden": "true", "data-keys": 0.5, "data-query": (place + 0.5) / down });
    const map = data.at(`w.${kind}`, layer, h);
    const pen = sharp(canvas, side, high);
    const weightAt = (cell) => map[Math.floor(cell / over) * columns + (cell % over)];
    drawMap(pen, down, over, [0, 0, side, high], (cell) => words[weightLevel(weightAt(cell))], weightAt);
    pen.clearRect(0, (written / down) * high, side, high);
    const hidden = range(down).map((i) => [i >= written ? 0 : causal ? ((i + 1) / over) * side : side, (i / down) * high, side, high / down]);
    hatch(pen, hidden, 4, { strokeStyle: look.ink, globalAlpha: 0.15, lineWidth: 1 });
    pen.strokeStyle = look.q;
    if (written) pen.strokeRect(0.5, (place / down) * high + 0.5, side - 1, Math.max(1, high / down - 1));
    const out = data.marked("out", kind, layer, h);
    const name = `head ${layer + 1}.${h + 1}`;
    const button = make("button", "map", ...(focus.head === null ? [canvas] : []), make("span", "", `${layer + 1}.${h + 1}`), {
      "aria-label": `Follow the token through ${name}`, "data-id": `head.${h}`,
      onclick: () => view.unfold({ ...focus, head: focus.head === h ? null : h }),
      onpointerenter: () => view.glance(h), onpointerleave: () => view.glance(null),
    });
    const flip = make("button", "switch", out ? "off" : "on", {
      role: "switch", "data-id": `switch.${h}`, "aria-checked": !out, "aria-label": name, title: touching() ? "" : out ? "Bring it back" : "Translate without it",
      onclick: () => view.touch({ what: "switch", kind, layer, head: h, query: 0, key: 0 }),
    });
    return make("div", `head${out ? " out" : ""}`, button, ...(header.possible ? [flip] : []));
  });
  const buttons = items.map((item) => item.firstChild);
  press(buttons, (h) => h === focus.head);
  rove(buttons)(focus.head ?? 0);
  const row = make("div", "heads", { role: "group", "aria-label": "Heads" }, items);
  row.style.gridTemplateColumns = `repeat(${across}, max-content)`;
  return row;
}

// For every head: the key with the largest weight, what it adds, and the words that it promotes.
function headTable(view) {
  const { focus, data, header: { stacks } } = view;
  const ofLayer = (layer) => range(data.heads(view.kinds[`${stacks[focus.s].name}.${focus.block}`])).map((h) => seenBy(view, { ...focus, layer }, h));
  const heads = ofLayer(focus.layer);
  const most = largest(range(stacks[focus.s].depth).flatMap(ofLayer).map(({ length }) => length)) || 1; // a switch seldom changes it
  const worded = heads.some(({ words }) => words.length);
  const rows = heads.map(({ out, key, weight, length, words }, h) => {
    const bar = barOf("bar", { width: `${(48 * length) / most}px`, background: "var(--residual)" });
    const cells = out ? [make("td", "quiet", "off: adds nothing", { colspan: worded ? 3 : 2 })] : [
      make("td", "", key, " ", make("b", "", weight.toFixed(2))),
      make("td", "", bar, length.toFixed(2), { "data-part": "adds" }),
      ...(worded ? [wordsIn(words.slice(0, 3))] : []),
    ];
    const name = make("th", "", `${focus.layer + 1}.${h + 1}`, { scope: "row" });
    return make("tr", "follow", { onclick: () => view.unfold({ ...focus, head: h }) }, name, cells);
  });
  return listOf(["head", `${tokenText(view, focus.s)} looks most at`, "adds length", ...(worded ? ["promotes"] : [])], rows);
}

// One query in a head, stage by stage: a column for each key.
function stages(at, head, width) {
  const { view, kind, layer, query, keys } = at;
  const { data, header, look } = view;
  const { q, dots, scaled, masked, weights, output } = data.head(kind, layer, head, query);
  const { unit } = view.plan;
  const label = 76 * unit;
  const room = width - label - 12;
  const em = Math.max(12, 11.2 * unit);
  const written = view.film && kind === "decoder_self" ? query + 1 : keys.length; // a film has no later keys
  const columns = Math.min(keys.length, Math.floor(room / 2.17 / em)); // with room for a number
  const later = masked?.indexOf(true) ?? -1; // one key that the mask hides stays in sight
  const seen = strongest(weights.map((weight, j) => (j === later ? 2 : weight)).slice(0, written), columns);
  const m = seen.length;
  const column = room / columns;
  const blank = () => (m < columns ? make("td", "", { colspan: columns - m, style: `width: ${(columns - m) * column}px` }) : []);
  const digits = column < 2.62 * em ? 1 : 2;
  const cut = (j) => data.marked("cuts", kind, layer, head, query, j);
  const short = shortener(view);
  const names = seen.map((j, n) => {
    const key = keys[j];
    const button = make("button", "", make("bdi", "", short(plain(key), 4.2 * em)), {
      title: plain(key), "data-id": `key.${j}`, "aria-pressed": view.key === j, onclick: () => {
        view.key = view.key === j ? null : j;
        view.draw();
      },
    });
    return make("th", `key${cut(j) ? " cut" : ""}${j === (seen[n - 1] ?? -1) + 1 ? "" : " gap"}`, button, { scope: "col" });
  });
  const row = (name, part, cells, rest = blank()) => make("tr", part, { "data-part": part },
    make("th", `label ${part}`, name, { scope: "row" }), cells, rest);
  const number = (value, j, bar = []) =>
    make("td", masked?.[j] ? "masked" : "", bar, value, { title: `${plain(keys[j])}: ${value}` });
  // A bar above a number: up from the line of zero, or down.
  const tower = (values, j, colour = "var(--quiet)") => {
    const [low, high] = [Math.min(0, ...values), Math.max(0, ...values)];
    const share = (value) => `${(100 * value) / (high - low || 1)}%`;
    return barOf("tower", { "--zero": share(high), "--top": share(high - Math.max(0, values[j])), "--high": share(Math.abs(values[j])), "--tint": colour });
  };
  const wide = (name, part, element) => row(name, part, make("td", "wide", element, { colspan: columns }), []);
  const weighted = seen.map((j) => number(weights[j].toFixed(weights[j] < 0.0995 ? digits + 1 : 2), j,
    tower(weights, j, colourOf(header.colours[look.theme], weightLevel(Math.max(0.1, weights[j]))))));
  const [asked, lines] = [[], []];
  const { out, key, weight, length, words } = seenBy(view, view.focus, head);
  const token = tokenText(view, view.focus.s);
  if (q) {
    const vector = (values, part, gloss, most) => make("div", "vector",
      cellsOf(view, values, 1, values.length, Math.min(room * 0.36, 5 * values.length), 10, part, most), make("span", "quiet", gloss));
    const matrix = (name, from) => {
      const rows = from.at(`${name}.${kind}`, layer, head);
      const d = from.arrays.get(`${name}.${kind}`).shape.at(-1);
      const cells = Float32Array.from({ length: d * m }, (_, cell) => rows[seen[cell % m] * d + Math.floor(cell / m)]);
      return extend(cellsOf(view, cells, d, m, column * m, view.large ? 9 * unit : 17, name, largest(rows)), { "data-keys": 0.5 });
    };
    asked.push(wide("q  query", "q", extend(vector(q, "q", `what ${token} looks for`), { "data-query": 0.5, "data-part": "q" })));
    lines.push(
      wide("K  keys", "k", matrix("k", data)),
      row("q · k", "scores", seen.map((j) => number(signed(dots[j], digits - 1), j, tower(dots, j)))),
      row(`÷ √${q.length}${data.at(`r.${kind}`, layer) ? " + b" : ""}`, "scale", seen.map((j) => number(signed(scaled[j], digits), j))),
    );
    if (seen.some((j) => masked[j])) lines.push(row("mask", "mask", seen.map((j) => number(masked[j] ? "−∞" : "0", j))));
    lines.push(row("softmax", "weights", weighted));
    const sum = output ? vector(output, "v", out ? "all 0" : `what ${token} takes in`, largest(data.at(`v.${kind}`, layer, head)))
      : "an edit fixes this head at its mean";
    const kept = out ? view.before(view.focus.s) : data;
    lines.push(wide("V  values", "v", kept ? matrix("v", kept) : "all 0: the edit takes them out"), wide("Σ a v", "v", sum));
  } else lines.push(row("weight", "weights", weighted));
  lines.push(wide(out ? "off" : "× Wᴼ adds", "adds", out ? make("div", "words", "Replaced by 0: adds nothing.") : addsOf(at, output, length, words)));
  const table = make("table", "stages", make("caption", "unseen", "One query in a head, by key"),
    make("thead", "", asked, make("tr", "", make("td", "quiet", m < written ? `the ${m} largest\nof ${written} keys` : "", { title: "The keys with the largest weights" }), names, blank())), make("tbody", "", lines));
  table.style.setProperty("--column", `${column}px`);
  table.style.setProperty("--label", `${label}px`);
  const result = view.held ? [] : out ? ["is off: it adds nothing"] : [`${token} reads ${key}`, `(${weight.toFixed(2)})`, ...words.slice(0, 1).map(([word]) => `· promotes ${plain(word)}`)];
  view.panel.querySelector("h3").replaceWith(make("h3", "", [`Head ${layer + 1}.${head + 1}`, ...result].map((text) => make("span", "", text))), ...cutting(at, head, cut));
  return make("div", "through", table);
}

// At most `count` keys, those with the largest weights, in their order.
function strongest(weights, count) {
  const all = [...weights].map((_, j) => j);
  return all.sort((a, b) => weights[b] - weights[a]).slice(0, count).sort((a, b) => a - b);
}

// What the output matrix makes of a head's sum of values: lengths before and after it, and the words that it promotes.
function addsOf({ view }, output, length, words) {
  const size = view.data.arrays.get("o.decoder").shape.at(-1);
  const before = output ? `${output.length} → ${size} numbers, length ${norm(output).toFixed(2)} → ` : "length ";
  return make("div", "words", make("span", "", before, make("b", "", length.toFixed(2))), words.map(([word, logit], n) =>
    make("span", "", n ? "" : "promotes ", make("b", "", plain(word)), ` ${signed(logit)}`)));
}

// The chosen key's edge, which can be cut.
function cutting({ view, kind, layer, query, keys }, head, cut) {
  const { key } = view;
  if (!view.header.possible || !(key in keys)) return [];
  const [text, reader] = [inText(keys[key]), kind === "encoder_self" ? tokenText(view, 0) : inText(view.header.predicted[query])]; // as edits name them
  return [make("button", "tool", cut(key) ? `Show ${text} to ${reader} again` : `Hide ${text} from ${reader}`, {
    onclick: () => view.touch({ what: "cut", kind, layer, head, query, key }),
  })];
}

