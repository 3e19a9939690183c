// DOM helpers: tokens, icons, scrolling lists.
import { make, shape } from "../shared/index.js";

/** A token as text, its word-start mark in a muted colour. */
export function write(element, token) {
  element.dir = "auto";
  const marked = token.startsWith("▁");
  element.replaceChildren(...(marked ? [make("span", "mark", "_"), token.slice(1)] : [token]));
}

/** A named row of tokens. Returns: its list. */
export function lane(parent, name, role, label) {
  const list = make("ol", "tokens", { "aria-label": label });
  const title = make("div", "lane-name", make("span", "", name), make("span", "faint", role));
  parent.append(make("div", "lane", title, list));
  return list;
}

const ICONS = {
  first: ["M6 5h2.5v14H6z", "M19 5v14L9.5 12z"],
  back: ["M16.5 5v14L7 12z"],
  play: ["M8 5v14l11-7z"],
  pause: ["M7 5h3.6v14H7z", "M13.4 5H17v14h-3.6z"],
  forward: ["M7.5 5v14L17 12z"],
  last: ["M5 5v14l9.5-7z", "M15.5 5H18v14h-2.5z"],
};

export function icon(name) {
  const paths = ICONS[name].map((d) => shape("path", { d }));
  return shape("svg", { viewBox: "0 0 24 24", "aria-hidden": true }, paths);
}

/** Scroll a list, never the page, until an item is visible. */
export function reveal(list, item) {
  if (!item || list.scrollHeight <= list.clientHeight) return;
  const above = item.offsetTop - list.offsetTop;
  if (above < list.scrollTop || above + item.offsetHeight > list.scrollTop + list.clientHeight) {
    list.scrollTop = above - list.clientHeight / 2;
  }
}

export function inView(list, item) {
  const outer = list.getBoundingClientRect();
  const inner = item.firstChild.getBoundingClientRect();
  return inner.bottom <= outer.bottom + 2 && inner.top >= outer.top - 2;
}
