// The buttons of the picture: tokens below their columns, blocks beside them, and the next tokens.
import { chance, make, percent, plain, press, rove, setBox, touching, widthsIn } from "../shared/index.js";
import { maskedBox } from "./draw.js";
import { loopOf } from "./layout.js";

const BLANK = "\u00a0"; // a line without text: names stay where they are while a film runs
const LEAST = 11; // px of a band that can be hit and has a name

// Words before a layer's best guess and the chosen token, and whether the guess has its probability.
const WORDS = [["best guess", "chosen ", true], ["guess", "chosen ", true], ["guess", "", true], ["guess", "", false], ["guess", null, true]];

export const SHORT = { self: "Attention", cross: "Cross-attention", ffn: "Feed-forward" };

// The name of a block, as a title.
export function titleOf(view, { s, layer, block, kind }) {
  const stack = view.header.stacks[s].name;
  const where = `${stack[0].toUpperCase()}${stack.slice(1)}`;
  if (block === "softmax") return view.header.texts.softmax.name;
  const text = textOf(view, { s, block, kind });
  return block === "embedding" ? `${where}: ${text.name}` : `${where} layer ${layer + 1}${block ? `: ${text.name}` : ""}`;
}

// The entry of words.toml for a block.
export function textOf(view, { s, block }) {
  const { texts, stacks } = view.header;
  const name = block?.endsWith("_norm") ? "norm" : block ?? "layer";
  return texts[name] ?? texts[`${stacks[s].name}.${name}`];
}

export function tokenOf(view, s) {
  return s ? view.state.row : view.state.source;
}

export function placeTokens(view) {
  const { plan, header, state } = view;
  const short = shortener(view);
  const rows = plan.stacks.map((stack) => {
    const { s, bands: [band], first, count } = stack;
    const field = s ? "row" : "source";
    const choose = (i) => view.choose({ [field]: first + i });
    const steep = stack.cw < 20 * plan.unit; // or lines of text touch
    const slant = `token${plan.narrow ? " down" : ""}${steep ? " steep" : ""}`;
    const high = plan.narrow ? band.top + band.h - 30 * plan.unit : band.top + 13;
    const buttons = Array.from({ length: count }, (_, i) => {
      const token = first + i;
      const text = plain(header.stacks[s].tokens[token]);
      const id = `${field}.${token}`;
      const later = s === 1 && token > state.row ? " later" : "";
      const button = make("button", `${slant}${later}`, short(text, (band.h - (view.large ? 20 : 13) * plan.unit) / (steep ? 0.93 : 0.74)), {
        "data-id": id, dir: "auto", title: text, onclick: () => choose(i),
      });
      view.marks.set(id, button);
      return setBox(button, stack.at(token), high);
    });
    press(buttons, (i) => first + i === state[field]);
    rove(buttons, { choose })(state[field] - first);
    const n = header.stacks[s].tokens.length;
    const far = (token) => plain(header.stacks[s].tokens[token < first ? 0 : header.stacks[s].tokens.length - 1]); // often what is looked at
    const more = stack.stubs.map(({ token, more: number }) => setBox(make("button", `${slant} stub`, number > 1 ? `${short(far(token), 34 * plan.unit)} +${number - 1}` : far(token), {
      "aria-label": `${number} more tokens`, title: `${number} more tokens`, onclick: () => view.choose({ [field]: token }),
    }), stack.near(token), high));
    const where = `${inText(header.predicted[state.row])} ${state.row + 1 < n ? "is the next input,\nshifted right" : "ends the text"}`;
    const x = plan.narrow ? 6 : stack.left + stack.cw * (count + Number(count < n)) + 10;
    const start = setBox(make("p", "part", header.stacks.some(({ tokens }) => tokens.some((each) => each.startsWith("\u2581"))) ? "_ marks\nthe start\nof a word" : ""), 6, band.top + 13);
    if (s) more.push(setBox(make("p", "part next", where), x, band.top + (plan.narrow ? 0 : 13), (plan.narrow ? stack.left : plan.width - 12) - x));
    else if (!plan.narrow) more.push(start, setBox(make("p", "part", make("span", "k", "● keys"), " ", make("span", "v", "● values")), 6, stack.output - 24));
    return make("div", "", { role: "group", "aria-label": s ? "The translation so far, as the decoder reads it" : "Source tokens" }, buttons, more);
  });
  view.tokens.replaceChildren(...rows);
}

