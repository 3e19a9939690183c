// Attention as lines between tokens, one colour per head. The choice is {heads, pin}.
//
// The canvas covers only the visible tokens and stays in place while they scroll.
import { classHeight, fitRows, inkOn, isOffline, make, percent, plain, press, range, remember, rolesOf, rove, rowsInWords, setBox, sharp, shown, spokenList,
  syncChoice, themeOf, touching, watch, widestRow, widthsIn, windowHeight, writeRow } from "../shared/index.js";

const MOST_DRAWN = 30000; // lines at a time, the strongest first
const CLEAR = 3; // heads whose lines are told apart with those of all queries
const LEVELS = 6; // of opacity: lines of one head and level are one path

function component(given, host) {
  const { root } = given;
  const lines = read(given);
  const choice = syncChoice(host, lines);
  const restore = remember(root, ".scroll, .chips");
  const parts = build(root, lines);
  const view = { row: 24, hover: null, focus: null, head: null, waiting: false };

  const chosen = () => view.hover ?? view.focus ?? choice.value.pin;
  // Lines of many heads overlap: one query's lines stand out until the visitor shows all.
  const leads = () => !chosen() && !root.whole && choice.value.heads.length > CLEAR && view.head === null;
  const active = () => chosen() ?? (leads() ? ["query", lines.lead] : null);
  const shownHeads = () => {
    const on = new Set(choice.value.heads.map(String));
    const all = lines.drawn.map((_, i) => i).filter((i) => on.has(String(lines.drawn[i])));
    return view.head === null || !all.includes(view.head) ? all : [view.head];
  };
  const draw = () => {
    view.waiting = false;
    const heads = shownHeads();
    paint(root, lines, parts, view, heads, active(), leads());
    root.dataset.lines = linesOf(lines, heads, active()).length; // in and out of the window
    describe(lines, parts, heads, active(), choice.value);
    speak(lines, parts, heads);
    parts.names.textContent = named(heads.map((at) => lines.drawn[at]), lines.out);
    parts.whole.hidden = Boolean(choice.value.pin) || choice.value.heads.length <= CLEAR;
    parts.whole.textContent = root.whole
      ? "Show one query"
      : `Show the lines of all queries (${linesOf(lines, heads, null).length})`;
  };
  const soon = () => {
    if (!view.waiting) requestAnimationFrame(draw);
    view.waiting = true;
  };
  const look = (name, value) => {
    view[name] = value;
    soon();
  };
  const pin = (at) => {
    const same = String(choice.value.pin) === String(at);
    choice.set({ ...choice.value, pin: same ? null : at });
    soon();
  };
  for (const [side, tokens] of Object.entries(parts.tokens)) {
    rove(tokens);
    tokens.forEach((token, at) => {
      token.onpointerenter = () => look("hover", [side, at]);
      token.onpointerleave = () => look("hover", null);
      token.onfocus = () => look("focus", token.matches(":focus-visible") ? [side, at] : null);
      token.onblur = () => look("focus", null);
      token.onclick = () => pin([side, at]);
      token.onkeydown = (event) => {
        if (event.key !== "Escape" || !choice.value.pin) return;
        event.preventDefault();
        pin(choice.value.pin);
      };
    });
  }
  parts.scroll.onscroll = soon;
  parts.whole.onclick = () => {
    root.whole = !root.whole;
    soon();
  };
  const recolour = buildLegend(root, lines, parts.legend, choice, look, soon);
  const stop = watch(root, () => {
    layOut(root, lines, parts, view);
    recolour();
    draw();
  });
  restore();
  return stop;
}

function read({ header, body }) {
  const words = new Uint32Array(body.slice().buffer);
  const [n, k] = [header.query_tokens.length, header.drawn.length];
  // starts[head * n + query] is the first line of that head and query.
  const starts = new Uint32Array(n * k + 1);
  for (let i = 0; i < n * k; i++) starts[i + 1] = starts[i] + words[i];
  const one = header.layers * header.heads === 1; // a single map has no switches
  return { ...header, one, out: new Set((header.out ?? []).map(String)), n, m: header.key_tokens.length, starts, packed: words.subarray(n * k) };
}

