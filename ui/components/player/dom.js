// Small pieces of document: elements, icons, canvases that are sharp on every screen.

function el(tag, className = "", attributes = {}) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

/** A token as text; the mark of a word's start is there but quiet. */
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

/** A canvas of this size in CSS pixels, emptied. Returns: its context, scaled to them. */
function sized(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const w = Math.max(1, Math.round(width * ratio));
  const h = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== w) canvas.width = w;
  if (canvas.height !== h) canvas.height = h;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const ctx = canvas.getContext("2d");
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.clearRect(0, 0, width, height);
  return ctx;
}

/** Scroll a list, and never the page, until one of its items can be seen. */
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

/** RGB bytes of any CSS colour. */
function rgb(colour) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const ctx = canvas.getContext("2d");
  ctx.fillStyle = colour.trim() || "#ffffff";
  ctx.fillRect(0, 0, 1, 1);
  return [...ctx.getImageData(0, 0, 1, 1).data.slice(0, 3)];
}

/** Black or white, whichever reads better on a colour. */
function inkOn(colour) {
  const light = luminance(colour);
  return (light + 0.05) / 0.05 > 1.05 / (light + 0.05) ? "#14121c" : "#ffffff";
}

function percent(probability) {
  if (probability < 0.001) return "<0.1%";
  return `${(100 * probability).toFixed(probability >= 0.0995 ? 0 : 1)}%`;
}

/** Two decimals, with a minus sign where there is something to subtract. */
function signed(number) {
  return number.toFixed(2).replace("-0.00", "0.00").replace("-", "−");
}
