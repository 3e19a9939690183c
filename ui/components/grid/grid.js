// The grid of all layers and heads of a kind of attention: a small map each, click to choose.
//
// Input: a message of ui/components/packing.py. Its header says which kinds there are (kinds.js);
// each is deflated, with a header of its own that names its maps and the colours, and a body that
// holds them as bytes, 255 = weight 1, in the order of `fold` in __init__.py. Text only ever
// becomes textContent. With a limit above 0 the bytes are differences, 0 to 255 for -limit to
// limit, and `said` holds the sentence about each cell.
//
// The choice is [layer, head, marks, kind], 0-based, null for all layers or heads combined; marks are
// the heads marked with Shift, as [layer, head]. It is sent to Python (shared/held.js) and means the
// same for every kind: a layer that one kind lacks is kept for one that has it. Another kind is drawn
// at once and then reported. Offline, the report is the cell on screen, [layer, head], with the kind
// if there are several.

// How long a kind stays on screen before the others are unpacked, in milliseconds.
const STAY_MS = 400;

export default function (component) {
  const { data, parentElement } = component;
  const root = parentElement.querySelector(".grid");
  if (!root || !data?.byteLength) return undefined;
  const turn = (root.turn = (root.turn ?? 0) + 1);
  const { header, body } = unpack(data);
  const kinds = openKinds(header, body);
  const begin = () => {
    if (root.turn !== turn) return;
    const shown = shownKind(kinds, agree(component, header).held);
    const needed = header.still ? kinds : [shown]; // a page without a server answers at once
    if (needed.every((kind) => kind.sheet)) mount(root, component, header, kinds);
    else Promise.all(needed.map((kind) => kind.open())).then(begin);
  };
  begin();
  return () => {
    root.turn += 1;
    root.unwatch?.();
  };
}

function mount(root, component, header, kinds) {
  root.unwatch?.();
  const { turn } = root;
  const talk = agree(component, header);
  const focused = root.getRootNode().activeElement?.dataset ?? {}; // building anew would lose it
  const stage = make("div", "stage");
  const note = make("p", "note", "");
  let kind = null; // the one on screen

  const tell = (next) => {
    if (!header.still) return talk.tell(next);
    const { sheet } = shownKind(kinds, next);
    const cell = cellAt(sheet, ...placeOf(next, sheet));
    return talk.tell(next, kinds.length > 1 ? [...cell, next[3]] : cell);
  };
  const say = (row, column) => {
    note.textContent = plain(summary(kind.sheet, row, column));
  };
  const sayChosen = () => {
    const marks = marksOf(talk.held, kind.sheet);
    if (!marks.length) return say(...placeOf(talk.held, kind.sheet));
    const heads = marks.length === 1 ? "1 head is" : `${marks.length} heads are`;
    note.textContent = touching()
      ? `${heads} marked and combined. Combine adds one or takes it away; a tap reads one map again.`
      : `${heads} marked and combined. Shift and click adds one or takes it away; on a mean, all of ` +
        "its heads. A click alone reads one map again.";
    return undefined;
  };
  const outline = () => {
    const chosen = selected(talk.held, kind.sheet);
    kind.pane.cells.forEach((line, row) =>
      line.forEach((button, column) =>
        button.setAttribute("aria-selected", String(chosen(row, column))),
      ),
    );
  };
  const hands = {
    markable: header.markable,
    say,
    sayChosen,
    choose: (row, column) => {
      tell([...cellAt(kind.sheet, row, column), [], talk.held[3]]);
      outline();
    },
    mark: (row, column) => {
      const marks = toggled(talk.held, row, column, kind.sheet);
      tell([...talk.held.slice(0, 2), marks, talk.held[3]]);
      outline();
      say(row, column);
    },
  };
  const show = () => {
    const next = shownKind(kinds, talk.held);
    if (tabs) tabs.mark(talk.held[3]);
    stage.setAttribute("aria-busy", String(next.name !== talk.held[3]));
    if (!next.sheet) {
      next.open().then(() => root.turn === turn && show());
      return;
    }
    if (next !== kind) {
      if (kind) undraw(kind.pane);
      kind = next;
      kind.pane ??= buildPane(kind.sheet, hands);
      const [row, column] = placeOf(talk.held, kind.sheet);
      reach(kind.pane.cells, row, column);
      stage.replaceChildren(kind.pane.table, note, kind.pane.scale);
    }
    outline();
    sayChosen();
    drawAll(root, kind.pane);
  };
  const tabs = kinds.length > 1 && buildTabs(kinds, (name) => {
    if (name === talk.held[3]) return;
    tell([...talk.held.slice(0, 3), name]);
    show();
  });

  root.style.setProperty("--cell-width", `${header.cell_width}px`);
  root.replaceChildren(...(tabs ? [tabs.element] : []), stage);
  show();
  watch(root, () => {
    if (tabs) tabs.fit();
    drawAll(root, kind.pane);
  });
  if (focused.at) root.querySelector(`[data-at="${focused.at}"]`)?.focus();
  if (focused.kind) root.querySelector(`.kind[data-kind="${focused.kind}"]`)?.focus();
  // Kinds that may be chosen next are unpacked once these stay: not while moments of a training or
  // sentences follow one another.
  setTimeout(() => root.turn === turn && kinds.forEach((each) => each.here && each.open()), STAY_MS);
}

