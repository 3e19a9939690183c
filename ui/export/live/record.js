// The record of one sentence, by the names of transformer/trace/records.py, and values inside the
// model, as transformer/trace/whole.py collects them.

const KINDS = ["encoder_self", "decoder_self", "cross"];
const OUTCOMES = ["continued", "exhausted", "finished", "cut", "outranked", "stopped", "passed"];

// Rows [H, m] of all layers and queries as one map: {shape: [L, H, n, m], data}; m is the longest.
function joined(layers, nHeads) {
  const n = layers[0].length, m = layers[0][n - 1].length / nHeads;
  const data = new Float32Array(layers.length * nHeads * n * m);
  layers.forEach((rows, layer) => rows.forEach((row, query) => {
    const width = row.length / nHeads;
    for (let head = 0; head < nHeads; head += 1) {
      const to = ((layer * nHeads + head) * n + query) * m;
      data.set(row.subarray(head * width, (head + 1) * width), to);
    }
  }));
  return { shape: [layers.length, nHeads, n, m], data };
}

// The trace along the best hypothesis of a search.
function traceOf(model, words, header, read, found, off) {
  const { n_heads: nHeads, n_decoder_layers: depth, bos_id: bos, eos_id: eos } = model.config;
  const best = found.hypotheses[0], { pieces } = header, T = best.ids.length;
  const along = best.rows.map((row, t) => found.steps[t].tops[row]);
  const layers = (name) => Array.from({ length: depth }, (_, layer) =>
    best.path.map((position) => position[name][layer]));
  const tops = along.map(({ ids }) => ids.slice(0, 10));
  return {
    off, source: read.text, text: words.decode(best.ids), score: best.score,
    complete: best.complete, beam: found.beam,
    src_tokens: [...read.pieces, pieces[eos]], src_ids: [...read.ids, eos],
    src_unknown: read.unknown, src_special: [read.ids.length], tgt_special: [0],
    tgt_ids: [bos, ...best.ids.slice(0, -1)], predicted_ids: best.ids,
    tgt_tokens: [bos, ...best.ids.slice(0, -1)].map((id) => pieces[id]),
    predicted_tokens: best.ids.map((id) => pieces[id]), log_probs: best.logProbs,
    top_ids: tops, top_tokens: tops.map((ids) => ids.map((id) => pieces[id])),
    top_log_probs: along.map(({ logProbs }) => logProbs.slice(0, 10)),
    entropy: along.map(({ entropy }) => entropy),
    penalties: Array.from({ length: T }, (_, t) => found.penalty(t + 1)),
    maps: {
      encoder_self: joined(found.encoded.maps, nHeads), decoder_self: joined(layers("self"), nHeads),
      cross: joined(layers("cross"), nHeads),
    },
  };
}

// The candidates of a search as a tree: `beam_tree` in transformer/measures/beam.py.
function treeOf(found, trace, pieces) {
  const nodes = [], place = new Map(), { hypotheses, steps, beam } = found;
  const outcomeOf = ({ fate, place: row }, rank) => {
    if (fate === "finished") return "finished";
    if (fate === "dropped") return rank >= beam ? "outranked" : "stopped";
    return row < 0 ? "cut" : "continued";
  };
  steps.forEach(({ candidates, tops }, step) => {
    let ranked = candidates.map((node, rank) => ({
      ...node, node, step, rank, outcome: outcomeOf(node, rank),
    }));
    if (beam === 1 && step < trace.top_ids.length) {
      const [taken] = ranked, { ids, logProbs } = tops[0];
      ids.slice(0, 10).forEach((token, at) => {
        if (token === taken.token) return;
        const total = taken.total - taken.logProb + logProbs[at];
        ranked.push({ ...taken, node: null, token, logProb: logProbs[at], total,
          score: total / found.penalty(step + 1), outcome: "passed" });
      });
      ranked.sort((a, b) => b.logProb - a.logProb);
      ranked = ranked.map((node, rank) => ({ ...node, rank }));
    }
    for (const node of ranked) {
      if (node.node) place.set(node.node, nodes.length);
      nodes.push({ ...node, index: nodes.length, parent: node.parent ? place.get(node.parent) : -1 });
    }
  });
  const followed = new Set(nodes.filter(({ outcome }) => !["outranked", "passed"].includes(outcome))
    .map(({ parent }) => parent));
  for (const node of nodes) {
    if (node.outcome === "continued" && !followed.has(node.index)) node.outcome = "exhausted";
  }
  let ended = nodes.filter(({ outcome }) => outcome === "finished");
  if (!hypotheses.every(({ complete }) => complete)) {
    ended = [...ended, ...nodes.filter(({ outcome }) => outcome === "cut")];
  }
  const path = (index) => (index < 0 ? [] : [...path(nodes[index].parent), index]);
  ended.sort((a, b) => b.score - a.score);
  const winner = new Set(path(ended[0].index));
  const alive = new Set(ended.flatMap(({ index }) => path(index)));
  return nodes.map(({ index, parent, step, rank, token, logProb, total, score, outcome }) => ({
    parent, step, rank, token: pieces[token], log_prob: logProb, total, score,
    kind: OUTCOMES.indexOf(outcome), line: winner.has(index) ? 2 : Number(alive.has(index)),
  }));
}

