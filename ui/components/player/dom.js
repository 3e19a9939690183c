// DOM helpers: elements with attributes, tokens, icons, scrolling lists.

function el(tag, className = "", attributes = {}) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

/** A token as text, its word-start mark in a muted colour. */
function write(element, token) {
  element.replaceChildren();
  element.dir = "auto";
  if (token.startsWith("▁")) {
    const mark = el("span", "mark");
    mark.textContent = "▁";
    element.append(mark, token.slice(1));
  } else {
    element.textContent = token;
  }
}

/** A named row of tokens. Returns: its list. */
function lane(parent, name, role, label) {
  const row = el("div", "lane");
  const title = el("div", "lane-name");
  const what = el("span");
  what.textContent = name;
  const part = el("span", "faint");
  part.textContent = role;
  title.append(what, part);
  const list = el("ol", "tokens", { "aria-label": label });
  row.append(title, list);
  parent.append(row);
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

function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  for (const d of ICONS[name]) {
    const path = document.createElementNS(space, "path");
    path.setAttribute("d", d);
    svg.append(path);
  }
  return svg;
}

/** Scroll a list, never the page, until an item is visible. */
function reveal(list, item) {
  if (!item || list.scrollHeight <= list.clientHeight) return;
  const above = item.offsetTop - list.offsetTop;
  if (above < list.scrollTop || above + item.offsetHeight > list.scrollTop + list.clientHeight) {
    list.scrollTop = above - list.clientHeight / 2;
  }
}

function inView(list, item) {
  const outer = list.getBoundingClientRect();
  const inner = item.firstChild.getBoundingClientRect();
  return inner.bottom <= outer.bottom + 2 && inner.top >= outer.top - 2;
}

function percent(probability) {
  if (probability < 0.001) return "<0.1%";
  return `${(100 * probability).toFixed(probability >= 0.0995 ? 0 : 1)}%`;
}
