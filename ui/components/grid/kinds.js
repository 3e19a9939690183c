// The kinds of maps that one grid can show, and the tabs that switch between them.
//
// A message holds the kinds one after another, each deflated separately, so that unseen kinds are
// not unpacked. A kind without bytes is known by name only and is sent once chosen.
import { make, rove, unpack } from "../shared/index.js";

export function openKinds(header, body) {
  let from = 0;
  return header.kinds.map(([name, title, short, bytes]) => {
    const packed = body.subarray(from, (from += bytes));
    const kind = { name, title, short, here: bytes > 0, sheet: null, pane: null };
    let opening = null;
    kind.open = () =>
      (opening ??= inflated(packed).then(({ header: about, body: maps }) => {
        kind.sheet = { ...about, maps };
      }));
    return kind;
  });
}

// Unpacks the output of `deflate` in packing.py. Returns: a promise of {header, body}.
async function inflated(bytes) {
  const { readable, writable } = new DecompressionStream("deflate-raw");
  const writer = writable.getWriter();
  writer.write(bytes);
  writer.close();
  return unpack(new Uint8Array(await new Response(readable).arrayBuffer()));
}

// The kind to draw: the chosen one, or another until it has arrived.
export function shownKind(kinds, [, , , name]) {
  return kinds.find((kind) => kind.here && kind.name === name) ?? kinds.find((kind) => kind.here);
}

// The tabs: `element`, `mark(name)` for the chosen one, `fit()` for the available width. They look
// and work like Streamlit's segmented control: one tab stop, arrow keys choose.
export function buildTabs(kinds, choose) {
  const buttons = kinds.map(({ name, title, short }) => make("button", "kind",
    { "data-kind": name, role: "radio", "aria-label": title, onclick: () => choose(name) },
    make("span", "long", title), make("span", "short", short)));
  const about = { role: "radiogroup", "aria-label": "Kind of attention" };
  const element = make("div", "kinds", about, buttons);
  const stop = rove(buttons, { wraps: true, choose: (at) => choose(kinds[at].name) });
  const mark = (name) => {
    for (const button of buttons) button.setAttribute("aria-checked", button.dataset.kind === name);
    stop(kinds.findIndex((kind) => kind.name === name));
  };
  const fit = () => {
    element.classList.remove("tight");
    element.classList.toggle("tight", element.scrollWidth > element.clientWidth);
  };
  return { element, mark, fit };
}
