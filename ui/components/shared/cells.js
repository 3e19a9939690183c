// Cells chosen with the pointer or the arrow keys.

// The cell an arrow key leads to from [row, column]; null for other keys and with modifiers.
function stepped(event, [row, column], rows, columns) {
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const by = steps[event.key];
  if (!by || event.shiftKey || event.ctrlKey || event.metaKey || event.altKey) return null;
  const clip = (value, length) => Math.min(length - 1, Math.max(0, value));
  return [clip(row + by[0], rows), clip(column + by[1], columns)];
}

// Positions an element in its parent, in CSS pixels.
function setBox(element, left, top, width, height) {
  element.style.left = `${left}px`;
  element.style.top = `${top}px`;
  if (width !== undefined) element.style.width = `${width}px`;
  if (height !== undefined) element.style.height = `${height}px`;
}

// A masked cell is not a weight of 0 that the model chose: it gets a dot and no colour.
function drawDot(pen, x, y, radius, colour) {
  pen.globalAlpha = 0.25;
  pen.fillStyle = colour;
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.fill();
  pen.globalAlpha = 1;
}
