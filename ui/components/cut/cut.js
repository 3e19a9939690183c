// A sentence in pieces (header.pieces), or a list of other segmentations (header.cuts). The choice is a
// piece's id, or the 0-based number of a segmentation.
import { make, plain, press, remember, rove, shown, syncChoice, themeOf, watch } from "../shared/index.js";

function component({ root, header }, host) {
  const choice = syncChoice(host, header);
  const restore = remember(root, ".pieces");
  const tints = header.tints.light.length;
  const buttons = header.pieces
    ? header.pieces.map((each) => pieceButton(each, tints))
    : header.cuts.map(cutButton);
  const elements = buttons.map(({ button }) => button);
  const mark = () => press(elements, (at) => buttons[at].value === choice.value);
  for (const { button, value } of buttons) {
    button.onclick = () => {
      choice.set(value);
      mark();
    };
  }
  const about = { role: "group", "aria-label": header.label };
  root.replaceChildren(make("div", header.pieces ? "pieces" : "cuts", about, elements));
  if (header.changed?.length) root.append(changes(header.changed));
  mark();
  rove(elements);
  restore();
  return watch(root, () => {
    header.tints[themeOf(root)].forEach((tint, i) => root.style.setProperty(`--tint-${i}`, tint));
  });
}

function pieceButton({ piece, whole, id, word, mark, score, note }, tints) {
  const button = make("button", `piece ${mark}`,
    make("span", "text", plain(piece)), make("span", "id", String(id)),
    score ? make("span", "score", score) : [],
    { title: plain(note), "aria-label": plain(`${whole}: ${note}`) });
  if (mark !== "special") button.style.setProperty("--tint", `var(--tint-${word % tints})`);
  return { button, value: id };
}

function changes(changed) {
  const pairs = changed.map(([before, after]) => make("span", "pair",
    make("del", "", before || "nothing"), make("span", "", " → "), make("ins", "", after || "nothing")));
  return make("p", "changed", "Normalisation changed ", pairs);
}

function cutButton({ label, share, stretches, places, text, note }, number) {
  const bar = make("span", "bar", make("span", "inner"));
  if (share !== null) bar.firstChild.style.width = `${100 * share}%`;
  const parts = stretches.map((stretch, at) => make("span", "stretch",
    stretch.map((piece) => make("span", "part", plain(piece))),
    places[at] ? make("span", "place", places[at]) : []));
  const button = make("button", "row", { "aria-label": plain(note) }, make("span", "label", label),
    share === null ? [] : bar, make("span", "stretches", stretches.length ? parts : plain(text)));
  return { button, value: number };
}

export default (host) => shown(host, "cut", component);
