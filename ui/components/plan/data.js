// The numbers of a message: arrays of packing in plan/__init__.py, and what follows from them.
import { norm } from "../shared/index.js";

export const KINDS = { "encoder.self": "encoder_self", "decoder.self": "decoder_self", "decoder.cross": "cross" };

export class Data {
  constructor(header, body) {
    this.header = header;
    const words = new Uint16Array(body.slice().buffer);
    let from = 0;
    this.arrays = new Map(header.arrays.map(([name, shape, scales]) => {
      const size = shape.reduce((product, length) => product * length, 1);
      const part = words.subarray(from, (from += size));
      const values = scales.length ? Float32Array.from(new Int16Array(part.buffer, part.byteOffset, size),
        (value, i) => value * scales[Math.floor((i * shape[0]) / size)]) : part;
      return [name, { shape, values }];
    }));
  }

  // The numbers at leading indices of an array; null for a token that the message leaves out.
  at(name, ...indices) {
    const { shape, values } = this.arrays.get(name) ?? {};
    if (!shape || indices.includes(-1)) return null;
    const size = shape.slice(indices.length).reduce((product, length) => product * length, 1);
    const start = indices.reduce((sum, index, axis) => sum * shape[axis] + index, 0) * size;
    return values.subarray(start, start + size);
  }

  // Where a token of a stack is in the arrays: -1 if the message leaves it out.
  row(s, token) {
    const { rows } = this.header.stacks[s];
    return rows ? rows.indexOf(token) : token;
  }

  heads(kind) {
    return this.arrays.get(`w.${kind}`).shape[1];
  }

  // A query's weights on all keys in a head, or their mean over heads for null.
  weights(kind, layer, head, query) {
    const i = this.row(kind === "encoder_self" ? 0 : 1, query);
    if (head !== null) return this.at(`w.${kind}`, layer, head, i);
    const all = Array.from({ length: this.heads(kind) }, (_, h) => this.at(`w.${kind}`, layer, h, i));
    return all[0] && all[0].map((_, j) => all.reduce((sum, row) => sum + row[j], 0) / all.length);
  }

  // One query in a head: {q, dots, scaled, masked, weights, output}, by key, before and after the division.
  head(kind, layer, head, query) {
    const weights = this.weights(kind, layer, head, query);
    const q = this.at(`q.${kind}`, layer, head, query);
    if (!q) return { weights };
    const [dots, scaled, masked] = [[], [], []];
    const relative = this.at(`r.${kind}`, layer, head, query);
    const causal = kind === "decoder_self" && !this.header.unmasked[layer];
    const output = new Float64Array(this.at(`v.${kind}`, layer, head, 0).length);
    weights.forEach((weight, j) => {
      const key = this.at(`k.${kind}`, layer, head, j);
      dots.push(q.reduce((sum, value, c) => sum + value * key[c], 0));
      scaled.push(dots[j] / Math.sqrt(q.length) + (relative ? relative[j] : 0));
      masked.push(causal && j > query);
      this.at(`v.${kind}`, layer, head, j).forEach((value, c) => (output[c] += weight * value));
    });
    return { q, dots, scaled, masked, weights, output: this.marked("held", kind, layer, head) ? null : output };
  }

  // True if the header lists a head as "held" or "out".
  marked(list, ...place) {
    return this.header[list].some((item) => item.every((value, i) => value === place[i]));
  }

  // The stream before and after a block, and what the block adds, with lengths: for one token. A layer, without a
  // block, adds the stream after it minus that before. Null for a token that the message leaves out.
  added(s, layer, block, token) {
    const [{ name, blocks }, i] = [this.header.stacks[s], this.row(s, token)];
    const step = layer * blocks.length + (block ? blocks.indexOf(block) : 0);
    const [before, after] = [step, step + (block ? 1 : blocks.length)].map((at) => this.at(`x.${name}`, at, i));
    if (!before) return null;
    const output = block ? this.at(`o.${name}`, step, i) : after.map((value, c) => value - before[c]);
    const sum = before.map((value, c) => value + output[c]);
    const [length, more] = [norm(before), norm(output)];
    return { before, output, sum, after, length, more, share: more / (length + more || 1) };
  }

  // The layer that raises the probability of a row's chosen word most, by 5 points more than others, or -1.
  decisive(row) {
    const own = this.header.lens[row].map((cell) => parseFloat(cell[4].replace("<", "")));
    const rises = own.slice(1).map((percent, layer) => percent - own[layer]);
    return rises.findIndex((rise, layer) => rise >= 5 && rises.every((other, n) => n === layer || rise >= other + 5));
  }

  // Words that a part of the decoder raises most, as [token, logit]; parts are those of `Whole.words`.
  words(layer, row, part) {
    const i = this.row(1, row);
    const [words, logits] = [this.at("t", layer, i, part), this.at("z", layer, i, part)];
    if (!words?.length || !this.arrays.get("t").shape[2]) return [];
    return [...words].map((word, n) => [this.header.words.split("\n")[word], logits[n]]);
  }

  // The part of a head, the network or a neuron in `Whole.words`.
  part(name, at = 0) {
    const heads = this.heads("cross");
    return { decoder_self: at, cross: heads + at, network: 2 * heads, neuron: 2 * heads + 1 + at }[name];
  }
}
