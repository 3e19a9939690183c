// Beam search (section 6.1) with its record, as transformer/search/beam.py and scoring.py do it by
// the paper's rule. A beam of one is greedy.

const EXTRA_LENGTH = 50, MOST_TOKENS = 512;

// The best `count` of a row of logits: ids, log-probabilities, and the entropy in nats.
function bestOf(logits, count) {
  let most = -Infinity;
  for (const value of logits) if (value > most) most = value;
  let sum = 0, weighted = 0;
  const ids = [];
  for (let id = 0; id < logits.length; id += 1) {
    const below = logits[id] - most, p = Math.exp(below);
    sum += p;
    weighted += p * below;
    if (ids.length === count && logits[id] <= logits[ids[count - 1]]) continue;
    let at = ids.length;
    while (at > 0 && logits[ids[at - 1]] < logits[id]) at -= 1;
    ids.splice(at, 0, id);
    ids.length = Math.min(ids.length, count);
  }
  const spread = Math.log(sum);
  return { ids, logProbs: ids.map((id) => logits[id] - most - spread), entropy: spread - weighted / sum };
}

// Returns: {hypotheses, steps, encoded, penalty, beam}, hypotheses best first: {ids, logProbs, total,
// score, rows, complete, path}; steps are {candidates, tops}.
function search(model, source, { beam = 4, alpha = 0.6, topK = 10 } = {}) {
  const { bos_id: bos, eos_id: eos, pad_id: pad, unk_id: unk } = model.config;
  const maxLength = Math.min(source.length + EXTRA_LENGTH, MOST_TOKENS);
  const penalty = (length) => ((5 + length) / 6) ** alpha;
  const score = (node) => node.total / penalty(node.length);
  const encoded = model.encode(source), steps = [], finished = [];
  let live = [{ parent: null, token: bos, total: 0, length: 0, path: [] }], cut = [], cutCompetes = true;
  for (let t = 0; live.length; t += 1) {
    const { paths, hidden } = model.step(
      live.map((node) => node.token), live.map((node) => node.path), encoded);
    const logits = model.logits(hidden), nodes = [];
    const tops = live.map((_, row) =>
      bestOf(logits.subarray(row * model.nWords, (row + 1) * model.nWords), Math.max(beam + 3, topK)));
    live.forEach((node, row) => {
      const { ids, logProbs } = tops[row];
      ids.map((token, at) => [token, logProbs[at]])
        .filter(([token]) => token !== pad && token !== bos && token !== unk).slice(0, beam)
        .forEach(([token, logProb]) => nodes.push({
          parent: node.length ? node : null, token, logProb, row,
          total: node.total + logProb, length: t + 1, path: paths[row], fate: "dropped", place: -1,
        }));
    });
    nodes.sort((a, b) => b.total - a.total || a.row - b.row);
    const chosen = nodes.slice(0, beam), ended = chosen.filter((node) => node.token === eos);
    live = chosen.filter((node) => node.token !== eos);
    finished.push(...ended);
    if (ended.includes(chosen[0])) cutCompetes = false;
    const atLimit = t + 1 >= maxLength;
    if (atLimit) cut = live;
    if (atLimit || decided()) {
      if (atLimit) for (const node of live) node.fate = "kept";
      live = [];
    }
    live.forEach((node, place) => Object.assign(node, { fate: "kept", place }));
    for (const node of ended) node.fate = "finished";
    steps.push({ candidates: nodes, tops, paths });
  }

  // No live hypothesis can beat the worst of `beam` finished ones.
  function decided() {
    if (!live.length) return true;
    if (finished.length < beam) return false;
    const scores = finished.map(score).sort((a, b) => b - a);
    return live[0].total / penalty(alpha > 0 ? maxLength : live[0].length) <= scores[beam - 1];
  }

  const ranked = [...finished, ...(cutCompetes ? cut : [])].sort((a, b) => score(b) - score(a));
  const hypotheses = ranked.slice(0, beam).map((last) => {
    const nodes = [];
    for (let node = last; node; node = node.parent) nodes.unshift(node);
    return {
      ids: nodes.map((node) => node.token), logProbs: nodes.map((node) => node.logProb),
      total: last.total, score: score(last), rows: nodes.map((node) => node.row),
      complete: last.token === eos, path: last.path,
    };
  });
  for (const step of steps) for (const node of step.candidates) node.score = score(node);
  return { hypotheses, steps, encoded, penalty, beam };
}
