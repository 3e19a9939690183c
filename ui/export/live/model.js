// The paper's model (sections 3.1 to 3.5) as transformer/model.py computes it, for the settings of
// the shipped translators: post-norm, ReLU, sinusoids, one shared embedding, no biases in attention.
//
// Arrays are Float32Array, rows of d_model numbers; sums are in float64. Matrices are [out, in].

// y = x W^T + b for the rows of x. Blocks of 4 rows by 2 outputs, or of 1 row by 4, keep the sums in
// registers; beyond the last row or output, a block computes the last one again.
function multiply(x, rows, weight, bias, nIn, nOut) {
  const y = new Float32Array(rows * nOut);
  for (let row = 0; row < rows; row += 4) {
    if (row + 1 < rows) fourRows(x, row, rows, weight, y, nIn, nOut);
    else oneRow(x, row, weight, y, nIn, nOut);
  }
  if (bias) for (let at = 0; at < y.length; at += 1) y[at] += bias[at % nOut];
  return y;
}

function fourRows(x, row, rows, weight, y, nIn, nOut) {
  const last = rows - 1, r1 = row + 1, r2 = Math.min(row + 2, last), r3 = Math.min(row + 3, last);
  const a = row * nIn, b = r1 * nIn, c = r2 * nIn, d = r3 * nIn;
  for (let o0 = 0; o0 < nOut; o0 += 2) {
    const o1 = Math.min(o0 + 1, nOut - 1), u = o0 * nIn, v = o1 * nIn;
    let a0 = 0, b0 = 0, c0 = 0, d0 = 0, a1 = 0, b1 = 0, c1 = 0, d1 = 0;
    for (let i = 0; i < nIn; i += 1) {
      const w0 = weight[u + i], w1 = weight[v + i];
      const xa = x[a + i], xb = x[b + i], xc = x[c + i], xd = x[d + i];
      a0 += w0 * xa; b0 += w0 * xb; c0 += w0 * xc; d0 += w0 * xd;
      a1 += w1 * xa; b1 += w1 * xb; c1 += w1 * xc; d1 += w1 * xd;
    }
    y[row * nOut + o0] = a0; y[row * nOut + o1] = a1;
    y[r1 * nOut + o0] = b0; y[r1 * nOut + o1] = b1;
    y[r2 * nOut + o0] = c0; y[r2 * nOut + o1] = c1;
    y[r3 * nOut + o0] = d0; y[r3 * nOut + o1] = d1;
  }
}

function oneRow(x, row, weight, y, nIn, nOut) {
  const from = row * nIn, to = row * nOut, last = nOut - 1;
  for (let o0 = 0; o0 < nOut; o0 += 4) {
    const o1 = Math.min(o0 + 1, last), o2 = Math.min(o0 + 2, last), o3 = Math.min(o0 + 3, last);
    const t = o0 * nIn, u = o1 * nIn, v = o2 * nIn, w = o3 * nIn;
    let p = 0, q = 0, r = 0, s = 0;
    for (let i = 0; i < nIn; i += 1) {
      const value = x[from + i];
      p += weight[t + i] * value; q += weight[u + i] * value;
      r += weight[v + i] * value; s += weight[w + i] * value;
    }
    y[to + o0] = p; y[to + o1] = q; y[to + o2] = r; y[to + o3] = s;
  }
}

// LayerNorm(x + added), row by row.
function addAndNorm(x, added, gain, bias, eps) {
  const d = gain.length, y = new Float32Array(x.length);
  for (let from = 0; from < x.length; from += d) {
    let mean = 0, square = 0;
    for (let i = 0; i < d; i += 1) mean += (y[from + i] = x[from + i] + added[from + i]);
    mean /= d;
    for (let i = 0; i < d; i += 1) square += (y[from + i] - mean) ** 2;
    const scale = 1 / Math.sqrt(square / d + eps);
    for (let i = 0; i < d; i += 1) y[from + i] = (y[from + i] - mean) * scale * gain[i] + bias[i];
  }
  return y;
}

// Attention of one query on `keys` and `values` (arrays of rows), head by head (3.2.1, eq. 1).
// Writes the weights [H, n]. Returns: the heads' outputs, [d_model].
function attend(q, keys, values, nHeads, weights) {
  const n = keys.length, dK = q.length / nHeads, heads = new Float32Array(q.length);
  for (let head = 0; head < nHeads; head += 1) {
    const from = head * dK, to = head * n;
    let most = -Infinity, sum = 0;
    for (let j = 0; j < n; j += 1) {
      const key = keys[j];
      let dot = 0;
      for (let i = from; i < from + dK; i += 1) dot += q[i] * key[i];
      weights[to + j] = dot / Math.sqrt(dK);
      most = Math.max(most, weights[to + j]);
    }
    for (let j = 0; j < n; j += 1) sum += (weights[to + j] = Math.exp(weights[to + j] - most));
    for (let j = 0; j < n; j += 1) {
      const weight = (weights[to + j] /= sum), value = values[j];
      for (let i = from; i < from + dK; i += 1) heads[i] += weight * value[i];
    }
  }
  return heads;
}

const rowsOf = (x, d) => Array.from({ length: x.length / d }, (_, at) => x.subarray(at * d, at * d + d));

