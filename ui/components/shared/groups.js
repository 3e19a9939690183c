// Views of one group, side by side.

// The mounted views of a group of this kind, with `view` among them; each has a `root`.
export function groupOf(kind, name, view) {
  const groups = (window[Symbol.for(`headlight.${kind}`)] ??= new Map());
  const mounted = (groups.get(name) ?? []).filter((each) => each.root.isConnected);
  const all = mounted.some((each) => each.root === view.root) ? mounted : [...mounted, view];
  groups.set(name, all);
  return all;
}

// Gives parts (a selector) of views that stand side by side the height of the tallest, row by row.
// Returns: true if they stand side by side.
export function alignParts(views, selector) {
  const parts = views.map(({ root }) => [...root.querySelectorAll(selector)]);
  for (const part of parts.flat()) part.style.minHeight = "";
  const places = new Set(views.map(({ root }) => root.getBoundingClientRect().left));
  if (views.length < 2 || places.size < views.length) return false; // below each other
  parts[0].forEach((_, i) => {
    const row = parts.map((each) => each[i]).filter(Boolean);
    const most = Math.max(...row.map((each) => each.getBoundingClientRect().height)); // not rounded
    for (const each of row) each.style.minHeight = `${most}px`;
  });
  return true;
}
