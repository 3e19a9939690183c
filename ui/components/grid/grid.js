// A grid of small maps, one per layer and head; click to choose.
//
// With a limit above 0, the maps' bytes are differences, 0 to 255 for -limit to limit, and `summaries`
// describe the cells.
//
// The choice is [layer, head, marks, kind], 0-based, null for all layers or heads combined; marks are
// heads marked with Shift, as [layer, head]. It is the same for all kinds: a layer that one kind lacks is
// kept for another. Offline, the report is the cell on screen, [layer, head], and the kind if there are
// several.
//
// With `off`, the removed heads by kind, every map has a switch, which reports its heads as
// "switch": its own, those behind a combined map, or all marked heads. Heads switched while Shift is down
// are reported together, to `join` the heads removed before.
import { extend, isOffline, make, percent, plain, range, reads, scaleOf, shown, stepped, syncChoice, touching, watch } from "../shared/index.js";
import { buildTabs, openKinds, shownKind } from "./kinds.js";
import { drawAll, undraw } from "./maps.js";

// Milliseconds before the kinds that are not on screen are unpacked.
const STAY_MS = 400;
const LEFT = Symbol.for("headlight.grid.left");

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
  const focused = root.getRootNode().activeElement?.dataset ?? leftBy(root); // rebuilding would lose it
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
    note.textContent = plain(spoken(kind, row, column));
  };
  const describeChosen = () => {
    const marks = marksOf(choice.value, kind.sheet);
    if (!marks.length) return describe(...placeOf(choice.value, kind.sheet));
    const heads = marks.length === 1 ? "1 head is" : `${marks.length} heads are`;
    const how = touching()
      ? "Combine adds one or takes it away; a tap reads one map again."
      : "Shift and click adds one or takes it away; on a mean, all of its heads. A click alone reads one map again.";
    note.textContent = `${heads} marked and combined. ${how}`;
    return undefined;
  };
  const outline = () => {
    const chosen = selected(choice.value, kind.sheet);
    kind.pane.cells.forEach((line, row) =>
      line.forEach((button, column) => button.setAttribute("aria-selected", chosen(row, column))),
    );
  };
  // Heads are shown as out before the server has translated without them.
  const lightOff = () => kind.pane.cells.forEach((line, row) => line.forEach((button, column) => {
    const out = isOff(kind, row, column);
    button.setAttribute("aria-label", spoken(kind, row, column));
    button.parentElement.classList.toggle("out", out);
    extend(switchOf(button), { "aria-checked": String(!out), title: out ? "Bring back" : "Take out" });
  }));
  const turnHeads = (heads, join) => {
    const out = !heads.every((head) => kind.off.has(String(head)));
    for (const head of heads) kind.off[out ? "add" : "delete"](String(head));
    lightOff();
    window[LEFT] = { root, at: root.getRootNode().activeElement?.dataset };
    document.addEventListener("pointerdown", () => delete window[LEFT], { once: true, capture: true });
    if (!join) host.setTriggerValue("switch", { kind: kind.name, heads, join });
  };
  let held = [];
  const release = (event) => {
    if (event.type === "keyup" && event.key !== "Shift") return;
    for (const type of ["keyup", "blur"]) window.removeEventListener(type, release);
    if (held.length) host.setTriggerValue("switch", { kind: kind.name, heads: held, join: true });
    held = [];
  };
  const actions = {
    markable: header.markable,
    switches: Boolean(header.off),
    turn: (row, column, join) => {
      const marks = marksOf(choice.value, kind.sheet);
      const marked = marks.some(([r, c]) => r === row && c === column);
      const heads = marked && !join ? marks : headsBehind(kind.sheet, row, column);
      turnHeads(heads, join);
      describe(row, column);
      if (!join) return;
      held = toggleAll(held, heads);
      for (const type of ["keyup", "blur"]) window.addEventListener(type, release);
    },
    describe,
    describeChosen,
    choose: (row, column) => {
      report([...cellAt(kind.sheet, row, column), [], choice.value[3]]);
      outline();
      const lens = document.querySelector(".st-key-lens"); // the map enlarged, where it is below the grid
      if (lens?.getBoundingClientRect().top > 0.8 * innerHeight) lens.scrollIntoView({ behavior: "smooth" });
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
      kind.off = new Set((header.off?.[kind.name] ?? []).map(String));
      kind.does = header.does?.[kind.name] ?? [];
      kind.pane ??= buildPane(kind.sheet, actions);
      writeRoles(kind);
      if (header.off) lightOff();
      reach(kind.pane.cells, placeOf(choice.value, kind.sheet));
      stage.replaceChildren(kind.pane.table, kind.pane.key, kind.pane.scale, note);
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
  const [row, column] = (focused.at ?? focused.turns ?? "").split(" ");
  if (kind.pane.cells[row]?.[column]) {
    const map = reach(kind.pane.cells, [row, column]);
    (focused.turns ? switchOf(map) ?? map : map).focus({ preventScroll: true });
  }
  if (focused.kind) root.querySelector(`.kind[data-kind="${focused.kind}"]`)?.focus();
  // Other kinds are unpacked once this one stays: not while training checkpoints or sentences follow one
  // another.
  setTimeout(() => root.turn === turn && kinds.forEach((each) => each.here && each.open()), STAY_MS);
}

// The focus in the grid when a switch was turned, if the page has remounted the grid since and nothing else
// took the focus.
function leftBy(root) {
  const left = window[LEFT];
  if (!left?.at || left.root === root || document.activeElement !== document.body) return {};
  left.root = root; // which may be remounted once more
  return left.at;
}

// Row and column of the combined maps.
function combined({ row_names: rows, column_names: columns }) {
  return [rows.length - 1, columns.length - 1];
}

// Row and column of the choice, or of the combined maps if this kind lacks them.
function placeOf(chosen, sheet) {
  return combined(sheet).map((last, i) => Math.min(chosen[i] ?? last, last));
}

// Layer and head of a row and column.
function cellAt(sheet, ...place) {
  return combined(sheet).map((last, i) => (place[i] === last ? null : place[i]));
}

// Marked heads that this kind has.
function marksOf([, , marks], sheet) {
  const [layers, heads] = combined(sheet);
  return marks.filter(([layer, head]) => layer < layers && head < heads);
}

// True for outlined cells: marked heads, or the chosen cell if no head is marked.
function selected(chosen, sheet) {
  const marks = marksOf(chosen, sheet);
  const [row, column] = placeOf(chosen, sheet);
  if (!marks.length) return (r, c) => r === row && c === column;
  const marked = new Set(marks.map(String));
  return (r, c) => marked.has(`${r},${c}`);
}

// Marks after a Shift press on a cell. The head on screen is marked as well; a combined cell marks all its
// heads, or unmarks them if all are marked.
function toggled(chosen, r, c, sheet) {
  const [layers, heads] = combined(sheet);
  const marks = marksOf(chosen, sheet);
  const [row, column] = placeOf(chosen, sheet);
  const first = !marks.length && row < layers && column < heads ? [[row, column]] : marks;
  return toggleAll(first, headsBehind(sheet, r, c));
}

// Adds heads to a list, or removes them if it has them all.
function toggleAll(list, heads) {
  const without = (all, others) => all.filter((head) => !others.some((other) => String(other) === String(head)));
  const more = without(heads, list);
  return more.length ? [...list, ...more] : without(list, heads);
}

// The head of a cell, or all heads that it combines.
function headsBehind(sheet, r, c) {
  const [layers, heads] = combined(sheet);
  const [rows, columns] = [r === layers ? range(layers) : [r], c === heads ? range(heads) : [c]];
  return rows.flatMap((layer) => columns.map((head) => [layer, head]));
}

function isOff({ sheet, off }, row, column) {
  return off.size > 0 && headsBehind(sheet, row, column).every((head) => off.has(String(head)));
}

function switchOf(map) {
  return map.parentElement.querySelector(".switch");
}

// A map with its switch, the next Tab stop after the map.
function withSwitch(sheet, map, row, column, actions) {
  const [layers, heads] = combined(sheet);
  const of = column === heads ? `layer ${row + 1}` : "all layers";
  const name = row < layers && column < heads
    ? sheet.names[row][column]
    : column < heads ? `Head ${column + 1} of all layers` : row < layers ? `All heads of ${of}` : "All heads";
  const turn = make("button", "switch", {
    "data-turns": `${row} ${column}`, role: "switch", "aria-label": name, tabindex: -1,
    onclick: (event) => event.pointerType === "touch" ? map.click() : actions.turn(row, column, event.shiftKey),
  });
  return make("span", "cell", map, make("span", "", { role: "gridcell" }, turn));
}

// Table and scale of one kind: one canvas with all maps, and a button in front of every map; `cells` is
// [row][column] -> button.
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
    line(heading("rowheader", name, name, row === rows.length - 1), actions.switches
      ? cells[row].map((map, column) => withSwitch(sheet, map, row, column, actions))
      : cells[row]),
  );
  const about = { role: "grid", "aria-label": sheet.label };
  const table = make("div", "table", about, canvas, line(make("span", "corner"), head), lines);
  if (actions.markable) table.setAttribute("aria-multiselectable", "true");
  table.style.setProperty("--columns", columns.length);
  listen(cells, actions);
  return { sheet, table, canvas, cells, key: make("p", "key"), scale: scaleOf(sheet) };
}

