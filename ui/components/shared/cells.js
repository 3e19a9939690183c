// Keyboard movement, pressed buttons and boxes.

// Returns the cell to which an arrow key, Home or End moves from [row, column]; null for other keys or
// with modifiers.
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

// Makes elements a single Tab stop; arrow keys, Home and End move between them, by a `row` up and down, and
// around both ends if `wraps`. `choose(at)` is called for the new element. Returns a function that sets the stop.
export function rove(elements, { choose, row = 1, wraps = false } = {}) {
  const n = elements.length;
  const stop = (at) => elements.forEach((element, i) => (element.tabIndex = i === at ? 0 : -1));
  stop(0);
  elements.forEach((element, at) => {
    element.addEventListener("focus", () => stop(at));
    element.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowUp: -row, ArrowRight: 1, ArrowDown: row }[event.key];
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

// Marks the buttons for which `is(at)` is true as pressed.
export function press(buttons, is) {
  buttons.forEach((button, at) => button.setAttribute("aria-pressed", is(at)));
}

// Positions an element in its parent, in CSS pixels.
export function setBox(element, left, top, width, height) {
  element.style.left = `${left}px`;
  element.style.top = `${top}px`;
  if (width !== undefined) element.style.width = `${width}px`;
  if (height !== undefined) element.style.height = `${height}px`;
  return element;
}
