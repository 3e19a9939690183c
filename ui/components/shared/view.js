// Messages, elements and redrawing, for every view. Text from a message is untrusted: it becomes
// textContent or is drawn on a canvas.
import { MAIN } from "../../platform/page.js";

// Unpacks a message of packing.py: {header, body}, the body without a copy.
export function unpack(data) {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const length = view.getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(data.subarray(4, 4 + length)));
  return { header, body: data.subarray(4 + length) };
}

// Calls `component` with its element and message, and with the host (Streamlit or an offline page) that
// takes reports. Returns the cleanup function.
export function shown(host, name, component) {
  const root = host.parentElement.querySelector(`.${name}`);
  return root && host.data?.byteLength ? component({ root, ...unpack(host.data) }, host) : undefined;
}

// Mounts a component that outlives its messages: creates a `View` for the first one and passes all to its
// `receive`. Returns the cleanup function.
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

// Copies bytes as float32, which needs an aligned start.
export function floatsOf(body) {
  return new Float32Array(body.slice(0, body.length - (body.length % 4)).buffer);
}

// Creates an element: string parts become plain text (tokens are never markup), objects attributes and
// handlers (`onclick`), elements children.
export function make(tag, className, ...parts) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (tag === "button") element.type = "button";
  return extend(element, ...parts);
}

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

// Replaces the word-start mark (U+2581), a heavy block in most fonts.
export function plain(text) {
  return text.replaceAll("\u2581", "_");
}

// True on touch screens, which have no hover and no Shift.
export function touching() {
  return matchMedia("(pointer: coarse)").matches;
}

// True in narrow windows, whose layout is a single column with wide parts that scroll.
export function onPhone() {
  return window.innerWidth <= 640;
}

// True if the visitor prefers reduced motion.
export function calm() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

// Distance from the top of the page in px, independent of scrolling.
export function pageTop(element) {
  const scrolled = document.querySelector(MAIN)?.scrollTop ?? 0;
  return element.getBoundingClientRect().top + scrolled;
}

const FOOT = ".st-key-scene_foot";

// Height of the window in px, above the question of a lecture.
export function windowHeight() {
  return window.innerHeight - (document.querySelector(FOOT)?.offsetHeight ?? 0);
}

// Window height relative to 720 px, for which heights are designed; at least 1.
export function tallness() {
  return Math.max(1, windowHeight() / 720);
}

// Magnification of the page's type: 1, and more while presenting.
export function enlarged(element) {
  return Number(getComputedStyle(element).getPropertyValue("--hl-scale")) || 1;
}

// Height in px for a picture on a class's screen, with `foot` rem below it; 0 unless presenting. One that
// begins low is scrolled to, below its title.
export function classHeight(element, foot) {
  const [rem, top, height] = [16 * enlarged(element), pageTop(element), windowHeight()];
  return rem > 16 ? height - (top < 0.6 * height ? top : 4 * rem) - rem * foot : 0;
}

// Calls `draw` now and when the size of `root`, the window height, the theme, the pixel ratio or fonts
// change. Streamlit changes its CSS variables without calling the component; a probe's colour follows them
// in a short transition whose end is an event. Replaces an earlier watch. Returns a function that stops.
export function watch(root, draw) {
  root.unwatch?.();
  const probe = make("i", "probe");
  probe.style.cssText =
    "position:absolute;width:1px;height:1px;opacity:0.01;pointer-events:none;" +
    "background-color:var(--st-background-color);transition:background-color 30ms";
  root.append(probe);
  let drawn;
  const size = () => `${root.clientWidth} ${root.clientHeight} ${tallness()} ${classHeight(root, 0)}`;
  const redraw = () => {
    drawn = size(); // before drawing: a change by the drawing itself, like a scrollbar, draws again
    if (root.clientWidth) draw(); // else hidden
  };
  probe.ontransitionend = redraw;
  // The first report repeats the size, unless drawing changed it.
  const resized = () => drawn === size() || redraw();
  const observer = new ResizeObserver(resized);
  observer.observe(root);
  document.querySelectorAll(`${FOOT}, ${MAIN} > *`).forEach((each) => observer.observe(each)); // above and below
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
  if (document.fonts?.status === "loading") { // includes fonts that the drawing requested
    document.fonts.ready.then(() => probe.isConnected && redraw());
  }
  return () => root.unwatch();
}

// "light" or "dark", derived from the page background.
export function themeOf(root) {
  const probe = root.querySelector(".probe");
  const [r, g, b] = getComputedStyle(probe).backgroundColor.match(/[\d.]+/g).map(Number);
  return 0.299 * r + 0.587 * g + 0.114 * b < 128 ? "dark" : "light";
}

// Colours and font of the current theme.
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

// Records the focused button and the scroll positions of lists (a selector) in a view that will be rebuilt.
// Returns a function that restores them by position.
export function remember(root, lists) {
  const all = (selector) => [...root.querySelectorAll(selector)];
  const focused = all("button").indexOf(root.getRootNode().activeElement);
  const tops = all(lists).map((list) => list.scrollTop);
  return () => {
    all(lists).forEach((list, at) => (list.scrollTop = tops[at] ?? 0));
    all("button")[focused]?.focus({ preventScroll: true });
  };
}