// Makes a cell the grid's only Tab stop and returns it.
function reach(cells, [row, column]) {
  const stop = cells[row][column];
  for (const button of cells.flat()) {
    for (const each of [button, switchOf(button)]) if (each) each.tabIndex = button === stop ? 0 : -1;
  }
  return stop;
}

function listen(cells, actions) {
  cells.forEach((line, row) => line.forEach((map, column) => {
    const turn = switchOf(map);
    map.onclick = (event) => {
      reach(cells, [row, column]).focus();
      if (event.shiftKey && actions.markable) actions.mark(row, column);
      else actions.choose(row, column);
    };
    for (const each of turn ? [map, turn] : [map]) {
      each.onpointerenter = each.onfocus = () => actions.describe(row, column);
      each.onpointerleave = each.onblur = actions.describeChosen;
      each.onkeydown = (event) => {
        const next = stepped(event, [row, column], cells.length, line.length);
        const marks = event.shiftKey && (event.key === "Enter" || event.key === " "); // not the click that would follow
        if (next) {
          const to = reach(cells, next);
          (each === turn ? switchOf(to) : to).focus();
        } else if (marks && each === turn) actions.turn(row, column, true);
        else if (marks && actions.markable) actions.mark(row, column);
        else if (turn && each === map && event.key === "Delete") actions.turn(row, column, event.shiftKey);
        else return;
        event.preventDefault();
      };
    }
  }));
}

