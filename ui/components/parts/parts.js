// A matrix as a sum of others: the parts as small maps, their sum as a large one with labels.
//
// Input: one message of ui/components/packing.py: names, tokens and colours in the header, then the
// maps as float32 [map][query][key] and the mask as bytes [query][key]. Token text only ever
// becomes textContent or is drawn on a canvas. Nothing is sent back to Python.

const LARGEST_SUM_CELL = 34; // px
const LONGEST_TOKEN = 96; // px
const LONGEST_ROW = 170; // px

export default function (component) {
  const { data, parentElement } = component;
  const root = parentElement.querySelector(".parts");
  if (!root || !data?.byteLength) return undefined;
  root.unwatch?.();
  const view = read(data);
  const maps = build(root, view);
  const draw = () => {
    if (!root.clientWidth) return;
    view.look = look(root, view.header);
    const sizes = layOut(root, view);
    maps.forEach((map, i) => paint(view, map, i, sizes));
    point();
  };
  const point = () => {
    for (const map of maps) mark(view, map);
    root.querySelector(".readout").textContent = plain(said(view));
  };
  const n = view.header.tokens.length;
  maps.forEach((map) => {
    map.canvas.onpointermove = map.canvas.onpointerdown = (event) => {
      const box = map.canvas.getBoundingClientRect();
      const column = Math.floor((event.clientX - box.left - map.left) / map.cell);
      const line = Math.floor((event.clientY - box.top - map.top) / map.cell);
      const inside = Math.min(line, column) >= 0 && Math.max(line, column) < n;
      view.at = inside ? [line, column] : null;
      point();
    };
    map.canvas.onpointerleave = () => {
      view.at = null;
      point();
    };
  });
  root.onkeydown = (event) => {
    const next = stepped(event, view.at ?? [0, 0], n, n);
    if (!next) return;
    event.preventDefault();
    view.at = view.at ? next : [0, 0];
    point();
  };
  root.onblur = () => {
    view.at = null;
    point();
  };
  return watch(root, draw);
}

function read(data) {
  const { header, body } = unpack(data);
  const n = header.tokens.length;
  const size = n * n;
  const numbers = new Float32Array(body.slice(0, 4 * size * header.names.length).buffer);
  const maps = header.names.map((_, i) => numbers.subarray(i * size, (i + 1) * size));
  return { header, maps, mask: body.subarray(4 * numbers.length), at: null };
}

function build(root, view) {
  const { header } = view;
  const small = make("div", "small");
  const large = make("div", "large");
  const maps = header.names.map((name, i) => {
    const isSum = i === header.names.length - 1;
    const figure = make("figure", isSum ? "map sum" : "map");
    const title = make("figcaption", "", `${isSum ? "= " : i ? "+ " : ""}${name}`);
    const frame = make("div", "frame");
    const canvas = make("canvas", "");
    const cursor = make("div", "cursor");
    canvas.setAttribute("aria-hidden", "true");
    cursor.hidden = true;
    frame.append(canvas, cursor);
    figure.append(title, frame);
    (isSum ? large : small).append(figure);
    return { canvas, cursor, isSum };
  });
  const readout = make("p", "readout");
  readout.setAttribute("role", "status");
  root.tabIndex = 0;
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", header.label);
  const both = make("div", "both");
  both.append(small, large);
  root.replaceChildren(both, readout);
  return maps;
}

function look(root, header) {
  const style = getComputedStyle(root);
  const table = header.signed[themeOf(root)];
  const words = wordsOf(table);
  return {
    ink: style.color,
    font: style.fontFamily,
    size: parseFloat(style.fontSize),
    colour: (value) => colourOf(table, signedLevel(value, header.limit)),
    word: (value) => words[signedLevel(value, header.limit)],
  };
}

// Cells of the small maps and of the sum, and the room for the sum's labels, in px.
function layOut(root, view) {
  const { tokens } = view.header;
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `${view.look.size}px ${view.look.font}`;
  const widest = Math.max(...tokens.map((token) => pen.measureText(plain(token)).width));
  const label = Math.min(LONGEST_TOKEN, widest) + 8;
  const columns = rowColumns(view.header.rows, (text) => pen.measureText(text).width, LONGEST_ROW);
  const width = root.clientWidth;
  const narrow = width < 640;
  const smallSide = narrow ? (width - 24) / 2 : Math.min(200, width * 0.24);
  const gaps = 4 * view.look.size + 4;
  const largeSide = (narrow ? width : width - 2 * smallSide - gaps) - columns.width - 8 - 0.5 * label;
  const whole = (side, most) => {
    const cell = Math.min(most, Math.max(24, side) / tokens.length);
    return cell > 6 ? Math.floor(cell) : cell;
  };
  return { small: whole(smallSide, 24), large: whole(largeSide, LARGEST_SUM_CELL), label, columns };
}