// `tensors` are by their names in the checkpoint. `off` are heads taken out, [kind, layer, head]: as
// in transformer/edits, their rows of W_V are zero.
function openModel(config, tensors, off = []) {
  const { d_model: d, n_heads: nHeads, d_ff: dFf, layer_norm_eps: eps } = config;
  const embedding = tensors["src_embedding.weight"], nWords = embedding.length / d;
  tensors = { ...tensors };
  for (const [kind, layer, head] of off) {
    const [stack, block] = kind === "encoder_self" ? ["encoder", "self"]
      : ["decoder", kind === "cross" ? "cross" : "self"];
    const name = `${stack}.${layer}.${block}_attention.w_v.weight`, size = (d * d) / nHeads;
    tensors[name] = tensors[name].slice().fill(0, head * size, (head + 1) * size);
  }

  function project(x, block, name) {
    return multiply(x, x.length / d, tensors[`${block}.${name}.weight`], null, d, d);
  }

  // [n, d_model] of tokens at positions start, start + 1, ... (sections 3.4 and 3.5).
  function embed(tokens, positions) {
    const x = new Float32Array(tokens.length * d);
    const content = new Float32Array(x.length);
    tokens.forEach((token, row) => {
      for (let i = 0; i < d; i += 1) {
        const angle = positions[row] * Math.exp((-Math.log(10000) * (i - (i % 2))) / d);
        const at = row * d + i;
        content[at] = embedding[token * d + i] * Math.sqrt(d);
        x[at] = content[at] + Math.fround(i % 2 ? Math.cos(angle) : Math.sin(angle));
      }
    });
    return [x, content];
  }

  function around(x, block, added) {
    return addAndNorm(x, added, tensors[`${block}.norm.weight`], tensors[`${block}.norm.bias`], eps);
  }

  // The feed-forward network and the connection around it; `note` receives the values inside.
  function feedForward(x, layer, note) {
    const at = `${layer}.feed_forward`, rows = x.length / d;
    const inner = multiply(x, rows, tensors[`${at}.w_1.weight`], tensors[`${at}.w_1.bias`], d, dFf);
    for (let i = 0; i < inner.length; i += 1) if (inner[i] < 0) inner[i] = 0;
    const added = multiply(inner, rows, tensors[`${at}.w_2.weight`], tensors[`${at}.w_2.bias`], dFf, d);
    const y = around(x, `${layer}.around_feed_forward`, added);
    note?.("ffn", { inner, added, x: y });
    return y;
  }

  // An attention block and the connection around it. `keys(row)` and `values(row)` are what a row
  // sees. Returns: [rows, d_model] and the rows' weights, [H, keys] each.
  function attention(x, layer, name, kind, keys, values, note) {
    const block = `${layer}.${name}`, q = project(x, block, "w_q");
    const heads = new Float32Array(x.length), maps = [];
    rowsOf(q, d).forEach((query, row) => {
      const n = keys(row).length, map = new Float32Array(nHeads * n);
      heads.set(attend(query, keys(row), values(row), nHeads, map), row * d);
      maps.push(map);
    });
    const added = project(heads, block, "w_o");
    const y = around(x, `${layer}.around_${name.split("_")[0]}`, added);
    note?.(kind, { q, heads, added, x: y, k: keys(0), v: values(0) });
    return [y, maps];
  }

  // Returns: memory, its rows, and maps [Le][S], each [H, S]. `note(layer, kind, values)`.
  function encode(ids, note) {
    let [x, content] = embed(ids, [...ids.keys()]);
    const maps = [];
    note?.(-1, "embedding", { x, content });
    for (let index = 0; index < config.n_encoder_layers; index += 1) {
      const layer = `encoder.${index}`, of = note && ((kind, values) => note(index, kind, values));
      const k = rowsOf(project(x, `${layer}.self_attention`, "w_k"), d);
      const v = rowsOf(project(x, `${layer}.self_attention`, "w_v"), d);
      [x, maps[index]] = attention(x, layer, "self_attention", "encoder_self", () => k, () => v, of);
      x = feedForward(x, layer, of);
    }
    const cross = Array.from({ length: config.n_decoder_layers }, (_, index) =>
      ["w_k", "w_v"].map((name) => rowsOf(project(x, `decoder.${index}.cross_attention`, name), d)));
    return { memory: x, maps, cross };
  }

  // One more token for every row. `paths` are the rows' earlier positions, which hold their keys
  // and values. Returns: the rows' paths with the new position, and the states [rows, d_model].
  function step(tokens, paths, encoded, note) {
    let [x, content] = embed(tokens, paths.map((path) => path.length));
    const news = paths.map((path) => [...path, { k: [], v: [], self: [], cross: [] }]);
    note?.(-1, "embedding", { x, content });
    for (let index = 0; index < config.n_decoder_layers; index += 1) {
      const layer = `decoder.${index}`, of = note && ((kind, values) => note(index, kind, values));
      for (const [name, at] of [["w_k", "k"], ["w_v", "v"]]) {
        rowsOf(project(x, `${layer}.self_attention`, name), d)
          .forEach((values, row) => { news[row].at(-1)[at][index] = values; });
      }
      let own, cross;
      [x, own] = attention(x, layer, "self_attention", "decoder_self",
        (row) => news[row].map((position) => position.k[index]),
        (row) => news[row].map((position) => position.v[index]), of);
      const [k, v] = encoded.cross[index];
      [x, cross] = attention(x, layer, "cross_attention", "cross", () => k, () => v, of);
      news.forEach((path, row) => {
        path.at(-1).self[index] = own[row];
        path.at(-1).cross[index] = cross[row];
      });
      x = feedForward(x, layer, of);
    }
    return { paths: news, hidden: x };
  }

  // [rows, V]
  const logits = (hidden) => multiply(hidden, hidden.length / d, embedding, null, d, nWords);

  return { config, tensors, encode, step, logits, project, nWords };
}
