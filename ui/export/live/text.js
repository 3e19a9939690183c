// SentencePiece in the browser: a typed sentence to token ids, and ids to text.
//
// The vocabulary, the table of characters and the ranges of `clean` come from Python with the
// model, so the two cannot drift. Other than that, this is transformer/text/tokenizer.py and the
// normalisation, segmentation and decoding of the sentencepiece library.

const SPACE = "\u2581";
const UNKNOWN_COST = 10; // of a character outside the vocabulary, below the least probable piece

function openText({ pieces, kind, scores, charsmap, spaces, removed, unk, bytes }) {
  const ids = new Map();
  pieces.forEach((piece, id) => id > unk && !bytes.includes(id) && ids.set(piece, id));
  const longest = Math.max(...[...ids.keys()].map((piece) => piece.length));
  const unknownScore = Math.fround(Math.min(...[...ids.values()].map((id) => scores[id]))
    - UNKNOWN_COST);
  const view = new DataView(charsmap.buffer, charsmap.byteOffset, charsmap.byteLength);
  const trieBytes = charsmap.length ? view.getUint32(0, true) : 0;
  const unit = (at) => view.getUint32(4 + 4 * at, true);
  const offset = (value) => (value >>> 10) << ((value & 512) >>> 6);
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const encoder = new TextEncoder();
  const within = (ranges, code) => ranges.some(([first, last]) => first <= code && code <= last);

  // One line without control characters: `clean` in transformer/text/tokenizer.py.
  function clean(text) {
    const kept = [];
    for (const character of text.normalize("NFC")) {
      const code = character.codePointAt(0);
      if (within(spaces, code)) kept.push(" ");
      else if (!within(removed, code)) kept.push(character);
    }
    return kept.join("").split(" ").filter(Boolean).join(" ");
  }

  // The longest entry of the double array at `from`: its replacement and end, or the character.
  function replaced(input, from) {
    let place = trieBytes ? offset(unit(0)) : 0, end = 0, value = 0;
    for (let at = from; trieBytes && at < input.length; at += 1) {
      place ^= input[at];
      const node = unit(place);
      if ((node & 0x800000ff) !== input[at]) break;
      place ^= offset(node);
      if (node & 256) [end, value] = [at + 1, unit(place) & 0x7fffffff];
    }
    if (end) {
      const start = 4 + trieBytes + value;
      return [decoder.decode(charsmap.subarray(start, charsmap.indexOf(0, start))), end];
    }
    const lead = input[from];
    const after = from + (lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4);
    return [decoder.decode(input.subarray(from, after)), after];
  }

  function normalise(text) {
    const input = encoder.encode(text), parts = [];
    let afterSpace = true;
    for (let at = 0; at < input.length;) {
      let [part, end] = replaced(input, at);
      at = end;
      if (afterSpace) part = part.replace(/^ +/, "");
      if (part) afterSpace = part.endsWith(" ");
      parts.push(part);
    }
    const written = parts.join("").replaceAll(" ", SPACE);
    return written && (SPACE + written).replace(new RegExp(`${SPACE}+$`), "");
  }

  // The most probable segmentation (Kudo 2018), in the float32 sums of the library.
  function unigram(text) {
    const best = new Float32Array(text.length + 1), from = new Int32Array(text.length + 1).fill(-1);
    const chosen = new Int32Array(text.length + 1);
    function offer(start, end, id, score) {
      if (from[end] >= 0 && !(score > best[end])) return;
      [best[end], from[end], chosen[end]] = [score, start, id];
    }
    for (let start = 0; start < text.length;) {
      const width = text.codePointAt(start) > 0xffff ? 2 : 1;
      let single = false;
      for (let length = 1; length <= longest && start + length <= text.length; length += 1) {
        const id = ids.get(text.slice(start, start + length));
        if (id === undefined) continue;
        single ||= length === width;
        offer(start, start + length, id, Math.fround(scores[id] + best[start]));
      }
      if (!single) offer(start, start + width, unk, Math.fround(unknownScore + best[start]));
      start += width;
    }
    const path = [];
    for (let end = text.length; end > 0; end = from[end]) {
      path.push([text.slice(from[end], end), chosen[end]]);
    }
    return path.reverse();
  }

  // `as_unknown` in transformer/text/marks.py.
  function asUnknown(piece) {
    const start = piece.startsWith(SPACE) ? SPACE : "";
    return `${start}\u2047${piece.slice(start.length).replaceAll("\u2047", "[U+2047]")}`;
  }

  // Returns: {text, ids, pieces, unknown}, all without `</s>`.
  function tokenize(typed) {
    const text = clean(typed), normal = normalise(text);
    const cut = kind === "char"
      ? [...normal].map((character) => [character, ids.get(character) ?? unk]) : unigram(normal);
    const read = { text, ids: [], pieces: [], unknown: [] };
    cut.forEach(([piece, id], at) => {
      const spelled = id === unk && bytes.length ? [...encoder.encode(piece)] : null;
      if (id === unk && !spelled && at && cut[at - 1][1] === unk) {
        read.pieces[read.pieces.length - 1] += piece;
        return;
      }
      for (const one of spelled ? spelled.map((byte) => bytes[byte]) : [id]) {
        if (id === unk) read.unknown.push(read.ids.length);
        read.ids.push(one);
        read.pieces.push(spelled ? pieces[one] : id === unk ? asUnknown(piece) : piece);
      }
    });
    return read;
  }

  function spell(run) {
    const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    let text = "";
    for (let at = 0; at < run.length;) {
      const width = run[at] < 0x80 ? 1 : run[at] < 0xe0 ? 2 : run[at] < 0xf0 ? 3 : 4;
      try {
        text += strict.decode(Uint8Array.from(run.slice(at, at + width)));
        at += width;
      } catch {
        text += "\ufffd";
        at += 1;
      }
    }
    return text;
  }

  // The text of token ids, without padding, `<s>` and `</s>`.
  function decode(tokens) {
    let text = "", run = [];
    for (const id of [...tokens.filter((token) => token >= unk), -1]) {
      if (bytes.includes(id)) {
        run.push(bytes.indexOf(id));
        continue;
      }
      text += spell(run);
      run = [];
      const piece = id < 0 ? "" : id === unk ? " \u2047 " : pieces[id];
      text += (!text && piece.startsWith(SPACE) ? piece.slice(1) : piece).replaceAll(SPACE, " ");
    }
    return text;
  }

  return { clean, normalise, tokenize, decode };
}
