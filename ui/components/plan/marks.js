// The buttons of the picture: tokens below their columns, blocks beside them, and the next tokens.
import { make, plain, press, rove, setBox } from "../shared/index.js";

const LEAST = 16; // px of a band that can be hit

const SHORT = {
  self: "Attention", cross: "Cross-attention", ffn: "Feed-forward", softmax: "Softmax", embedding: "Embedding",
};

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
  if (!block) return texts.layer;
  if (block.endsWith("_norm")) return texts.norm;
  return texts[block] ?? texts[`${stacks[s].name}.${block}`];
}

export function tokenOf(view, s) {
  return s ? view.state.row : view.state.source;
}

export function placeTokens(view) {
  const { plan, header, state } = view;
  const rows = plan.stacks.map((stack) => {
    const { s, bands: [band], first, count } = stack;
    const field = s ? "row" : "source";
    const choose = (i) => view.choose({ [field]: first + i });
    const buttons = Array.from({ length: count }, (_, i) => {
      const token = first + i;
      const text = plain(header.stacks[s].tokens[token]);
      const id = `${field}.${token}`;
      const later = s === 1 && token > state.row ? " later" : "";
      const button = make("button", `token${plan.narrow ? " down" : ""}${later}`, text, {
        "data-id": id, dir: "auto", title: text, onclick: () => choose(i),
      });
      setBox(button, stack.at(token), plan.narrow ? band.top + band.h - 20 * plan.unit : band.top + 3);
      view.marks.set(id, button);
      return button;
    });
    press(buttons, (i) => first + i === state[field]);
    rove(buttons, { choose })(state[field] - first);
    const n = header.stacks[s].tokens.length;
    const more = count < n ? [make("p", "part", `tokens ${first + 1} to ${first + count} of ${n}`)] : [];
    more.forEach((note) => setBox(note, stack.left, band.top + band.h - 14));
    const label = s ? "The translation so far, as the decoder reads it" : "Source tokens";
    return make("div", "", { role: "group", "aria-label": label }, buttons, more);
  });
  view.tokens.replaceChildren(...rows);
}

export function placeBands(view) {
  const { plan, data, state } = view;
  const groups = plan.stacks.map((stack) => {
    const marks = stack.bands.filter(({ kind }) => kind !== "tokens" && kind !== "candidates").map((band) => {
      if (band.h < LEAST) return placed(make("div", `band ${band.kind}`), stack, band);
      const mark = make("button", `band ${band.kind}`, label(view, stack, band), {
        "data-id": band.id, "aria-expanded": band.unfolded || (!band.block && false),
        "aria-label": said(view, band), tabindex: -1,
        onclick: () => act(view, band),
        onpointerenter: () => view.point(band), onpointerleave: () => view.point(null),
        onfocus: () => view.point(band), onblur: () => view.point(null),
      });
      view.marks.set(band.id, mark);
      return placed(mark, stack, band);
    });
    const stop = marks.find((mark) => mark.getAttribute("aria-expanded") === "true")
      ?? marks.find((mark) => mark.classList.contains("block"));
    if (stop) stop.tabIndex = 0;
    return make("div", "", { role: "group", "aria-label": view.header.stacks[stack.s].name }, marks.reverse());
  });
  view.bands.replaceChildren(...groups);
  function placed(mark, stack, band) {
    mark.style.paddingLeft = `${stack.label}px`;
    setBox(mark, band.x, band.top, band.w, band.h);
    return mark;
  }
  // The share that the block adds to the chosen token.
  function said(at, band) {
    if (band.kind === "layer") return `${titleOf(at, band)}. Show its blocks.`;
    const added = addedAt(at, band);
    const share = added ? ` Adds ${percent(added.share)} for ${tokenText(at, band.s)}.` : "";
    return `${titleOf(at, band)}.${share}`;
  }
  function addedAt(at, band) {
    const block = band.block?.replace("_norm", "");
    return band.layer === undefined || !block ? null : data.added(band.s, band.layer, block, tokenOf(at, band.s));
  }
  function label(at, stack, band) {
    if (band.unfolded) return [];
    if (band.kind === "layer") {
      const guess = stack.s && band.h > 24 * plan.unit ? [guessOf(at, band.layer)] : [];
      return [make("span", "name", `Layer ${band.layer + 1}`), ...guess];
    }
    if (band.kind === "norm") return [make("span", "size", at.header.pre ? "Add" : "Add & Norm")];
    const added = band.kind === "block" && band.h > 24 * plan.unit ? addedAt(at, band) : null;
    const name = band.block === "self" && stack.s ? "Masked attention" : SHORT[band.block];
    return [
      make("span", "name", name),
      ...(added ? [make("span", "size", `adds ${percent(added.share)}`)] : []),
    ];
  }
  function guessOf(at, layer) {
    const [token, p] = at.header.lens[layer + 1][state.row];
    return make("span", "size guess", `${plain(token)} ${percent(p)}`, { title: "The softmax after this layer" });
  }
}

export function tokenText(view, s) {
  return plain(view.header.stacks[s].tokens[tokenOf(view, s)]);
}

export function percent(share) {
  return `${Math.round(100 * share)}%`;
}

// What a click on a band does: show a layer's blocks, or unfold a block, or fold it.
function act(view, { s, kind, layer, block, unfolded }) {
  if (kind === "layer") view.unfold({ s, layer, block: null, head: null });
  else view.unfold(unfolded ? null : { s, layer: layer ?? 0, block, head: null });
}

export function placeCandidates(view) {
  const { plan, header, state } = view;
  const band = plan.stacks[1].bands.at(-1);
  const { left, cw, count } = plan.stacks[1];
  const low = band.h < 60 * plan.unit;
  const most = header.candidates[state.row][0][1];
  const buttons = header.candidates[state.row].map(([token, p, id]) => {
    const own = id === header.ids[state.row];
    const text = plain(token);
    const bar = make("i", "bar");
    bar.style.height = `${Math.max(2, (low ? 8 : 28) * plan.unit * (p / most))}px`;
    const may = header.possible && !own && !header.never.includes(id);
    return make("button", "candidate", bar, make("bdi", "", text), make("span", "size", `${(100 * p).toFixed(1)}%`), {
      "aria-pressed": own, title: may ? `Continue with ${text}` : text,
      onclick: () => may && view.touch({ what: "take", kind: "cross", query: state.row, key: id }),
    });
  });
  view.candidates.replaceChildren(...buttons);
  const wide = Math.max(cw * count, 300);
  setBox(view.candidates, Math.min(left, plan.width - wide), band.top, Math.min(wide, plan.width), band.h);
}