// Writes the roles of heads below their maps, and explains words that do not speak for themselves.
function writeRoles(kind) {
  const { pane, does } = kind;
  pane.named = does.length > 0;
  const key = new Set();
  for (const [row, column, word, text] of does) {
    const map = pane.cells[row][column];
    map.dataset.does = word;
    map.setAttribute("aria-label", spoken(kind, row, column));
    const [role] = text.split(":");
    if (isNaN(word) && !role.includes(word)) key.add(`${word}: looks at ${role}`);
  }
  if (does.some(([, , word]) => isNaN(parseFloat(word)))) key.add("from many texts: see What heads do");
  pane.key.textContent = [...key].join(" · ");
}

// Describes a cell: whether it is off, its largest weight, the role of its head.
function spoken(kind, row, column) {
  const text = summary(kind.sheet, row, column);
  const [, , , role] = kind.does.find(([r, c]) => r === row && c === column) ?? [];
  const all = role ? `${text} ${role[0].toUpperCase()}${role.slice(1)}` : text;
  return isOff(kind, row, column) ? all.replace(":", ": off;") : all;
}

// Describes the largest weight of a cell.
function summary(header, row, column) {
  if (header.summaries) return header.summaries[row][column];
  const [query, key, weight, spread, hidden] = header.notes[row][column];
  const most = reads(header.query_tokens[query], header.key_tokens[key]);
  const rest = spread ? `; a row spreads over ${spread.toFixed(1)} tokens on average` : "";
  const dimmed = header.dimmed.length ? `; ${Math.round(100 * hidden)}% of it dimmed` : "";
  const name = header.names[row][column];
  const size = header.noun ? `${header.noun} ${weight.toFixed(2)}` : percent(weight);
  return `${name}: most of all, ${most}, ${size}${rest}${dimmed}.`;
}

function heading(role, name, short, isMean) {
  return make("span", isMean ? "heading mean" : "heading", { role, "aria-label": name },
    make("span", "long", name), make("span", "short", short));
}

export default (host) => shown(host, "grid", component);
