// Messages of a page's views for a trace of `record.js`, by the layout of packing.py.
//
// What does not depend on the sentence (texts, colours, sizes) comes from the header of the view that
// Python wrote; each function replaces the rest. `LOOK` is `attention_look()`.

const NAMED = { "\n": "↵", "\r": "␍", "\t": "⇥", "\u00a0": "⍽" };
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/u;
const RIGHT_TO_LEFT = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;
const TITLES = {
  encoder_self: ["Encoder self-attention", "Encoder", "source", "source"],
  decoder_self: ["Decoder self-attention", "Decoder", "reads → predicts", "translation"],
  cross: ["Cross-attention", "Cross", "reads → predicts", "source"],
};

// `show_token` in figures/labels.py.
function showToken(token, limit = 24) {
  return token.split(" → ").map((part) => {
    let shown = [...part].map(visible).join("") || "∅";
    if (!shown.trim()) shown = "␣".repeat(shown.length);
    const all = [...shown], head = Math.floor(limit / 2);
    if (all.length > limit) shown = [...all.slice(0, head), "…", ...all.slice(all.length - limit + 1 + head)].join("");
    return RIGHT_TO_LEFT.test(shown) ? `\u2068${shown}\u2069` : shown;
  }).join(" → ");
}

function visible(character) {
  const code = character.codePointAt(0);
  if (NAMED[character]) return NAMED[character];
  if (code < 32) return String.fromCharCode(0x2400 + code);
  const hidden = HIDDEN.test(character) && character !== "\u200d";
  return hidden ? `[U+${code.toString(16).toUpperCase().padStart(4, "0")}]` : character;
}

const labels = (tokens, limit) => tokens.map((token) => showToken(token, limit));
const plainToken = (token) => showToken(token, 18).replaceAll("\u2581", "_");
const rounded = (value, digits) => Number(value.toFixed(digits));
const queriesOf = (trace, kind) => (kind === "encoder_self" ? trace.src_tokens
  : trace.tgt_tokens.map((token, t) => `${token} → ${trace.predicted_tokens[t]}`));
const keysOf = (trace, kind) => (kind === "decoder_self" ? trace.tgt_tokens : trace.src_tokens);

// `probability` in figures/labels.py.
function probability(logProb) {
  const p = Math.exp(logProb);
  return p < 0.001 ? "<0.1%" : `${(100 * p).toFixed(p >= 0.0995 ? 0 : 1)}%`;
}

function pack(header, ...arrays) {
  const text = new TextEncoder().encode(JSON.stringify(header)), length = Math.ceil(text.length / 4) * 4;
  const parts = arrays.map((array) => new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
  const message = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 4 + length)).fill(32);
  new DataView(message.buffer).setUint32(0, length, true);
  message.set(text, 4);
  parts.reduce((at, part) => (message.set(part, at), at + part.length), 4 + length);
  return message;
}

// Deflated without compression: blocks of at most 65,535 bytes.
function stored(bytes) {
  const most = 65535, whole = new Uint8Array(bytes.length + 5 * Math.ceil(bytes.length / most));
  for (let from = 0, to = 0; from < bytes.length; from += most, to += most + 5) {
    const part = bytes.subarray(from, from + most), n = part.length;
    whole.set([Number(from + n >= bytes.length), n & 255, n >> 8, ~n & 255, (~n >> 8) & 255], to);
    whole.set(part, to + 5);
  }
  return whole;
}

// One head's map, or the mean over those that null leaves open: [n, m].
function combined({ shape: [L, H, n, m], data }, layer, head) {
  const size = n * m, sum = new Float64Array(size);
  const layers = layer === null ? [...Array(L).keys()] : [layer];
  const heads = head === null ? [...Array(H).keys()] : [head];
  for (const l of layers) {
    for (const h of heads) for (let i = 0; i < size; i += 1) sum[i] += data[(l * H + h) * size + i];
  }
  return Float32Array.from(sum, (value) => value / (layers.length * heads.length));
}

// Rows of a map [n, m]: its largest weight, and the keys that a row spreads over on average.
function noted(map, n, m) {
  let most = 0, spread = 0;
  map.forEach((weight, at) => { if (weight > map[most]) most = at; });
  for (let row = 0; row < n; row += 1) {
    let bits = 0;
    for (let j = row * m; j < (row + 1) * m; j += 1) if (map[j] > 0) bits -= map[j] * Math.log2(map[j]);
    spread += 2 ** Math.max(bits, 0) / n;
  }
  return { query: Math.floor(most / m), key: most % m, weight: map[most], spread };
}

