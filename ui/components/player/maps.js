// Maps in a message, and arithmetic on them.
import { range } from "../shared/index.js";

// Shapes: L layers, H heads, T target positions (queries), S source tokens (keys). Self-attention
// is sent as its lower triangle, row by row. Measures ("wide") have one more layer and head, for all together; with a
// limit above 0, numbers run from -limit to limit.

/** Header and weights of a message, integers from 0 to `full`. */
export function opened({ header, body }) {
  if (header.bits !== 16) return { header, weights: body, full: 255 };
  const copy = body.slice(); // begins at 0, so a 16-bit view may lie on it
  return { header, weights: new Uint16Array(copy.buffer), full: 65535 };
}

/** `size` weights, 0 to 1, of one layer and head, null for the mean over them; `start` is the offset of the
 * first layer and head. */
function weightsOf({ header, weights, full }, layer, head, start, size) {
  const { shape: [L, H], wide, limit } = header;
  const chosen = (at, count) => (at !== null ? [at] : wide ? [count] : range(count));
  const [layers, heads] = [chosen(layer, L), chosen(head, H)];
  const middle = limit ? full >> 1 : 0;
  const scale = (limit || 1) / ((middle || full) * layers.length * heads.length);
  const sum = new Float32Array(size);
  for (const l of layers) {
    for (const h of heads) {
      const from = start + (l * (H + wide) + h) * size;
      for (let i = 0; i < size; i += 1) sum[i] += weights[from + i] - middle;
    }
  }
  for (let i = 0; i < size; i += 1) sum[i] *= scale;
  return sum;
}

/** Cross-attention [T, S] and self-attention [T, T], columns summed over the header's spans [[first, end],
 * ...], one per token or word. `ofCross` and `ofOwn` are [layer, head]. */
export function mapsOf(message, ofCross, ofOwn) {
  const { shape, wide, sourceSpans, keySpans } = message.header;
  const [L, H, T, S] = shape;
  const cross = weightsOf(message, ...ofCross, 0, T * S);
  const triangle = weightsOf(message, ...ofOwn, (L + wide) * (H + wide) * T * S, (T * (T + 1)) / 2);
  const own = new Float32Array(T * T);
  for (let t = 0, from = 0; t < T; from += t + 1, t += 1) {
    own.set(triangle.subarray(from, from + t + 1), t * T);
  }
  return { cross: summed(cross, T, S, sourceSpans), own: summed(own, T, T, keySpans) };
}

function summed(map, rows, columns, spans) {
  if (spans.length === columns) return map;
  const sums = new Float32Array(rows * spans.length);
  for (let t = 0; t < rows; t += 1) {
    spans.forEach(([first, end], c) => {
      let sum = 0;
      for (let i = first; i < end; i += 1) sum += map[t * columns + i];
      sums[t * spans.length + c] = sum;
    });
  }
  return sums;
}

export function strongest(row) {
  const sizes = row.map(Math.abs);
  return sizes.indexOf(Math.max(...sizes));
}