// Names heads as [layer, head] from 0, for the title.
function named(heads, out) {
  const removed = (head) => out.has(String(head)) ? " (removed)" : "";
  if (heads.length === 1) return `layer ${heads[0][0] + 1}, head ${heads[0][1] + 1}${removed(heads[0])}`;
  return heads.length > CLEAR || !heads.length ? `${heads.length} heads` : `heads ${heads.map((head) => `${head[0] + 1}.${head[1] + 1}${removed(head)}`).join(", ")}`;
}

function build(root, lines) {
  const tokens = (side) => lines[`${side}_tokens`].map((text) => {
    const element = make("button", `token ${side}`);
    writeRow(element, text);
    return element;
  });
  const parts = {
    tokens: { query: tokens("query"), key: tokens("key") },
    canvas: make("canvas", "strokes", { "aria-hidden": true }),
    readout: make("p", "readout", { role: "status" }),
    whole: make("button", "whole"),
    names: make("span", "names"),
    spoken: spokenList("Lines, mean over the heads shown"),
    legend: make("div", "legend", { role: "group", "aria-label": "Heads shown" }),
  };
  for (const at of lines.dimmed) parts.tokens.key[at].classList.add("dimmed");
  parts.sheet = make("div", "sheet", { role: "group", "aria-label": lines.label },
    parts.canvas, Object.values(parts.tokens));
  parts.scroll = make("div", "scroll", parts.sheet);
  const titles = [make("span", "query"), parts.names, make("span", "", lines.key_title)];
  writeRow(titles[0], lines.query_title);
  const drawing = make("div", "drawing",
    make("div", "titles", titles), parts.scroll, parts.whole, parts.readout, parts.spoken.element);
  root.replaceChildren(drawing, ...(lines.one ? [] : [parts.legend]));
  return parts;
}

function layOut(root, lines, parts, view) {
  const width = parts.scroll.clientWidth;
  const style = getComputedStyle(root);
  const size = parseFloat(style.fontSize);
  const wide = widthsIn(`${size}px ${style.fontFamily}`);
  const limit = width * 0.36;
  const right = Math.min(limit, widestRow(lines.key_tokens, wide) + size * 1.2);
  const left = fitRows(parts.sheet, lines.query_tokens, wide, limit - size * 1.2) + size * 1.2;
  const rows = Math.max(lines.n, lines.m);
  const most = classHeight(parts.scroll, 3.6) || lines.max_height + Math.max(0, windowHeight() - 720); // designed for 720 px
  view.row = Math.round(Math.min(size * 2.8, Math.max(size * 1.5, most / rows)));
  [view.left, view.right] = [left, width - right];
  view.height = rows * view.row <= 1.15 * most ? rows * view.row : most; // no scrolling for a row
  parts.scroll.style.height = `${view.height}px`;
  parts.sheet.style.height = `${rows * view.row}px`;
  parts.canvas.style.height = `${view.height}px`;
  parts.canvas.style.marginBottom = `${-view.height}px`;
  parts.tokens.query.forEach((token, at) => setBox(token, 0, at * view.row, left, view.row));
  parts.tokens.key.forEach((token, at) => setBox(token, width - right, at * view.row, right, view.row));
}

// Lines in sight as [head, query, key, weight].
function visible(lines, view, heads, active, top) {
  const out = [];
  const { n, starts, packed } = lines;
  const [first, last] = [top / view.row - 1, (top + view.height) / view.row];
  for (const head of heads) {
    for (let query = 0; query < n; query++) {
      if (active && active[0] === "query" && active[1] !== query) continue;
      for (let i = starts[head * n + query]; i < starts[head * n + query + 1]; i++) {
        const key = packed[i] >>> 16;
        if (active && active[0] === "key" && active[1] !== key) continue;
        if ((query < first && key < first) || (query > last && key > last)) continue;
        out.push([head, query, key, (packed[i] & 65535) / 65535]);
      }
    }
  }
  return out;
}