function cellName(layer, head) {
  if (layer === null && head === null) return "Mean over all layers and heads";
  if (layer === null) return `Head ${head + 1}, mean over layers`;
  return `Layer ${layer + 1}, ${head === null ? "mean over heads" : `head ${head + 1}`}`;
}

function player(header, trace) {
  const { shape, data } = trace.maps.cross, T = shape[2], own = trace.maps.decoder_self.data;
  const weights = new Uint16Array(data.length + (shape[0] * shape[1] * T * (T + 1)) / 2);
  const byte = (value) => Math.round(Math.min(Math.max(value, 0), 1) * 65535);
  data.forEach((value, at) => { weights[at] = byte(value); });
  let to = data.length;
  own.forEach((value, at) => { if (at % T <= Math.floor(at / T) % T) weights[to++] = byte(value); });
  const spans = (count) => Array.from({ length: count }, (_, at) => [at, at + 1]);
  let total = 0;
  return pack({
    ...header, shape, bits: 16, input: labels(trace.tgt_tokens), rows: labels(queriesOf(trace, "cross")),
    predicted: labels(trace.predicted_tokens), ids: trace.predicted_ids, ended: trace.complete,
    out: trace.off, origin: "Translated in this browser", gap: null, top: alternatives(trace, 8, 24),
    drawn: null, forced: false, nForced: 0, penalties: trace.penalties,
    chosen: trace.predicted_ids.map((id, t) => ({
      rank: trace.top_ids[t].slice(0, 8).indexOf(id), probability: rounded(Math.exp(trace.log_probs[t]), 6),
    })),
    entropy: trace.entropy.map((nats) => rounded(nats / Math.LN2, 4)),
    running: trace.log_probs.map((value) => rounded((total += value), 4)),
    source: labels(trace.src_tokens), keys: labels(trace.tgt_tokens), units: "tokens",
    sourceSpans: spans(shape[3]), keySpans: spans(T), laneSpans: spans(T + 1),
    unknown: trace.src_unknown, special: trace.src_special,
  }, weights);
}

function alternatives(trace, count, limit) {
  return trace.top_ids.map((ids, t) => ids.slice(0, count).map((id, at) => [
    showToken(trace.top_tokens[t][at], limit), rounded(Math.exp(trace.top_log_probs[t][at]), 6), id, false]));
}

function grid(header, trace) {
  const sheets = header.kinds.map(([kind]) => stored(sheetOf(trace, kind)));
  return pack({
    ...header, kinds: header.kinds.map(([...kind], at) => [...kind.slice(0, 3), sheets[at].length]),
    off: Object.fromEntries(header.kinds.map(([kind]) =>
      [kind, trace.off.filter(([of]) => of === kind).map(([, ...head]) => head)])),
  }, ...sheets);
}

// `grid_sheet`.
function sheetOf(trace, kind) {
  const map = trace.maps[kind], [L, H, n, m] = map.shape;
  const rows = [...Array(L).keys(), null], columns = [...Array(H).keys(), null];
  const wide = rows.map((layer) => columns.map((head) => combined(map, layer, head)));
  const body = wide.flat().map((one) => Uint8Array.from(one, (value) => Math.round(value * 255)));
  return pack({
    label: `${TITLES[kind][0]}, all layers and heads`, ...LOOK,
    notes: wide.map((band) => band.map((one) => {
      const { query, key, weight, spread } = noted(one, n, m);
      return [query, key, rounded(weight, 2), rounded(spread, 1), 0];
    })),
    row_names: rows.map((layer) => (layer === null ? "Mean" : `Layer ${layer + 1}`)),
    column_names: columns.map((head) => (head === null ? "Mean" : `Head ${head + 1}`)),
    names: rows.map((layer) => columns.map((head) => cellName(layer, head))),
    query_tokens: labels(queriesOf(trace, kind)), key_tokens: labels(keysOf(trace, kind)),
    queries: n, keys: m, dimmed: [],
  }, ...body);
}

// `reads` in figures/labels.py.
function reads(query, key) {
  const [reader, predicted] = plainToken(query).split(" → ");
  return `“${reader}” reads “${plainToken(key)}”${predicted ? ` to predict “${predicted}”` : ""}`;
}