// Runs a trace's tokens through the model once more. Returns, by stack: content, x (the stream before
// and after every block), o (what blocks add), inner, and by kind q, k, v and heads, rows of all
// tokens in one array per layer.
function inside(model, trace) {
  const { n_encoder_layers: nEncoder, n_decoder_layers: nDecoder } = model.config;
  const empty = (n) => Array.from({ length: n }, () => []);
  const stack = (depth, kinds) => ({
    content: [], x: empty(1 + depth * (kinds.length + 1)), o: empty(depth * (kinds.length + 1)),
    inner: empty(depth), kinds,
    ...Object.fromEntries(kinds.map((kind) =>
      [kind, { q: empty(depth), heads: empty(depth), k: empty(depth), v: empty(depth) }])),
  });
  const all = { encoder: stack(nEncoder, ["encoder_self"]),
    decoder: stack(nDecoder, ["decoder_self", "cross"]) };
  const into = (to) => (layer, kind, values) => {
    if (kind === "embedding") {
      to.content.push(values.content);
      to.x[0].push(values.x);
      return;
    }
    const order = [...to.kinds, "ffn"], at = layer * order.length + order.indexOf(kind);
    to.x[at + 1].push(values.x);
    to.o[at].push(values.added);
    if (kind === "ffn") to.inner[layer].push(values.inner);
    else for (const name of ["q", "heads"]) to[kind][name][layer].push(values[name]);
    if (kind !== "ffn") for (const name of ["k", "v"]) to[kind][name][layer] = values[name];
  };
  const encoded = model.encode(trace.src_ids, into(all.encoder));
  let paths = [[]];
  for (const token of trace.tgt_ids) {
    paths = model.step([token], paths, encoded, into(all.decoder)).paths;
  }
  const flat = (rows) => {
    const whole = new Float32Array(rows.reduce((sum, row) => sum + row.length, 0));
    rows.reduce((at, row) => (whole.set(row, at), at + row.length), 0);
    return whole;
  };
  for (const of of Object.values(all)) {
    of.content = flat(of.content);
    for (const name of ["x", "o", "inner"]) of[name] = of[name].map(flat);
    for (const kind of of.kinds) {
      for (const name of ["q", "heads", "k", "v"]) of[kind][name] = of[kind][name].map(flat);
    }
  }
  return all;
}

const blockOf = (kind, layer) => (kind === "encoder_self" ? `encoder.${layer}.self_attention`
  : `decoder.${layer}.${kind === "cross" ? "cross" : "self"}_attention`);

// What only the whole model's picture needs: the lengths of the heads' parts, into `values`, and what
// the decoder would predict after each layer.
function readOut(model, values, trace, pieces) {
  for (const of of Object.values(values)) {
    for (const kind of of.kinds) {
      of[kind].norms = of[kind].heads.map((heads, layer) => headNorms(model, kind, layer, heads));
    }
  }
  const after = values.decoder.x.filter((_, at) => at % 3 === 0);
  return { ...values, d: model.config.d_model, lens: after.map((x) => lensOf(model, x, trace, pieces)) };
}

