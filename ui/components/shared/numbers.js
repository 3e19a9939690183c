// Numbers as text, with a typographic minus sign.

export function signed(value, digits = 2) {
  return value.toFixed(digits).replace("-0.00", "0.00").replace("-", "−");
}

export function range(n) {
  return Array.from({ length: n }, (_, i) => i);
}

export function percent(share, digits = 0) {
  return `${(100 * share).toFixed(digits)}%`;
}

// A probability, as `probability` in figures/labels.py writes it.
export function chance(probability) {
  return probability < 0.001 ? "<0.1%" : percent(probability, probability >= 0.0995 ? 0 : 1);
}

export function norm(vector) {
  return Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
}

// The largest size of a number.
export function largest(values) {
  return values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
}

// A row of a matrix, without a copy.
export function rowOf(matrix, row, columns) {
  return matrix.subarray(row * columns, (row + 1) * columns);
}

// A number with four digits; tiny ones in scientific notation.
export function fourDigits(value) {
  const size = Math.abs(value);
  const tiny = size !== 0 && size < 0.0005;
  const text = tiny ? value.toExponential(1) : value.toFixed(size >= 100 ? 1 : size >= 10 ? 2 : 3);
  return text.replaceAll("-", "−");
}
