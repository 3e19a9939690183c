// The grid of all layers and heads of one kind of attention: a small map each, click to choose.
//
// Input: one message of ui/components/packing.py, deflated. The header names the maps and the
// colours, the body holds them as bytes, 255 = weight 1, in the order of `fold` in __init__.py. Text
// only ever becomes textContent. A choice goes back to Python as [row, column, marks], 0-based (see
// held.py): marks are the heads marked with Shift, as [layer, head], and left out offline.
//
// With a limit above 0 the bytes are differences, 0 to 255 for -limit to limit, and `said` holds the
// sentence about each cell.
//
// Each map is drawn at device pixels: larger ones shrink by taking the largest weight of every
// block, so that a single bright cell never disappears; smaller ones grow without blur.

export default function (component) {
  const { data, parentElement } = component;
  const root = parentElement.querySelector(".grid");
  if (!root || !data?.byteLength) return undefined;
  const turn = (root.turn = (root.turn ?? 0) + 1);
  unpackDeflated(data).then(({ header, body }) => {
    if (root.turn === turn) mount(root, component, header, unfold(header, body));
  });
  return () => {
    root.turn += 1;
    root.unwatch?.();
  };
}

function mount(root, component, header, body) {
  root.unwatch?.();
  const talk = agree(component, header);
  const focused = root.getRootNode().activeElement?.dataset?.at; // building anew would lose it
  const cells = build(root, header, talk.held);
  root.querySelector(`[data-at="${focused}"]`)?.focus();

  const show = () => {
    const chosen = selected(talk.held);
    cells.forEach((line, row) =>
      line.forEach(({ button }, column) =>
        button.setAttribute("aria-selected", String(chosen(row, column))),
      ),
    );
  };
  const choose = (row, column) => {
    talk.tell(header.markable ? [row, column, []] : [row, column]);
    show();
  };
  const mark = (row, column) => {
    talk.tell([...talk.held.slice(0, 2), toggled(talk.held, row, column, cells)]);
    show();
    say(row, column);
  };

  const note = root.querySelector(".note");
  const say = (row, column) => {
    note.textContent = plain(summary(header, row, column));
  };
  const sayChosen = () => {
    const marks = talk.held[2] ?? [];
    if (!marks.length) return say(talk.held[0], talk.held[1]);
    const heads = marks.length === 1 ? "1 head is" : `${marks.length} heads are`;
    note.textContent =
      `${heads} marked and combined. Shift and click adds one or takes it away; on a mean, all of ` +
      "its heads. A click alone reads one map again.";
    return undefined;
  };
  sayChosen();

  const focus = (row, column) => {
    for (const cell of cells.flat()) cell.button.tabIndex = -1;
    cells[row][column].button.tabIndex = 0;
    cells[row][column].button.focus();
  };
  const moves = {
    ArrowLeft: (r, c) => [r, c - 1],
    ArrowRight: (r, c) => [r, c + 1],
    ArrowUp: (r, c) => [r - 1, c],
    ArrowDown: (r, c) => [r + 1, c],
    Home: (r) => [r, 0],
    End: (r) => [r, cells[r].length - 1],
  };
  cells.forEach((line, row) =>
    line.forEach(({ button }, column) => {
      button.onclick = (event) => {
        focus(row, column);
        if (event.shiftKey && header.markable) mark(row, column);
        else choose(row, column);
      };
      button.onpointerenter = button.onfocus = () => say(row, column);
      button.onpointerleave = button.onblur = sayChosen;
      button.onkeydown = (event) => {
        if (event.shiftKey && header.markable && (event.key === "Enter" || event.key === " ")) {
          event.preventDefault(); // also the click that would follow
          mark(row, column);
          return;
        }
        const move = moves[event.key];
        if (!move || event.shiftKey || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        const [r, c] = move(row, column);
        if (cells[r] && cells[r][c]) focus(r, c);
      };
    }),
  );

  watch(root, () => drawAll(root, header, body, cells));
}

// The maps [row][column][query][key]: single heads travel as they are; the last column and row as
// the difference to what the single ones combine to.
function unfold(header, body) {
  const { queries, keys, row_names: rows, column_names: columns } = header;
  const [size, layers, heads] = [queries * keys, rows.length - 1, columns.length - 1];
  const maps = new Uint8Array(rows.length * columns.length * size);
  const place = (row, column) => maps.subarray((row * columns.length + column) * size).subarray(0, size);
  const byLayer = Array.from({ length: layers }, () => new Uint32Array(size));
  const byHead = Array.from({ length: heads }, () => new Uint32Array(size));
  const all = new Uint32Array(size);
  const max = header.how === "max";
  const join = (sums, one) => {
    if (max) for (let i = 0; i < size; i++) sums[i] = Math.max(sums[i], one[i]);
    else for (let i = 0; i < size; i++) sums[i] += one[i];
  };
  let from = 0;
  const next = () => body.subarray(from, (from += size));
  for (let layer = 0; layer < layers; layer++) {
    for (let head = 0; head < heads; head++) {
      const map = next();
      place(layer, head).set(map);
      join(byLayer[layer], map);
      join(byHead[head], map);
    }
    join(all, byLayer[layer]);
  }
  const finish = (target, sums, count) => {
    const differs = next();
    const n = max ? 1 : count;
    for (let i = 0; i < size; i++) {
      target[i] = differs[i] + Math.floor((2 * sums[i] + n) / (2 * n));
    }
  };
  byLayer.forEach((sums, layer) => finish(place(layer, heads), sums, heads));
  finish(place(layers, heads), all, layers * heads);
  byHead.forEach((sums, head) => finish(place(layers, head), sums, layers));
  return maps;
}

// Whether a cell is outlined: the marked heads, or the one cell where none is marked.
function selected([row, column, marks]) {
  if (!marks?.length) return (r, c) => r === row && c === column;
  const held = new Set(marks.map(String));
  return (r, c) => held.has(`${r},${c}`);
}

// The marks after a cell was pressed with Shift. The one head shown before is marked with it; a cell
// of combined maps stands for all of its heads, which go once all of them are marked.
function toggled([row, column, marks], r, c, cells) {
  const [layers, heads] = [cells.length - 1, cells[0].length - 1];
  const first = !marks.length && row < layers && column < heads ? [[row, column]] : marks;
  const wanted = [];
  for (let i = 0; i < layers; i++) {
    for (let j = 0; j < heads; j++) {
      if ((r === layers || r === i) && (c === heads || c === j)) wanted.push([i, j]);
    }
  }
  const has = (list, each) => list.some(([i, j]) => i === each[0] && j === each[1]);
  if (wanted.every((each) => has(marks, each))) return first.filter((each) => !has(wanted, each));
  return [...first, ...wanted.filter((each) => !has(first, each))];
}

// Builds the table of buttons afresh; returns [row][column] -> {button, canvas}.
function build(root, header, chosen) {
  const { row_names: rows, column_names: columns } = header;
  root.style.setProperty("--columns", columns.length);
  root.style.setProperty("--cell-width", `${header.cell_width}px`);
  const table = make("div", "table");
  table.setAttribute("role", "grid");
  table.setAttribute("aria-label", header.label);
  if (header.markable) table.setAttribute("aria-multiselectable", "true");
  const head = make("div", "line");
  head.setAttribute("role", "row");
  head.append(make("span", "corner"));
  columns.forEach((name, i) => {
    const short = i === columns.length - 1 ? name : String(i + 1);
    head.append(heading("columnheader", name, short, i === columns.length - 1));
  });
  table.append(head);
  const outlined = selected(chosen);
  const cells = rows.map((name, row) => {
    const line = make("div", "line");
    line.setAttribute("role", "row");
    line.append(heading("rowheader", name, name, row === rows.length - 1));
    table.append(line);
    return columns.map((_, column) => {
      const button = make("button", "map");
      button.type = "button";
      button.tabIndex = chosen[0] === row && chosen[1] === column ? 0 : -1;
      button.dataset.at = `${row} ${column}`;
      button.setAttribute("role", "gridcell");
      button.setAttribute("aria-selected", String(outlined(row, column)));
      button.setAttribute("aria-label", summary(header, row, column));
      const canvas = document.createElement("canvas");
      canvas.setAttribute("aria-hidden", "true");
      button.append(canvas);
      if (row === rows.length - 1) button.classList.add("mean-row");
      if (column === columns.length - 1) button.classList.add("mean-column");
      line.append(button);
      return { button, canvas };
    });
  });
  const scale = make("div", "scale");
  scale.setAttribute("aria-hidden", "true");
  const [low, high] = header.limit ? ends(header) : ["0", "1"];
  scale.append(make("span", "", low), document.createElement("canvas"), make("span", "", high));
  if (!header.limit) scale.append(make("span", "unit", "attention weight"));
  root.replaceChildren(table, make("p", "note", ""), scale);
  return cells;
}

// What the ends of the scale of a difference are called.
function ends({ ends: [low, high], limit }) {
  return [`${low} \u2212${limit}`, `+${limit} ${high}`];
}

// One sentence about a cell: what it is and what stands out in it.
function summary(header, row, column) {
  if (header.said) return header.said[row][column];
  const [query, key, weight, spread, hidden] = header.notes[row][column];
  const from = `query ${query + 1} ${header.query_tokens[query]}`;
  const to = `key ${key + 1} ${header.key_tokens[key]}`;
  const rest = spread ? `; rows spread over ${spread.toFixed(1)} keys on average` : "";
  const dimmed = header.dimmed.length ? `; ${Math.round(100 * hidden)}% of it dimmed` : "";
  const name = header.names[row][column];
  return `${name}: the largest weight is ${weight.toFixed(2)}, from ${from} to ${to}${rest}${dimmed}.`;
}

function heading(role, name, short, isMean) {
  const element = make("span", isMean ? "heading mean" : "heading");
  element.setAttribute("role", role);
  element.setAttribute("aria-label", name);
  element.append(make("span", "long", name), make("span", "short", short));
  return element;
}

function drawAll(root, header, body, cells) {
  const width = cells[0][0].button.clientWidth;
  if (!width) return; // hidden
  const { queries, keys } = header;
  // Rows stay rows: a map is as tall as its queries, within limits that keep it readable.
  const height = Math.round(width * Math.min(1.25, Math.max(0.45, queries / keys)));
  root.style.setProperty("--map-height", `${height}px`);
  root.classList.toggle("narrow", width < 48);
  const colours = palette(root, header);
  const ratio = window.devicePixelRatio || 1;
  const w = Math.min(keys, Math.max(1, Math.round(width * ratio)));
  const h = Math.min(queries, Math.max(1, Math.round(height * ratio)));
  const image = new ImageData(w, h);
  const pixels = new Uint32Array(image.data.buffer);
  const size = queries * keys;
  const middle = header.limit ? 128 : 0; // the byte of no weight, or of no difference
  const rank = Uint8Array.from({ length: 256 }, (_, value) => Math.abs(value - middle));
  cells.forEach((line, row) =>
    line.forEach(({ canvas }, column) => {
      const at = (row * line.length + column) * size;
      shrink(body.subarray(at, at + size), header, w, h, rank, colours, pixels);
      canvas.width = w;
      canvas.height = h;
      canvas.getContext("2d").putImageData(image, 0, 0);
    }),
  );
  drawScale(root.querySelector(".scale canvas"), colours);
}

// Writes h x w pixels, each the colour of the byte in its block that ranks highest: the largest
// weight, or the largest difference of either sign. Covered columns go last.
function shrink(map, { queries, keys, dimmed }, w, h, rank, colours, pixels) {
  const covered = new Uint8Array(keys);
  for (const column of dimmed) covered[column] = 1;
  for (let y = 0; y < h; y++) {
    const top = Math.floor((y * queries) / h);
    const bottom = Math.floor(((y + 1) * queries) / h);
    for (let x = 0; x < w; x++) {
      const left = Math.floor((x * keys) / w);
      const right = Math.floor(((x + 1) * keys) / w);
      let best = -1;
      for (let i = top; i < bottom; i++) {
        for (let j = left; j < right; j++) {
          const value = map[i * keys + j];
          if (!covered[j] && (best < 0 || rank[value] > rank[best])) best = value;
        }
      }
      pixels[y * w + x] = best < 0 ? colours.cover : colours.table[best];
    }
  }
}

// The 256 colours of the theme now shown, as little-endian RGBA words.
function palette(root, header) {
  const theme = themeOf(root);
  const words = (text) =>
    Uint32Array.from({ length: text.length / 6 }, (_, i) => {
      const rgb = parseInt(text.slice(6 * i, 6 * i + 6), 16);
      return (0xff000000 | ((rgb & 255) << 16) | (rgb & 0xff00) | (rgb >> 16)) >>> 0;
    });
  return { table: words(header.colours[theme]), cover: words(header.cover[theme])[0] };
}

function drawScale(canvas, colours) {
  canvas.width = 256;
  canvas.height = 1;
  const image = new ImageData(256, 1);
  new Uint32Array(image.data.buffer).set(colours.table);
  canvas.getContext("2d").putImageData(image, 0, 0);
}