function paint(root, lines, parts, view, heads, active, muted) {
  const { canvas } = parts;
  const width = parts.scroll.clientWidth;
  if (!width) return;
  const colours = lines.colours[themeOf(root)];
  rolesOf(root, lines);
  const pen = sharp(canvas, width, view.height);
  const top = parts.scroll.scrollTop;
  let strokes = visible(lines, view, heads, active, top);
  parts.left_out = Math.max(0, strokes.length - MOST_DRAWN);
  if (parts.left_out) strokes = strokes.sort((a, b) => b[3] - a[3]).slice(0, MOST_DRAWN);
  const [x1, x2] = [view.left, view.right];
  const apart = heads.length > 1 ? Math.min(2.4, (view.row - 8) / heads.length) : 0;
  if (muted) { // the lines of the other queries, in grey
    const others = new Path2D();
    const all = visible(lines, view, heads, null, top).slice(0, MOST_DRAWN);
    for (const [, query, key] of all) {
      curve(others, x1, (query + 0.5) * view.row - top, x2, (key + 0.5) * view.row - top);
    }
    pen.globalAlpha = Math.min(0.08, Math.max(0.02, 10 / all.length));
    pen.strokeStyle = getComputedStyle(root).color;
    pen.stroke(others);
  }
  const paths = new Map();
  for (const [head, query, key, weight] of strokes) {
    const level = Math.min(LEVELS - 1, Math.floor(Math.sqrt(weight) * LEVELS));
    const name = level * lines.drawn.length + head;
    if (!paths.has(name)) paths.set(name, new Path2D());
    const shift = (heads.indexOf(head) - (heads.length - 1) / 2) * apart - top + view.row / 2;
    const [y1, y2] = [query * view.row + shift, key * view.row + shift];
    curve(paths.get(name), x1, y1, x2, y2);
  }
  pen.lineCap = "round";
  for (const [name, path] of [...paths].sort((a, b) => a[0] - b[0])) {
    const strength = (Math.floor(name / lines.drawn.length) + 1) / LEVELS;
    pen.globalAlpha = active ? 0.3 + 0.7 * strength : 0.12 + 0.78 * strength;
    pen.lineWidth = 0.8 + 2.6 * strength;
    pen.strokeStyle = colours[name % lines.drawn.length];
    pen.setLineDash(lines.out.has(String(lines.drawn[name % lines.drawn.length])) ? [2, 7] : []);
    pen.stroke(path);
  }
  shade(lines, parts, heads, active);
}

function curve(path, x1, y1, x2, y2) {
  const bend = (x2 - x1) * 0.42;
  path.moveTo(x1, y1);
  path.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
}

// Shades the tokens at the other end by their mean weight over the heads on screen.
function shade(lines, parts, heads, active) {
  const onto = new Map();
  if (active) {
    for (const [, query, key, weight] of linesOf(lines, heads, active)) {
      const at = active[0] === "query" ? key : query;
      onto.set(at, (onto.get(at) ?? 0) + weight / heads.length);
    }
  }
  for (const [side, tokens] of Object.entries(parts.tokens)) {
    tokens.forEach((token, at) => {
      const other = active && active[0] !== side;
      token.classList.toggle("active", Boolean(active) && !other && active[1] === at);
      token.classList.toggle("aside", Boolean(active) && (other ? !onto.has(at) : active[1] !== at));
      token.classList.toggle(
        "masked", Boolean(other) && lines.causal && (side === "key" ? at > active[1] : at < active[1]),
      );
      const share = other ? Math.round(100 * Math.min(1, onto.get(at) ?? 0)) : 0;
      token.style.setProperty("--share", `${share}%`);
    });
  }
}

function linesOf(lines, heads, active) {
  return visible(lines, { row: 1, height: Infinity }, heads, active, -1);
}

// Writes the lines of the heads on screen in words, query by query.
function speak(lines, parts, heads) {
  if (parts.told === String(heads)) return;
  parts.told = String(heads);
  const mean = new Float32Array(lines.n * lines.m);
  for (const [, query, key, weight] of linesOf(lines, heads, null)) mean[query * lines.m + key] += weight / heads.length;
  parts.spoken.write(rowsInWords(lines.query_tokens, lines.key_tokens, (query, key) => mean[query * lines.m + key] || null));
}