export function placeBands(view) {
  const { plan, data, state, look } = view;
  const lettersOf = widthsIn(`600 ${Math.max(12, 0.8 * look.size)}px ${look.font}`);
  const widthOf = (text) => lettersOf(text) + 0.1 * look.size * (text.split(" ").length - 1); // with plan.css's spaces
  const groups = plan.stacks.map((stack) => {
    const marks = stack.bands.filter(({ kind }) => kind !== "tokens" && kind !== "candidates").map((band) => {
      if (band.kind === "heading" || band.h < LEAST) {
        return placed(make("div", `band ${band.kind}`, band.kind === "heading" ? label(view, stack, band) : []), stack, band);
      }
      const added = addedAt(view, band);
      const said = added ? ` Adds ${percent(added.share)} for ${tokenText(view, band.s)}.` : "";
      const mark = make("button", `band ${band.kind}`, label(view, stack, band), {
        "data-id": band.id, "aria-expanded": band.unfolded || (!band.block && false),
        "aria-label": `${titleOf(view, band)}.${said}${band.kind === "layer" ? " Show its blocks." : ""}`, tabindex: band.unfolded ? -1 : 0, // its panel has a button
        onclick: () => view.unfold(band.unfolded ? null : { s: band.s, layer: band.layer ?? 0, block: band.block ?? null, head: null }),
        onpointerenter: (event) => view.point(band, event), onpointerleave: (event) => view.point(null, event),
        onfocus: (event) => view.point(band, event), onblur: (event) => view.point(null, event),
      });
      view.marks.set(band.id, mark);
      return placed(mark, stack, band);
    });
    const masks = stack.bands.filter(({ kind }) => kind === "block").flatMap((band) => {
      const box = maskedBox(view, stack, band);
      if (!box || box[2] < 44 * plan.unit || box[3] < (plan.narrow ? 44 : 24) * plan.unit) return [];
      const note = make("p", "part unwritten", make("span", "", box[2] < 80 * plan.unit || box[3] < 44 * plan.unit ? "mask" : `mask:${box[2] < 110 * plan.unit ? "\n" : " "}not yet written`));
      return [setBox(note, ...box)];
    });
    return make("div", "", { role: "group", "aria-label": view.header.stacks[stack.s].name }, marks.reverse(), masks);
  });
  view.bands.replaceChildren(...groups);
  function placed(mark, stack, band) {
    mark.style.paddingLeft = `${stack.label}px`;
    const box = [band.x, band.top, band.w, band.h];
    band.mark = band.unfolded ? setBox(view.panel, ...box) : mark;
    return setBox(mark, ...box);
  }
  // What a block or layer adds to the chosen token.
  function addedAt(at, { s, layer, block }) {
    return layer === undefined ? null : data.added(s, layer, block?.replace("_norm", ""), tokenOf(at, s));
  }
  // The lines of a label, as many as the band has room for; a line is the longest of its versions that fits.
  function label(at, stack, band) {
    if (band.unfolded) return [];
    const added = addedAt(at, band);
    const share = added ? `adds ${percent(added.share)}` : "";
    const count = Math.max(1, Math.floor(band.h / (13.6 * plan.unit)));
    const line = (name, ...texts) => {
      const text = texts.find((version) => widthOf(version) <= stack.room) ?? texts.at(-1);
      return text && make("span", name, text);
    };
    const lines = [];
    if (band.kind === "layer" || band.kind === "heading") {
      const guesses = stack.s ? guessesOf(at, band, stack) : [];
      const name = widthOf(`Layer ${band.layer + 1}  ${share}`) > stack.room ? "L" : "Layer ";
      lines.push(make("span", "", make("b", "", `${name}${band.layer + 1}`), " ", make("span", "size", share, { title: share })), ...guesses);
    } else if (band.kind === "block") {
      lines.push(line("name", band.block === "self" && stack.s ? "Masked attention" : SHORT[band.block], SHORT[band.block]));
      const beside = [share, share.replace("adds ", "")].find((text) => widthOf(`${lines[0].textContent} ${text}`) + 3 < stack.room);
      if (count < 2 && beside) lines[0].append(" ", make("span", "size", beside));
      const seen = band.block !== "ffn" && seenBy(at, band)?.text;
      lines.push(line("size", ...(seen && count < 3 ? [`${share}, looks most at ${seen}`, `${share}, most: ${seen}`] : []), share));
      if (seen && count > 2) lines.push(line("size looks", `looks most at ${seen}`, `most: ${seen}`, BLANK));
    } else if (band.kind === "norm") lines.push(line("quiet", at.header.pre ? "Add" : "Add & Norm"));
    else if (band.kind === "softmax") lines.push(line("name", `Softmax over ${at.header.vocabulary.toLocaleString("en")} tokens`, "Softmax"));
    else lines.push(line("name", textOf(at, band).name, "Embedding"));
    return lines.filter(Boolean).slice(0, count);
  }
  // The most probable word if the model ended after a layer, and the probability of the chosen word, in accent where it rises most. A token is shortened before a number goes.
  function guessesOf(at, band, { bands, room }) {
    const guesses = ({ layer, h }, [guess, chosen, full], film) => {
      const [[, , , , before], [token, p, , rank, own]] = at.header.lens[state.row].slice(layer);
      const [first, name, two] = [`${guess} ${inText(token)}${full ? ` ${chance(p)}` : ""}`, inText(at.header.predicted[state.row]), h >= 40.8 * plan.unit];
      if (!film && layer === data.decisive(state.row)) return [`takes ${name} ${before} → ${own}`]; // said when all layers have run
      if (film || chosen === null || (rank === 1 && (before === own || !two))) return [first, BLANK];
      return two ? [first, `${chosen}${name} ${before === own ? "" : `${before} → `}${own}`] : [`${first}, ${chosen}${name} ${own}`, BLANK];
    };
    const others = bands.filter(({ kind, layer }) => ["layer", "heading"].includes(kind) && layer !== data.decisive(state.row));
    const words = WORDS.find((each) => others.every((other) => guesses(other, each).every((text) => widthOf(text) <= room))) ?? WORDS.at(-1);
    const fit = (text) => (widthOf(text) <= room ? text : text.replace(/^((?:best )?guess |chosen )?(\S+)/, (_, word = "", token) => word + shortener(view, true)(token, room - widthOf(text) + widthOf(token))));
    return guesses(band, words, at.film).map((text) => text.startsWith("takes ") ?
      make("span", "most", widthOf(text) > room ? fit(text.slice(6)) : text) : make("span", "size guess", fit(text), { title: "What the model would say if it ended here" }));
  }
}

