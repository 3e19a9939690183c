// Numbers as text, with a typographic minus sign.

export function signed(value, digits = 2) {
  return value.toFixed(digits).replace("-0.00", "0.00").replace("-", "−");
}

export function range(n) {
  return Array.from({ length: n }, (_, i) => i);
}

// A number with four digits; tiny ones in scientific notation.
export function fourDigits(value) {
  const size = Math.abs(value);
  const tiny = size !== 0 && size < 0.0005;
  const text = tiny ? value.toExponential(1) : value.toFixed(size >= 100 ? 1 : size >= 10 ? 2 : 3);
  return text.replaceAll("-", "−");
}
