// The grid of all layers and heads of a kind of attention: a small map each, click to choose.
//
// With a limit above 0 the maps' bytes are differences, 0 to 255 for -limit to limit, and `summaries`
// holds the sentence about each cell.
//
// The choice is [layer, head, marks, kind], 0-based, null for all layers or heads combined; marks are
// the heads marked with Shift, as [layer, head]. It means the same for every kind: a layer that one
// kind lacks is kept for one that has it. Another kind is drawn at once and then reported. Offline,
// the report is the cell on screen, [layer, head], with the kind if there are several.

// How long a kind stays on screen before the others are unpacked, in milliseconds.
const STAY_MS = 400;

function component({ root, header, body }, host) {
  const turn = (root.turn = (root.turn ?? 0) + 1);
  const kinds = openKinds(header, body);
  const begin = () => {
    if (root.turn !== turn) return;
    const shown = shownKind(kinds, syncChoice(host, header).value);
    const needed = isOffline(header) ? kinds : [shown]; // a page without a server answers at once
    if (needed.every((kind) => kind.sheet)) mount(root, host, header, kinds);
    else Promise.all(needed.map((kind) => kind.open())).then(begin);
  };
  begin();
  return () => {
    root.turn += 1;
    root.unwatch?.();
  };
}

function mount(root, host, header, kinds) {
  root.unwatch?.();
  const { turn } = root;
  const choice = syncChoice(host, header);
  const focused = root.getRootNode().activeElement?.dataset ?? {}; // building anew would lose it
  const stage = make("div", "stage");
  const note = make("p", "readout");
  let kind = null; // the one on screen

  const report = (next) => {
    if (!isOffline(header)) return choice.set(next);
    const { sheet } = shownKind(kinds, next);
    const cell = cellAt(sheet, ...placeOf(next, sheet));
    return choice.set(next, kinds.length > 1 ? [...cell, next[3]] : cell);
  };
  const describe = (row, column) => {
    note.textContent = plain(summary(kind.sheet, row, column));
  };
  const describeChosen = () => {
    const marks = marksOf(choice.value, kind.sheet);
    if (!marks.length) return describe(...placeOf(choice.value, kind.sheet));
    const heads = marks.length === 1 ? "1 head is" : `${marks.length} heads are`;
    note.textContent = touching()
      ? `${heads} marked and combined. Combine adds one or takes it away; a tap reads one map again.`
      : `${heads} marked and combined. Shift and click adds one or takes it away; on a mean, all of ` +
        "its heads. A click alone reads one map again.";
    return undefined;
  };
  const outline = () => {
    const chosen = selected(choice.value, kind.sheet);
    kind.pane.cells.forEach((line, row) =>
      line.forEach((button, column) => button.setAttribute("aria-selected", chosen(row, column))),
    );
  };
  const actions = {
    markable: header.markable,
    describe,
    describeChosen,
    choose: (row, column) => {
      report([...cellAt(kind.sheet, row, column), [], choice.value[3]]);
      outline();
    },
    mark: (row, column) => {
      const marks = toggled(choice.value, row, column, kind.sheet);
      report([...choice.value.slice(0, 2), marks, choice.value[3]]);
      outline();
      describe(row, column);
    },
  };
  const show = () => {
    const next = shownKind(kinds, choice.value);
    if (tabs) tabs.mark(choice.value[3]);
    stage.setAttribute("aria-busy", String(next.name !== choice.value[3]));
    if (!next.sheet) {
      next.open().then(() => root.turn === turn && show());
      return;
    }
    if (next !== kind) {
      if (kind) undraw(kind.pane);
      kind = next;
      kind.pane ??= buildPane(kind.sheet, actions);
      reach(kind.pane.cells, placeOf(choice.value, kind.sheet));
      stage.replaceChildren(kind.pane.table, note, kind.pane.scale);
    }
    outline();
    describeChosen();
    drawAll(root, kind.pane);
  };
  const tabs = kinds.length > 1 && buildTabs(kinds, (name) => {
    if (name === choice.value[3]) return;
    report([...choice.value.slice(0, 3), name]);
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
  const marked = new Set(marks.map(String));
  return (r, c) => marked.has(`${r},${c}`);
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
function buildPane(sheet, actions) {
  const { row_names: rows, column_names: columns } = sheet;
  const canvas = make("canvas", "maps", { "aria-hidden": true });
  const line = (...parts) => make("div", "line", { role: "row" }, ...parts);
  const head = columns.map((name, i) => {
    const isMean = i === columns.length - 1;
    return heading("columnheader", name, isMean ? name : String(i + 1), isMean);
  });
  const cells = rows.map((_, row) => columns.map((_, column) => make("button", "map", {
    "data-at": `${row} ${column}`, role: "gridcell", "aria-label": summary(sheet, row, column),
  })));
  const lines = rows.map((name, row) =>
    line(heading("rowheader", name, name, row === rows.length - 1), cells[row]),
  );
  const about = { role: "grid", "aria-label": sheet.label };
  const table = make("div", "table", about, canvas, line(make("span", "corner"), head), lines);
  if (actions.markable) table.setAttribute("aria-multiselectable", "true");
  table.style.setProperty("--columns", columns.length);
  listen(cells, actions);
  const scale = sheet.limit ? buildScale(...signedEnds(sheet)) : buildWeightScale();
  return { sheet, table, canvas, cells, scale };
}

// Makes a cell the grid's only tab stop. Returns: the cell.
function reach(cells, [row, column]) {
  for (const button of cells.flat()) button.tabIndex = -1;
  cells[row][column].tabIndex = 0;
  return cells[row][column];
}

// Mouse and keyboard handling of a table.
function listen(cells, actions) {
  const last = cells[0].length - 1;
  cells.forEach((line, row) =>
    line.forEach((button, column) => {
      button.onclick = (event) => {
        reach(cells, [row, column]).focus();
        if (event.shiftKey && actions.markable) actions.mark(row, column);
        else actions.choose(row, column);
      };
      button.onpointerenter = button.onfocus = () => actions.describe(row, column);
      button.onpointerleave = button.onblur = actions.describeChosen;
      button.onkeydown = (event) => {
        if (event.shiftKey && actions.markable && (event.key === "Enter" || event.key === " ")) {
          event.preventDefault(); // also the click that would follow
          actions.mark(row, column);
          return;
        }
        const edge = modified(event) ? null : { Home: [row, 0], End: [row, last] }[event.key];
        const next = edge ?? stepped(event, [row, column], cells.length, last + 1);
        if (!next) return;
        event.preventDefault();
        reach(cells, next).focus();
      };
    }),
  );
}

// One sentence about a cell: its name and its largest weights.
function summary(header, row, column) {
  if (header.summaries) return header.summaries[row][column];
  const [query, key, weight, spread, hidden] = header.notes[row][column];
  const from = `query ${query + 1} ${header.query_tokens[query]}`;
  const to = `key ${key + 1} ${header.key_tokens[key]}`;
  const rest = spread ? `; rows spread over ${spread.toFixed(1)} keys on average` : "";
  const dimmed = header.dimmed.length ? `; ${Math.round(100 * hidden)}% of it dimmed` : "";
  const name = header.names[row][column];
  return `${name}: the largest weight is ${weight.toFixed(2)}, from ${from} to ${to}${rest}${dimmed}.`;
}

function heading(role, name, short, isMean) {
  return make("span", isMean ? "heading mean" : "heading", { role, "aria-label": name },
    make("span", "long", name), make("span", "short", short));
}