// Describes the hovered or pinned token.
function describe(lines, parts, heads, active, { pin }) {
  for (const [side, tokens] of Object.entries(parts.tokens)) {
    press(tokens, (at) => String(pin) === `${side},${at}`);
  }
  if (!active) {
    const left = parts.left_out
      ? ` The strongest ${MOST_DRAWN} lines are drawn, ${parts.left_out} weaker ones appear with their token.`
      : "";
    const how = touching()
      ? "Tap a token to see its lines alone."
      : "Point at a token to see its lines alone; click to keep them.";
    parts.readout.textContent = `${how}${left}`;
    return;
  }
  const [side, at] = active;
  const names = { query: lines.query_tokens, key: lines.key_tokens };
  const other = side === "query" ? "key" : "query";
  const all = linesOf(lines, heads, active);
  const perHead = heads.slice(0, 8).map((head) => {
    const own = all.filter((line) => line[0] === head).sort((a, b) => b[3] - a[3]);
    const best = own.slice(0, heads.length > 1 ? 2 : 5).map(([, query, key, weight]) => {
      const to = other === "key" ? key : query;
      return `“${names[other][to]}” ${percent(weight)}`;
    });
    const [layer, number] = lines.drawn[head];
    const whose = heads.length > 1 && !lines.one ? ` (layer ${layer + 1}, head ${number + 1})` : "";
    return best.length ? `${best.join(", ")}${whose}` : "";
  });
  const rest = perHead.filter(Boolean).join(" · ") || "nothing: no line is kept";
  const [reader, predicted] = names[side][at].split(" → ");
  const aim = side === "query" && predicted ? `To predict “${predicted}”, ` : "";
  parts.readout.textContent = plain(`${aim}“${reader}” ${side === "query" ? "reads" : "is read by"} ${rest}`);
}

// Builds a switch for every head (offline: for the heads that were sent), one row per layer. Returns a
// function that colours the switches for the current theme.
function buildLegend(root, lines, legend, choice, look, soon) {
  const drawn = new Map(lines.drawn.map((head, i) => [String(head), i]));
  const chips = [];
  const set = (heads) => {
    choice.set({ ...choice.value, heads });
    refresh();
    soon();
  };
  const refresh = () => {
    const on = new Set(choice.value.heads.map(String));
    const colours = root.querySelector(".probe") ? lines.colours[themeOf(root)] : [];
    for (const { button, head } of chips) {
      const lit = on.has(String(head));
      const colour = (lit && colours[drawn.get(String(head))]) || "";
      button.setAttribute("aria-pressed", lit);
      Object.assign(button.style, lines.out.has(String(head))
        ? { border: colour && `2px dashed ${colour}`, textDecoration: "line-through" }
        : { background: colour, color: colour && inkOn(colour) });
    }
  };
  const chip = (head) => {
    const key = String(head);
    const button = make("button", "chip", String(head[1] + 1), {
      "aria-label": `Layer ${head[0] + 1}, head ${head[1] + 1}`,
      onclick() {
        const others = choice.value.heads.filter((other) => String(other) !== key);
        set(others.length < choice.value.heads.length ? others : others.concat([head]));
      },
      onpointerenter: () => look("head", drawn.get(key) ?? null),
      onpointerleave: () => look("head", null),
    });
    chips.push({ button, head });
    return button;
  };
  const rows = range(lines.layers).map((layer) => {
    const heads = range(lines.heads).map((head) => [layer, head])
      .filter((head) => !isOffline(lines) || drawn.has(String(head)));
    if (!heads.length) return [];
    const toggleLayer = () => {
      const on = new Set(choice.value.heads.map(String));
      const others = choice.value.heads.filter((head) => head[0] !== layer);
      set(heads.every((head) => on.has(String(head))) ? others : others.concat(heads));
    };
    const about = { title: "All heads of this layer, or none", onclick: toggleLayer };
    return make("div", "chip-row", make("button", "layer", `Layer ${layer + 1}`, about), heads.map(chip));
  });
  const all = (name, heads) =>
    make("button", "chip all", name, { "aria-label": `${name} heads`, onclick: () => set(heads) });
  const foot = make("div", "chip-row", all("All", chips.map(({ head }) => head)), all("Clear", []),
    make("span", "limit", "Above 16 heads, colours look alike"));
  legend.append(make("div", "legend-title", "Heads"), make("div", "chips", ...rows), foot);
  return refresh;
}

export default (host) => shown(host, "lines", component);
