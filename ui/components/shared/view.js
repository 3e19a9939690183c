// What every view needs: its message, its elements, and when to draw. Text from a message is
// untrusted: it only ever becomes textContent, or is drawn on a canvas.
import { MAIN } from "../../platform/page.js";

// A message of packing.py as {header, body}; the body is a view, not a copy.
export function unpack(data) {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const length = view.getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(data.subarray(4, 4 + length)));
  return { header, body: data.subarray(4 + length) };
}

// Shows what Streamlit, or an offline page, hands to a component: calls `component` with its element
// and message, and with the host to report to. Returns: what ends it.
export function shown(host, name, component) {
  const root = host.parentElement.querySelector(`.${name}`);
  return root && host.data?.byteLength ? component({ root, ...unpack(host.data) }, host) : undefined;
}

// A component that outlives its messages: an object of this class, made for the first one, whose
// `receive` takes each. Returns: a function that closes it.
export function lasting(View, given, host) {
  const { root } = given;
  root.view ??= new View(root, given, host);
  root.view.receive(given, host);
  return () => {
    root.unwatch?.();
    root.view.close();
    root.view = null;
    root.replaceChildren();
  };
}

// Bytes as float32; a copy, since float32 needs an aligned start.
export function floatsOf(body) {
  return new Float32Array(body.slice(0, body.length - (body.length % 4)).buffer);
}

// An element with parts: strings become plain text (tokens are never markup), objects attributes and
// handlers (`onclick`), elements children.
export function make(tag, className, ...parts) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (tag === "button") element.type = "button";
  return extend(element, ...parts);
}

// The same for an SVG element.
export function shape(tag, ...parts) {
  return extend(document.createElementNS("http://www.w3.org/2000/svg", tag), ...parts);
}

export function extend(element, ...parts) {
  for (const part of parts.flat(2)) {
    if (typeof part === "string" || part instanceof Node) element.append(part);
    else for (const [name, value] of Object.entries(part ?? {})) {
      if (typeof value === "function") element[name] = value;
      else element.setAttribute(name, value);
    }
  }
  return element;
}

// Text for display: the word-start mark (U+2581) is a heavy block in most fonts.
export function plain(text) {
  return text.replaceAll("\u2581", "_");
}

// Whether a finger is the pointer: it taps, cannot hover, and has no Shift.
export function touching() {
  return matchMedia("(pointer: coarse)").matches;
}

// Whether the window is a phone's: things stand below each other there, and wide ones scroll.
export function onPhone() {
  return window.innerWidth <= 640;
}

// True where the reader asks for less motion.
export function calm() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

// The distance of an element from the top of the page, in px, however far the page is scrolled.
export function pageTop(element) {
  const scrolled = document.querySelector(MAIN)?.scrollTop ?? 0;
  return element.getBoundingClientRect().top + scrolled;
}

// How many times as tall as a window of 720 px this one is, at least 1: heights are made for 720.
export function tallness() {
  return Math.max(1, window.innerHeight / 720);
}

// Calls `draw` now, and again when `root` or the window's height is resized, when the theme or the
// pixel ratio changes, and when a font has loaded. Streamlit changes its CSS variables without calling
// the component again; the probe's colour follows them through a short transition, whose end is an event. Replaces an
// earlier watch of the same root. Returns: a function that stops.
export function watch(root, draw) {
  root.unwatch?.();
  const probe = make("i", "probe");
  probe.style.cssText =
    "position:absolute;width:1px;height:1px;opacity:0.01;pointer-events:none;" +
    "background-color:var(--st-background-color);transition:background-color 30ms";
  root.append(probe);
  let drawn;
  const size = () => `${root.clientWidth} ${root.clientHeight} ${tallness()}`;
  const redraw = () => {
    drawn = size(); // before: what the drawing itself changes, like a scrollbar, draws once more
    if (root.clientWidth) draw(); // else it is hidden
  };
  probe.ontransitionend = redraw;
  // The first report repeats the size just drawn, unless drawing changed it.
  const resized = () => drawn === size() || redraw();
  const observer = new ResizeObserver(resized);
  observer.observe(root);
  window.addEventListener("resize", resized);
  const pixel = matchMedia(`(resolution: ${window.devicePixelRatio}dppx)`);
  pixel.onchange = () => watch(root, draw); // until it changes once more
  root.unwatch = () => {
    observer.disconnect();
    window.removeEventListener("resize", resized);
    pixel.onchange = null;
    probe.remove();
  };
  redraw();
  if (document.fonts?.status === "loading") { // also what the drawing asked for
    document.fonts.ready.then(() => probe.isConnected && redraw());
  }
  return () => root.unwatch();
}

// "light" or "dark", judged by the page's background.
export function themeOf(root) {
  const probe = root.querySelector(".probe");
  const [r, g, b] = getComputedStyle(probe).backgroundColor.match(/[\d.]+/g).map(Number);
  return 0.299 * r + 0.587 * g + 0.114 * b < 128 ? "dark" : "light";
}

// Colours and type of the current theme.
export function themed(root) {
  const style = getComputedStyle(root);
  const value = (name) => style.getPropertyValue(`--st-${name}`).trim();
  return {
    theme: themeOf(root),
    ink: style.color,
    accent: value("primary-color"),
    paper: value("background-color"),
    panel: value("secondary-background-color"),
    border: value("border-color"),
    font: style.fontFamily,
    size: parseFloat(style.fontSize),
  };
}

// Records which element has the focus in a view that is about to be rebuilt, and how far its lists
// (a selector) are scrolled. Returns: a function that restores both, by position.
export function remember(root, lists) {
  const all = (what) => [...root.querySelectorAll(what)];
  const focused = all("button").indexOf(root.getRootNode().activeElement);
  const tops = all(lists).map((list) => list.scrollTop);
  return () => {
    all(lists).forEach((list, at) => (list.scrollTop = tops[at] ?? 0));
    all("button")[focused]?.focus({ preventScroll: true });
  };
}
