// What canvas components share. Python puts this text in front of each component's own, since
// a component is one module without imports (see packing.py).

// A message of packing.py as {header, body}; the body is a view, not a copy.
function unpack(data) {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const length = view.getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(data.subarray(4, 4 + length)));
  return { header, body: data.subarray(4 + length) };
}

// An element with plain text: tokens are never markup.
function make(tag, className, text) {
  const element = document.createElement(tag);
  element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

// Text for the eye: the mark of a word's start (U+2581) is a heavy block in most fonts.
function plain(text) {
  return text.replaceAll("\u2581", "_");
}

// Calls `draw` now, when `root` changes its size, and when the theme changes. Streamlit changes its
// CSS variables without calling the component again; the probe's colour follows them through a
// short transition, and its end is an event. Replaces an earlier watch over the same root.
function watch(root, draw) {
  root.unwatch?.();
  const probe = make("i", "probe");
  probe.style.cssText =
    "position:absolute;width:1px;height:1px;opacity:0.01;pointer-events:none;" +
    "background-color:var(--st-background-color);transition:background-color 30ms";
  root.append(probe);
  probe.ontransitionend = draw;
  const observer = new ResizeObserver(draw);
  observer.observe(root);
  root.unwatch = () => {
    observer.disconnect();
    probe.remove();
  };
  draw();
  return root.unwatch;
}

// "light" or "dark", by the background that the page shows.
function themeOf(root) {
  const probe = root.querySelector(".probe");
  const [r, g, b] = getComputedStyle(probe).backgroundColor.match(/[\d.]+/g).map(Number);
  return 0.299 * r + 0.587 * g + 0.114 * b < 128 ? "dark" : "light";
}

// What `deflate` of packing.py made, as a promise of {header, body}.
async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return unpack(new Uint8Array(await new Response(stream).arrayBuffer()));
}

// What the reader chose in a view, in agreement with held.py: {held, tell(next)}; `tell(next, said)`
// where those who listen know it by another name.
//
// A message says what was chosen when it was made. Choices made here since then win over it, also
// when the view is mounted again with the same message; a message made after them wins over them.
function agree(component, header) {
  // A view that is mounted again has another key; `session` names it in held.py. Views of a page
  // without a server stay where they are and have one session.
  const view = header.session === "still" ? component.key : header.session;
  const all = (window[Symbol.for("headlight.held")] ??= new Map());
  let memory = all.get(view);
  if (!memory || header.count >= memory.count) {
    memory = { count: header.count, held: header.held };
    all.set(view, memory);
  }
  const tell = (next, said = next) => {
    memory = { count: memory.count + 1, held: next };
    all.set(view, memory);
    component.setTriggerValue?.("held", { count: memory.count, held: said });
  };
  return { get held() { return memory.held; }, tell };
}
