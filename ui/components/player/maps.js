// The message of `ui.components.packing`, and arithmetic on the attention maps in it.
// Shapes: L layers, H heads, T target positions (queries), S source tokens (keys).

/** Header and weights of a message. Weights are integers from 0 to `full`. */
function unpack(message) {
  const start = message.byteOffset;
  const length = new DataView(message.buffer, start, 4).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(message.subarray(4, 4 + length)));
  const body = message.slice(4 + length); // a copy begins at 0, so a 16-bit view may lie on it
  const wide = header.bits === 16;
  return { header, weights: wide ? new Uint16Array(body.buffer) : body, full: wide ? 65535 : 255 };
}

/** One map [T, S] with weights from 0 to 1; a layer or head of null is the mean over them. */
function mapOf({ header, weights, full }, layer, head) {
  const [L, H, T, S] = header.shape;
  const size = T * S;
  const layers = layer === null ? range(L) : [layer];
  const heads = head === null ? range(H) : [head];
  const scale = 1 / (full * layers.length * heads.length);
  const map = new Float32Array(size);
  for (const l of layers) {
    for (const h of heads) {
      const from = (l * H + h) * size;
      for (let i = 0; i < size; i += 1) map[i] += weights[from + i];
    }
  }
  for (let i = 0; i < size; i += 1) map[i] *= scale;
  return map;
}

/** A map shrunk to at most `rows` x `columns`: every cell keeps the strongest weight it covers. */
function shrink(map, T, S, rows, columns) {
  if (T <= rows && S <= columns) return { map, T, S };
  const t = Math.min(T, rows);
  const s = Math.min(S, columns);
  const small = new Float32Array(t * s);
  for (let i = 0; i < T; i += 1) {
    const row = Math.floor((i * t) / T) * s;
    for (let j = 0; j < S; j += 1) {
      const cell = row + Math.floor((j * s) / S);
      if (map[i * S + j] > small[cell]) small[cell] = map[i * S + j];
    }
  }
  return { map: small, T: t, S: s };
}

/** The colour table of one theme: 256 x RGB bytes from hex digits. */
function colourTable(digits) {
  const table = new Uint8Array(768);
  for (let i = 0; i < 768; i += 1) table[i] = parseInt(digits.substr(2 * i, 2), 16);
  return table;
}

function colourAt(table, weight) {
  const i = 3 * Math.round(255 * Math.min(1, Math.max(0, weight)));
  return [table[i], table[i + 1], table[i + 2]];
}

/** Relative luminance (WCAG 2.2) of RGB bytes, 0 to 1. */
function luminance([r, g, b]) {
  const linear = (v) => (v <= 10 ? v / 3294 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
}

function strongest(row) {
  let best = 0;
  for (let i = 1; i < row.length; i += 1) if (row[i] > row[best]) best = i;
  return best;
}

function range(n) {
  return Array.from({ length: n }, (_, i) => i);
}