// The chosen token in a head, or in the mean over heads for null: {out, key, weight, text, length, words}, key with the
// largest weight, both as text, length of what the head adds. Null for a token left out.
export function seenBy({ data, kinds, header: { stacks }, state }, { s, layer, block }, head = null) {
  const [kind, query] = [kinds[`${stacks[s].name}.${block}`], tokenOf({ state }, s)];
  const weights = data.weights(kind, layer, head, query);
  if (!weights) return null;
  const weight = Math.max(...weights);
  const key = inText(stacks[kind === "cross" ? 0 : s].tokens[weights.indexOf(weight)]);
  const [length] = data.at(`c.${kind}`, layer, head, data.row(s, query));
  const words = s ? data.words(layer, query, data.part(kind, head)) : [];
  return { out: data.marked("out", kind, layer, head), key, weight, text: `${key} ${weight.toFixed(2)}`, length, words };
}

export function tokenText(view, s) {
  return inText(view.header.stacks[s].tokens[tokenOf(view, s)]);
}

// A token in a sentence, with quotation marks around punctuation.
export function inText(token) {
  return /[\p{L}\p{N}“]/u.test(token) ? plain(token) : `“${plain(token)}”`;
}

// An empty element with properties of style.
export function barOf(name, properties) {
  return Object.assign(make("i", name), { style: Object.entries(properties).map((pair) => pair.join(": ")).join("; ") });
}

// Returns a function that shortens a text to a width in px, in the type of tokens; forms of a word keep their endings, but not a guess.
export function shortener({ look }, end = false) {
  const widthOf = widthsIn(`600 ${Math.max(12, 0.86 * look.size)}px ${look.font}`);
  return (text, width) => {
    const letters = [...text];
    while (letters.length > 2 && widthOf(letters.join("")) > width) letters.splice(end ? letters.length - 2 : (letters.length - 1) / 2, 2, "…");
    return letters.join("");
  };
}

export function placeCandidates(view) {
  const { plan, header, state, film } = view;
  const row = film && !film.landed ? film.row - 1 : state.row; // a film keeps a step's until the next ones come
  const shown = header.candidates[row] ?? [];
  const band = plan.stacks[1].bands.at(-1);
  const { x, w } = plan.stacks[1];
  const each = w / shown.length;
  const short = shortener(view);
  const wasOf = (id) => header.was[row]?.find(([, , other]) => other === id)?.[1] ?? null;
  const changed = shown.some(([, p, id]) => chance(wasOf(id) ?? p) !== chance(p));
  const buttons = shown.map(([token, p, id]) => {
    const own = id === header.ids[row];
    const text = plain(token);
    const was = changed ? wasOf(id) : null;
    const bar = barOf(was > 0.005 ? "bar was" : "bar", { "--p": `${100 * p}%`, "--was": `${100 * was}%` });
    const may = header.possible && !own && !header.never.includes(id);
    return make("button", "candidate", bar, make("bdi", "", short(text, each - 6)), make("span", "size", chance(p), was === null ? "" : make("span", "quiet", chance(was) === chance(p) ? " as before" : ` was ${plan.tight ? chance(was).replace("<0", "<") : chance(was)}`)), {
      "aria-pressed": own, "data-id": `take.${id}`, title: !may ? text : touching() ? "" : `Continue with ${text}`, // a tip hides what a tap changes
      onclick: () => may && view.touch({ what: "take", kind: "cross", query: row, key: id }),
    });
  });
  view.candidates.replaceChildren(...buttons);
  setBox(view.candidates, x, band.top + (plan.narrow ? 0 : 8), w, band.h - 8);
  const own = shown.findIndex(([, , id]) => id === header.ids[row]);
  plan.loop = loopOf(view, own < 0 ? plan.stacks[1].at(state.row) : x + (own + 0.5) * each);
}
