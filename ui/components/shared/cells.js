// Keys that move, buttons that are pressed, and boxes.

// The cell that an arrow key, Home or End leads to from [row, column]; null for other keys and with
// modifiers.
export function stepped(event, [row, column], rows, columns) {
  const to = {
    ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
    ArrowUp: [row - 1, column], ArrowDown: [row + 1, column],
    Home: [row, 0], End: [row, columns - 1],
  }[event.key];
  if (!to || modified(event)) return null;
  return [rows, columns].map((length, axis) => Math.min(length - 1, Math.max(0, to[axis])));
}

export function modified(event) {
  return event.shiftKey || event.ctrlKey || event.metaKey || event.altKey;
}

// Makes elements one stop of the Tab key; arrow keys, Home and End move between them, `wraps` from
// the last to the first. `choose(at)`, if any, takes the one that they reach. Returns: a function
// that makes another the stop.
export function rove(elements, { choose, wraps = false } = {}) {
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
export function press(buttons, is) {
  buttons.forEach((button, at) => button.setAttribute("aria-pressed", is(at)));
}

// Positions an element in its parent, in CSS pixels.
export function setBox(element, left, top, width, height) {
  element.style.left = `${left}px`;
  element.style.top = `${top}px`;
  if (width !== undefined) element.style.width = `${width}px`;
  if (height !== undefined) element.style.height = `${height}px`;
}