// A map under the lens, as the grid reports it.
function lens(header, trace, { layer, head, kind }) {
  const map = combined(trace.maps[kind], layer, head), [, , n, m] = trace.maps[kind].shape;
  const { query, key, weight, spread } = noted(map, n, m), [, , queries, keys] = TITLES[kind];
  const [rows, columns] = [queriesOf(trace, kind), keysOf(trace, kind)];
  return pack({
    ...header, label: `${cellName(layer, head)}: ${n} queries by ${m} keys; most of all, `
      + `${reads(rows[query], columns[key])}, ${(100 * weight).toFixed(0)}%; rows spread over ${spread.toFixed(1)} keys on average. `
      + "Arrow keys read the values.",
    query_tokens: labels(rows, 18), key_tokens: labels(columns, 18), query_title: `query: ${queries}`,
    key_title: `key: ${keys}`, causal: kind === "decoder_self", dimmed: [],
  }, map);
}

// `kept_lines` of the drawn heads of cross-attention, with three quarters of a query's weight.
function lines(header, trace) {
  const { shape: [, H, n, m], data } = trace.maps.cross, counts = [], drawn = [];
  for (const [layer, head] of header.drawn) {
    for (let row = 0; row < n; row += 1) {
      const from = ((layer * H + head) * n + row) * m, weights = [...data.subarray(from, from + m)];
      const goal = 0.75 * weights.reduce((sum, value) => sum + value, 0) - 1e-6, kept = [];
      let before = 0;
      for (const key of [...weights.keys()].sort((a, b) => weights[b] - weights[a] || a - b)) {
        if (before < goal && weights[key] > 0) kept.push(key);
        before += weights[key];
      }
      counts.push(kept.length);
      for (const key of kept.sort((a, b) => a - b)) {
        drawn.push(((key << 16) | Math.round(Math.min(weights[key], 1) * 65535)) >>> 0);
      }
    }
  }
  return pack({
    ...header, label: `Lines from ${n} queries to ${m} keys`, dimmed: [], lead: leadOf(header, trace),
    query_tokens: labels(queriesOf(trace, "cross"), 20), key_tokens: labels(trace.src_tokens, 20),
    choice: { heads: header.drawn, pin: null },
  }, Uint32Array.from(counts), Uint32Array.from(drawn));
}

// The query whose weights differ most from the others'.
function leadOf(header, trace) {
  const { shape: [, , n, m] } = trace.maps.cross;
  const bits = new Float64Array(n);
  for (const [layer, head] of header.drawn) {
    const map = combined(trace.maps.cross, layer, head);
    for (let at = 0; at < n * m; at += 1) {
      let mean = 0;
      for (let row = 0; row < n; row += 1) mean += map[row * m + (at % m)] / n;
      if (map[at] > 0) bits[Math.floor(at / m)] += map[at] * Math.log2(map[at] / mean);
    }
  }
  return bits.indexOf(Math.max(...bits));
}

function tree(header, trace) {
  const { tree: nodes } = trace, texts = [...new Set(nodes.map(({ token }) => showToken(token)))];
  const of = (name, digits) => nodes.map((node) =>
    (digits ? rounded(Math.max(node[name], -1e6), digits) : node[name]));
  return pack({
    ...header, beam: trace.beam, texts, text: nodes.map(({ token }) => texts.indexOf(showToken(token))),
    ...Object.fromEntries(["parent", "step", "rank", "kind", "line"].map((name) => [name, of(name)])),
    ...Object.fromEntries(["log_prob", "total", "score"].map((name) => [name, of(name, 4)])),
    choice: { a: null, b: null, dropped: false },
  });
}

function stages(header, trace) {
  const { kind, row, mask, size, body } = trace.stages, d = body[0].length;
  const query = showToken(queriesOf(trace, kind)[row], 18);
  return pack({
    ...header, label: `Stages of attention for the query ${query.replaceAll("\u2581", "_")}`, query, mask,
    keys: labels(keysOf(trace, kind), 18), sizes: [d, mask.length, size, size], difference: 0,
    choice: { key: Math.min(header.choice.key, mask.length - 1), divisor: null },
  }, ...body.map((part) => (part instanceof Float32Array ? part : Float32Array.from([part].flat()))));
}

