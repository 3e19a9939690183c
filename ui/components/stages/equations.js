// The equations of the paper as MathML, which browsers typeset themselves.

const sub = (base, index) => ["msub", base, index];
const sup = (base, index) => ["msup", base, index];
const both = (base, low, high) => ["msubsup", base, low, high];
const over = (top, bottom) => ["mfrac", top, bottom];
const root = (...inside) => ["msqrt", ...inside];
const row = (...parts) => ["mrow", ...parts];
const summed = (below) => ["munder", ["mo", "∑"], below];
const word = (text) => ["mtext", text];

// The lines of a stage's equation, with the numbers of this head in it.
export function equations(stage, header) {
  const [model, keys, k, v] = header.sizes;
  const bias = (name) => (header.has_bias ? ["+", sub("b", name)] : []);
  const shape = (n, m) => word(`\u2003${n} × ${m}`);
  const e = sub("e", "j");
  const lines = {
    project: [
      ["q", "=", "x", sup("W", "Q"), ...bias("Q"), shape(model, k)],
      [sub("k", "j"), "=", sub("x", "j"), sup("W", "K"), ...bias("K"), shape(model, k)],
      [sub("v", "j"), "=", sub("x", "j"), sup("W", "V"), ...bias("V"), shape(model, v)],
    ],
    compare: [["q", "·", sub("k", "j"), "=", summed(row("c", "=", "1", "…", String(k))),
               sub("q", "c"), word("\u2009"), sub("k", row("j", "c"))]],
    dots: [["q", sup("K", ["mi", "⊤"]), word(`\u2003${keys} numbers`)]],
    divide: [[e, "=", over(row("q", "·", sub("k", "j")), root(sub("d", "k"))),
              ...(header.relative ? ["+", sub("b", "distance")] : []), word("\u2003"),
              root(["mn", String(k)]), "=", ["mn", Math.sqrt(k).toFixed(2)]]],
    mask: header.unmasked ? [] : [[e, "=", "−", ["mi", "∞"], word("\u2002for later j")]],
    softmax: [[sub("a", "j"), "=",
               over(row(word("exp\u2009"), e), row(summed("l"), word("exp\u2009"), sub("e", "l")))]],
    values: [["z", "=", summed("j"), sub("a", "j"), word("\u2009"), sub("v", "j")]],
    output: [["z", both("W", word("head"), "O"), shape(v, model)]],
  };
  return lines[stage].map((parts) => {
    const math = mathElement("math");
    math.setAttribute("display", "block");
    math.append(...parts.map(mathNode));
    return math;
  });
}

function mathElement(tag) {
  return document.createElementNS("http://www.w3.org/1998/Math/MathML", tag);
}

function mathNode(part) {
  const [tag, ...inside] = Array.isArray(part) ? part : [kindOf(part), part];
  const element = mathElement(tag);
  if (inside.length === 1 && typeof inside[0] === "string" && /^m(i|n|o|text)$/.test(tag)) {
    element.textContent = inside[0];
    element.setAttribute("class", inside[0].toLowerCase()); // queries, keys and values have their colours
  } else {
    element.append(...inside.map(mathNode));
  }
  return element;
}

function kindOf(text) {
  if (/^\d/.test(text)) return "mn";
  return /^[a-zA-Z]$/.test(text) ? "mi" : text === " " ? "mtext" : "mo";
}
