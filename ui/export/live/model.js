// The paper's model (sections 3.1 to 3.5) as transformer/model.py computes it, for the settings of
// the shipped translators: post-norm, ReLU, sinusoids, one shared embedding, no biases in attention.
//
// Arrays are Float32Array, rows of d_model numbers; sums are in float64. Matrices are [out, in].

// y = x W^T + b for the rows of x. Four rows at a time read each weight once.
function multiply(x, rows, weight, bias, nIn, nOut) {
  const y = new Float32Array(rows * nOut);
  for (let row = 0; row < rows;) {
    const a = row * nIn, b = a + nIn, c = b + nIn, d = c + nIn;
    if (row + 4 <= rows) {
      for (let out = 0, w = 0; out < nOut; out += 1) {
        let p = bias ? bias[out] : 0, q = p, r = p, s = p;
        for (let i = 0; i < nIn; i += 1, w += 1) {
          const value = weight[w];
          p += value * x[a + i];
          q += value * x[b + i];
          r += value * x[c + i];
          s += value * x[d + i];
        }
        const at = row * nOut + out;
        y[at] = p;
        y[at + nOut] = q;
        y[at + 2 * nOut] = r;
        y[at + 3 * nOut] = s;
      }
      row += 4;
    } else {
      for (let out = 0, w = 0; out < nOut; out += 1) {
        let p = bias ? bias[out] : 0, q = 0, r = 0, s = 0;
        for (let i = 0; i < nIn; i += 4, w += 4) {
          p += weight[w] * x[a + i];
          q += weight[w + 1] * x[a + i + 1];
          r += weight[w + 2] * x[a + i + 2];
          s += weight[w + 3] * x[a + i + 3];
        }
        y[row * nOut + out] = p + q + r + s;
      }
      row += 1;
    }
  }
  return y;
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
// Writes the weights [H, n] at `at` of `weights`, heads `stride` apart. Returns: [d_model].
function attend(q, keys, values, nHeads, off, weights, at, stride) {
  const n = keys.length, dK = q.length / nHeads, heads = new Float32Array(q.length);
  for (let head = 0; head < nHeads; head += 1) {
    const from = head * dK, to = at + head * stride;
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
      if (off[head]) continue;
      for (let i = from; i < from + dK; i += 1) heads[i] += weight * value[i];
    }
  }
  return heads;
}

const rowsOf = (x, d) => Array.from({ length: x.length / d }, (_, at) => x.subarray(at * d, at * d + d));

// `tensors` are by their names in the checkpoint. `off` are heads taken out: [kind, layer, head].
function openModel(config, tensors, off = []) {
  const { d_model: d, n_heads: nHeads, d_ff: dFf, layer_norm_eps: eps } = config;
  const embedding = tensors["src_embedding.weight"], nWords = embedding.length / d;
  const gates = (kind, layer) => Array.from({ length: nHeads }, (_, head) =>
    off.some(([a, b, c]) => a === kind && b === layer && c === head));

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
  function attention(x, layer, name, kind, index, keys, values, note) {
    const block = `${layer}.${name}`, q = project(x, block, "w_q"), closed = gates(kind, index);
    const heads = new Float32Array(x.length), maps = [];
    rowsOf(q, d).forEach((query, row) => {
      const n = keys(row).length, map = new Float32Array(nHeads * n);
      heads.set(attend(query, keys(row), values(row), nHeads, closed, map, 0, n), row * d);
      maps.push(map);
    });
    const added = project(heads, block, "w_o");
    const y = around(x, `${layer}.around_${name.split("_")[0]}`, added);
    note?.(kind, { q, heads, added, x: y });
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
      let weights;
      note?.(index, "encoder_self.kv", { k, v });
      [x, weights] = attention(
        x, layer, "self_attention", "encoder_self", index, () => k, () => v, of);
      maps.push(weights);
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
      [x, own] = attention(x, layer, "self_attention", "decoder_self", index,
        (row) => news[row].map((position) => position.k[index]),
        (row) => news[row].map((position) => position.v[index]), of);
      const [k, v] = encoded.cross[index];
      [x, cross] = attention(
        x, layer, "cross_attention", "cross", index, () => k, () => v, of);
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

  return { config, tensors, encode, step, logits, nWords };
}