function paint(view, map, index, sizes) {
  const { header, look: colours } = view;
  const n = header.tokens.length;
  map.cell = map.isSum ? sizes.large : sizes.small;
  map.left = map.isSum ? sizes.columns.width + 8 : 1;
  map.top = map.isSum ? sizes.label * 0.87 + colours.size * 0.5 : 1;
  const side = map.cell * n;
  const lean = map.isSum ? sizes.label * 0.5 : 0; // the last column's label leans out
  const [width, height] = [map.left + side + 2 + lean, map.top + side + 2];
  const pen = sharp(map.canvas, width, height);
  const values = view.maps[index];
  if (map.cell < 12) {
    pen.imageSmoothingEnabled = false;
    const wordAt = (cell) => (view.mask[cell] ? colours.word(values[cell]) : 0); // masked: nothing
    pen.drawImage(setPixels(make("canvas", ""), n, n, wordAt), map.left, map.top, side, side);
  }
  for (let i = 0; i < n && map.cell >= 6; i++) {
    for (let j = 0; j < n; j++) {
      const [x, y] = [map.left + j * map.cell, map.top + i * map.cell];
      if (!view.mask[i * n + j]) {
        drawDot(pen, x + map.cell / 2, y + map.cell / 2, 1.2, colours.ink);
      } else if (map.cell >= 12) {
        pen.fillStyle = colours.colour(values[i * n + j]);
        pen.fillRect(x, y, map.cell - 1, map.cell - 1);
      }
    }
  }
  pen.globalAlpha = 0.2;
  pen.strokeStyle = colours.ink;
  pen.strokeRect(map.left - 0.5, map.top - 0.5, side + 1, side + 1);
  pen.globalAlpha = 1;
  if (map.isSum) labels(pen, view, map, sizes.columns);
}

function labels(pen, view, map, columns) {
  const { tokens, rows } = view.header;
  const size = Math.min(view.look.size, Math.max(10, map.cell * 0.9));
  pen.font = `${size}px ${view.look.font}`;
  pen.fillStyle = view.look.ink;
  pen.textBaseline = "middle";
  const every = Math.ceil((size * 1.05) / map.cell);
  tokens.forEach((token, i) => {
    if (i % every) return;
    const text = fitted(pen, plain(token), LONGEST_TOKEN);
    drawRow(pen, rows[i], columns, map.left - 6, map.top + (i + 0.5) * map.cell);
    pen.save();
    pen.translate(map.left + (i + 0.5) * map.cell, map.top - 5);
    pen.rotate(-Math.PI / 3);
    pen.textAlign = "left";
    pen.fillText(text, 0, 0);
    pen.restore();
  });
}

function mark(view, map) {
  map.cursor.hidden = !view.at;
  if (!view.at) return;
  const [line, column] = view.at;
  setBox(map.cursor, map.left + column * map.cell, map.top + line * map.cell, map.cell, map.cell);
}

// The sum at the hovered cell, written out.
function said(view) {
  const { header, maps, mask, at } = view;
  if (!at) {
    return `One scale for all maps, from −${fourDigits(header.limit)} (blue) to ` +
      `${fourDigits(header.limit)} (orange). ${touching() ? "Tap" : "Point at"} a cell to see its sum.`;
  }
  const [i, j] = at;
  const n = header.tokens.length;
  const where = `query ${i + 1} ${header.rows[i]}, key ${j + 1} ${header.tokens[j]}`;
  if (!mask[i * n + j]) return `${where}: masked, this key comes later than the query`;
  const values = maps.map((map) => map[i * n + j]);
  const total = values.pop();
  const terms = values.map((value, p) => `${fourDigits(value)} (${header.names[p]})`);
  return `${where}: ${terms.join(" + ")} = ${fourDigits(total)}`;
}