// Lengths of the heads' parts of a block's output, [n, H].
function headNorms(model, kind, layer, heads) {
  const { d_model: d, n_heads: nHeads } = model.config, size = d / nHeads;
  const w = model.tensors[`${blockOf(kind, layer)}.w_o.weight`];
  const norms = new Float32Array((heads.length / d) * nHeads);
  for (let row = 0; row < heads.length / d; row += 1) {
    for (let head = 0; head < nHeads; head += 1) {
      const from = row * d + head * size;
      let square = 0;
      for (let out = 0; out < d; out += 1) {
        let sum = 0;
        for (let i = 0; i < size; i += 1) sum += w[out * d + head * size + i] * heads[from + i];
        square += sum * sum;
      }
      norms[row * nHeads + head] = Math.sqrt(square);
    }
  }
  return norms;
}

// Steps of the logit lens: [token, log p, rank of the prediction, its log p].
function lensOf(model, x, trace, pieces) {
  const logits = model.logits(x), v = model.nWords;
  return trace.predicted_ids.map((own, t) => {
    const row = logits.subarray(t * v, (t + 1) * v), { ids: [top], logProbs: [best] } = bestOf(row, 1);
    let rank = 1;
    for (const value of row) if (value > row[own]) rank += 1;
    return [pieces[top], best, rank, row[own] - row[top] + best];
  });
}

// One query in a head: `inspect_head` in transformer/trace/inspection.py.
function stagesOf(model, values, trace, { kind, layer, head, query }) {
  const { d_model: d, n_heads: nHeads } = model.config, size = d / nHeads, causal = kind === "decoder_self";
  const own = kind === "encoder_self" ? values.encoder : values.decoder, blocks = own.kinds.length + 1;
  const at = layer * blocks + own.kinds.indexOf(kind), row = Math.min(query, own.content.length / d - 1);
  const read = kind === "cross" ? values.encoder.x.at(-1) : own.x[at];
  const cut = (x) => rowsOf(x, d).map((part) => part.slice(head * size, (head + 1) * size));
  const q = cut(own[kind].q[layer])[row], k = cut(own[kind].k[layer]), v = cut(own[kind].v[layer]);
  const map = trace.maps[kind], n = map.shape[3], w = model.tensors[`${blockOf(kind, layer)}.w_o.weight`];
  const start = ((layer * nHeads + head) * map.shape[2] + row) * n;
  const output = Float32Array.from({ length: size * d }, (_, i) =>
    w[(i % d) * d + head * size + Math.floor(i / d)]);
  return {
    kind, row, size, mask: Array.from({ length: n }, (_, key) => Number(!causal || key <= row)),
    body: [own.x[at].slice(row * d, (row + 1) * d), read, q, ...k, ...v,
      k.map((key) => key.reduce((sum, value, i) => sum + value * q[i], 0)),
      map.data.slice(start, start + n), output, own.o[at].slice(row * d, (row + 1) * d)],
  };
}

// Logits of a layer-1 head of the encoder as a sum: `split_logits` in transformer/trace/inspection.py.
function splitOf(model, values, head) {
  const { d_model: d, n_heads: nHeads } = model.config, size = d / nHeads;
  const { content, x: [entering] } = values.encoder, n = content.length / d;
  const inputs = { content, position: entering.map((value, i) => value - content[i]), both: entering };
  const of = (name) => Object.fromEntries(Object.entries(inputs).map(([part, x]) =>
    [part, rowsOf(model.project(x, blockOf("encoder_self", 0), name), d)]));
  const q = of("w_q"), k = of("w_k");
  const product = (one, other) => Float32Array.from({ length: n * n }, (_, at) => {
    let sum = 0;
    for (let i = head * size; i < (head + 1) * size; i += 1) {
      sum += q[one][Math.floor(at / n)][i] * k[other][at % n][i];
    }
    return sum / Math.sqrt(size);
  });
  const parts = ["content", "position"].flatMap((one) =>
    ["content", "position"].map((other) => product(one, other)));
  return [...parts, product("both", "both")];
}