// Where the combined maps are: the last row and column.
function combined({ row_names: rows, column_names: columns }) {
  return [rows.length - 1, columns.length - 1];
}

// The row and column of the choice, as far as this kind has them.
function placeOf(chosen, sheet) {
  return combined(sheet).map((last, i) => Math.min(chosen[i] ?? last, last));
}

// The layer and head of a row and column.
function cellAt(sheet, ...place) {
  return combined(sheet).map((last, i) => (place[i] === last ? null : place[i]));
}

// The marked heads that exist in this kind.
function marksOf([, , marks], sheet) {
  const [layers, heads] = combined(sheet);
  return marks.filter(([layer, head]) => layer < layers && head < heads);
}

// Whether a cell is outlined: the marked heads, or the chosen cell if none is marked.
function selected(chosen, sheet) {
  const marks = marksOf(chosen, sheet);
  const [row, column] = placeOf(chosen, sheet);
  if (!marks.length) return (r, c) => r === row && c === column;
  const held = new Set(marks.map(String));
  return (r, c) => held.has(`${r},${c}`);
}

// The marks after a cell was pressed with Shift. The head shown before is marked too; a combined cell
// stands for all its heads, and unmarks them if all are marked.
function toggled(chosen, r, c, sheet) {
  const [layers, heads] = combined(sheet);
  const marks = marksOf(chosen, sheet);
  const [row, column] = placeOf(chosen, sheet);
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

// The table of one kind and its scale: a canvas that holds all maps, and before each of them a
// button; `cells` is [row][column] -> button.
function buildPane(sheet, hands) {
  const { row_names: rows, column_names: columns } = sheet;
  const table = make("div", "table");
  table.style.setProperty("--columns", columns.length);
  table.setAttribute("role", "grid");
  table.setAttribute("aria-label", sheet.label);
  if (hands.markable) table.setAttribute("aria-multiselectable", "true");
  const canvas = make("canvas", "maps");
  canvas.setAttribute("aria-hidden", "true");
  table.append(canvas);
  const head = make("div", "line");
  head.setAttribute("role", "row");
  head.append(make("span", "corner"));
  columns.forEach((name, i) => {
    const short = i === columns.length - 1 ? name : String(i + 1);
    head.append(heading("columnheader", name, short, i === columns.length - 1));
  });
  table.append(head);
  const cells = rows.map((name, row) => {
    const line = make("div", "line");
    line.setAttribute("role", "row");
    line.append(heading("rowheader", name, name, row === rows.length - 1));
    table.append(line);
    return columns.map((_, column) => {
      const button = make("button", "map");
      button.type = "button";
      button.dataset.at = `${row} ${column}`;
      button.setAttribute("role", "gridcell");
      button.setAttribute("aria-label", summary(sheet, row, column));
      if (row === rows.length - 1) button.classList.add("mean-row");
      if (column === columns.length - 1) button.classList.add("mean-column");
      line.append(button);
      return button;
    });
  });
  listen(cells, hands);
  const scale = sheet.limit
    ? buildScale(...signedEnds(sheet))
    : buildWeightScale();
  return { sheet, table, canvas, cells, scale };
}

// Makes a cell the grid's only tab stop.
function reach(cells, row, column) {
  for (const button of cells.flat()) button.tabIndex = -1;
  cells[row][column].tabIndex = 0;
}

// Mouse and keyboard handling of a table.
function listen(cells, hands) {
  const moves = {
    ArrowLeft: (r, c) => [r, c - 1],
    ArrowRight: (r, c) => [r, c + 1],
    ArrowUp: (r, c) => [r - 1, c],
    ArrowDown: (r, c) => [r + 1, c],
    Home: (r) => [r, 0],
    End: (r) => [r, cells[r].length - 1],
  };
  const focus = (row, column) => {
    reach(cells, row, column);
    cells[row][column].focus();
  };
  cells.forEach((line, row) =>
    line.forEach((button, column) => {
      button.onclick = (event) => {
        focus(row, column);
        if (event.shiftKey && hands.markable) hands.mark(row, column);
        else hands.choose(row, column);
      };
      button.onpointerenter = button.onfocus = () => hands.say(row, column);
      button.onpointerleave = button.onblur = hands.sayChosen;
      button.onkeydown = (event) => {
        if (event.shiftKey && hands.markable && (event.key === "Enter" || event.key === " ")) {
          event.preventDefault(); // also the click that would follow
          hands.mark(row, column);
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
}

// One sentence about a cell: its name and its largest weights.
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
