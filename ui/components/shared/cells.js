// Cells chosen with the pointer or the arrow keys.

// The cell an arrow key leads to from [row, column]; null for other keys and with modifiers.
function stepped(event, [row, column], rows, columns) {
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const by = steps[event.key];
  if (!by || modified(event)) return null;
  const clip = (value, length) => Math.min(length - 1, Math.max(0, value));
  return [clip(row + by[0], rows), clip(column + by[1], columns)];
}

function modified(event) {
  return event.shiftKey || event.ctrlKey || event.metaKey || event.altKey;
}

// The cell of a surface under the pointer, null for none. A surface is a canvas with cells on it,
// {canvas, cells: {ys, xs, side}}: where rows and columns begin, and the side of a cell, in px.
function cellUnder(event, { canvas, cells: { ys, xs, side } }) {
  const box = canvas.getBoundingClientRect();
  const find = (starts, offset) => starts.findIndex((from) => offset >= from && offset < from + side);
  const cell = [find(ys, event.clientY - box.top), find(xs, event.clientX - box.left)];
  return cell.includes(-1) ? null : cell;
}

// Puts an element beside the canvas around one of its cells; hides it if there is no such cell.
function outlineCell(element, { canvas, cells: { ys, xs, side } }, at) {
  element.hidden = !at || !(at[0] in ys) || !(at[1] in xs);
  if (element.hidden) return;
  const [left, top] = [canvas.style.left, canvas.style.top].map((each) => parseFloat(each) || 0);
  setBox(element, left + xs[at[1]], top + ys[at[0]], side, side);
}

// A cursor that the pointer moves over surfaces of equal shape, and arrow keys while `stop` has the
// focus.
//
// `show(cell)` follows the cursor (null: none), `start()` is where it begins; `choose(cell)`, if any,
// is called for clicks and Enter.
function cellCursor(stop, surfaces, { rows, columns, show, choose, start = () => [0, 0] }) {
  let at = null;
  const move = (next) => {
    at = next;
    show(at);
  };
  for (const surface of surfaces) {
    const { canvas } = surface;
    canvas.onpointermove = canvas.onpointerdown = (event) => move(cellUnder(event, surface));
    // A finger that is lifted leaves, too: what it touched stays read.
    canvas.onpointerleave = ({ pointerType }) => pointerType === "touch" || stop.getRootNode().activeElement === stop || move(null);
    canvas.onclick = (event) => {
      const cell = cellUnder(event, surface);
      if (cell) choose?.(cell);
    };
  }
  stop.onfocus = () => at ?? move(start());
  stop.onblur = () => move(null);
  stop.onkeydown = (event) => {
    const enters = choose && !modified(event) && [" ", "Enter"].includes(event.key);
    const next = stepped(event, at ?? start(), rows, columns);
    if (enters) choose(at ?? start());
    else if (next) move(next);
    else return;
    event.preventDefault();
  };
}

// Makes elements one stop of the Tab key; arrow keys, Home and End move between them, `wraps` from
// the last to the first. `choose(at)`, if any, takes the one that they reach. Returns: a function
// that makes another the stop.
function rove(elements, { choose, wraps = false } = {}) {
  const n = elements.length;
  const stop = (wanted) => elements.forEach((each, at) => (each.tabIndex = at === wanted ? 0 : -1));
  stop(0);
  elements.forEach((element, at) => {
    element.addEventListener("focus", () => stop(at));
    element.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
      const next = wraps ? (at + by + n) % n : at + by;
      const to = by ? next : { Home: 0, End: n - 1 }[event.key];
      if (to === undefined || modified(event)) return;
      event.preventDefault();
      elements[to]?.focus();
      if (elements[to]) choose?.(to);
    });
  });
  return stop;
}

// Marks the pressed ones among buttons: `is(at)`.
function press(buttons, is) {
  buttons.forEach((button, at) => button.setAttribute("aria-pressed", is(at)));
}

// Positions an element in its parent, in CSS pixels.
function setBox(element, left, top, width, height) {
  element.style.left = `${left}px`;
  element.style.top = `${top}px`;
  if (width !== undefined) element.style.width = `${width}px`;
  if (height !== undefined) element.style.height = `${height}px`;
}