function parts(header, trace) {
  const n = trace.src_tokens.length, tokens = labels(trace.src_tokens, 18);
  const limit = trace.split.reduce((most, map) =>
    map.reduce((sum, value) => Math.max(sum, Math.abs(value)), most), 0);
  return pack({ ...header, rows: tokens, tokens, limit }, ...trace.split, new Uint8Array(n * n).fill(1));
}

// The arrays of `arrays_of` in plan/__init__.py, each slice along the first axis in 16 bits.
function plan(header, trace) {
  const { encoder, decoder, lens: steps, d } = trace.inside, arrays = [], body = [];
  const add = (name, shape, slices) => {
    const scales = slices.map((slice) => slice.reduce((most, value) => Math.max(most, Math.abs(value)), 0) / 32767 || 1);
    arrays.push([name, shape, scales]);
    slices.forEach((slice, at) => body.push(Int16Array.from(slice, (value) => Math.round(value / scales[at]))));
  };
  const byHead = (rows, H, width) => Float32Array.from({ length: rows.length }, (_, at) => {
    const size = (rows.length / (H * width)) * width, head = Math.floor(at / size), rest = at % size;
    return rows[Math.floor(rest / width) * H * width + head * width + (rest % width)];
  });
  const stacks = [encoder, decoder].map((of, s) => {
    const n = of.content.length / d, depth = of.inner.length, nInner = of.inner[0].length / n;
    for (const kind of of.kinds) {
      const { shape: [L, H, , m], data } = trace.maps[kind], size = H * n * m, width = d / H;
      add(`w.${kind}`, [L, H, n, m], Array.from({ length: L }, (_, l) => data.subarray(l * size, (l + 1) * size)));
      add(`c.${kind}`, [L, H, n], of[kind].norms.map((norms) => byHead(norms, H, 1)));
      for (const name of ["q", "k", "v"]) {
        add(`${name}.${kind}`, [L, H, name === "q" ? n : m, width],
          of[kind][name].map((rows) => byHead(rows, H, width)));
      }
    }
    const name = s ? "decoder" : "encoder";
    add(`x.${name}`, [of.x.length, n, d], of.x);
    add(`o.${name}`, [of.o.length, n, d], of.o);
    add(`e.${name}`, [1, n, d], [of.content]);
    const parts = of.inner.map((inner) => Array.from({ length: n }, (_, row) => inner.subarray(row * nInner, (row + 1) * nInner)));
    const most = parts.map((rows) => rows.map((part) =>
      [...part.keys()].sort((a, b) => part[b] - part[a] || a - b).slice(0, 8)));
    arrays.push([`i.${name}`, [depth, n, 8], []]);
    body.push(Uint16Array.from(most.flat(2)));
    add(`f.${name}`, [depth, n, 8], parts.map((rows, layer) =>
      Float32Array.from(most[layer].flatMap((ids, row) => ids.map((id) => rows[row][id])))));
    const firing = parts.map((rows) => rows.map((part) => part.reduce((sum, value) => sum + (value > 0), 0)));
    return { ...header.stacks[s], tokens: labels(s ? trace.tgt_tokens : trace.src_tokens, 18), rows: null, firing };
  });
  // The tokens that parts raise would take seconds; the picture leaves them out, as for long sentences.
  for (const name of ["p", "t", "z"]) arrays.push([name, [decoder.inner.length, trace.tgt_ids.length, 0, 4], name === "t" ? [] : decoder.inner.map(() => 1)]);
  return pack({
    ...header, stacks, arrays, predicted: labels(trace.predicted_tokens, 18), ids: trace.predicted_ids,
    probabilities: trace.log_probs.map((value) => rounded(Math.exp(value), 6)), words: "",
    logs: trace.top_log_probs.map((step) => step.slice(0, 6).map((log) => (Number.isFinite(log) ? rounded(log, 2) : null))),
    candidates: alternatives(trace, 6, 18), out: trace.off, cuts: [], changed: null, lost: [], held: [],
    lens: trace.predicted_ids.map((_, t) => steps.map((row) => {
      const [token, top, rank, own] = row[t];
      return [showToken(token, 14), rounded(Math.exp(top), 4), probability(top), rank, probability(own)];
    })),
    choice: { source: 0, row: 0, focus: "" },
  }, ...body);
}

const MESSAGES = { player, grid, lens, lines, tree, stages, parts, plan };
