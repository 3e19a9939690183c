// The worker: takes a model once, then translates what is typed.

const HALF = new Float32Array(65536).map((_, bits) => {
  const [sign, power, part] = [bits & 0x8000 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
  if (power === 31) return part ? NaN : sign * Infinity;
  return sign * (power ? 2 ** (power - 15) * (1 + part / 1024) : 2 ** -14 * (part / 1024));
});

async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Unpacks `live_model` in live.py.
async function openPackage(bytes) {
  const data = await inflated(bytes);
  const length = new DataView(data.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(data.subarray(4, 4 + length)));
  const total = header.tensors.reduce((sum, [, count]) => sum + count, 0), tensors = {};
  const low = 4 + length, high = low + total;
  let at = 0;
  for (const [name, count] of header.tensors) {
    const values = new Float32Array(count);
    for (let i = 0; i < count; i += 1, at += 1) values[i] = HALF[data[low + at] | (data[high + at] << 8)];
    tensors[name] = values;
  }
  const table = high + total, scores = table + header.charsmap;
  const words = openText({
    ...header, unk: header.config.unk_id, charsmap: data.slice(table, scores),
    scores: new Float32Array(data.slice(scores).buffer),
  });
  return { header, tensors, words };
}

let opened = null;

// {bytes} opens a model; {sentence, beam, off, place, head, views} translates.
async function received({ data }) {
  if (data.bytes) {
    opened = await openPackage(data.bytes);
    return { ready: opened.header.name };
  }
  const { header, tensors, words } = opened, { eos_id: eos } = header.config;
  const read = words.tokenize(data.sentence);
  if (!read.ids.length) return { error: "Type a sentence first." };
  if (read.ids.length >= MOST_TOKENS) {
    return { error: `The sentence has ${read.ids.length + 1} tokens; at most ${MOST_TOKENS} are allowed.` };
  }
  const model = openModel(header.config, tensors, data.off), beam = data.beam ?? header.beam;
  const found = search(model, [...read.ids, eos], { beam, alpha: header.alpha });
  const trace = traceOf(model, words, header, read, found, data.off ?? []);
  trace.tree = treeOf(found, trace, header.pieces);
  const shown = (...names) => names.some((name) => data.views?.includes(name));
  if (shown("plan", "stages", "parts")) {
    const values = inside(model, trace);
    trace.stages = stagesOf(model, values, trace, data.place);
    trace.split = splitOf(model, values, data.head);
    if (shown("plan")) trace.inside = readOut(model, values, trace, header.pieces);
  }
  return { trace };
}

onmessage = (event) => received(event).catch((error) => ({ error: error.message }))
  .then((answer) => postMessage({ ...answer, turn: event.data.turn }));
