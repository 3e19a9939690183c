// Views of one group, side by side.

// Returns the mounted views of a group, including `view`. Views have a `root`.
export function groupOf(kind, name, view) {
  const groups = (window[Symbol.for(`headlight.${kind}`)] ??= new Map());
  const mounted = (groups.get(name) ?? []).filter(({ root }) => root.isConnected);
  const all = mounted.some(({ root }) => root === view.root) ? mounted : [...mounted, view];
  groups.set(name, all);
  return all;
}

// Aligns the heights of parts (a selector) across views that are side by side. Returns true if they are.
export function alignParts(views, selector) {
  const parts = views.map(({ root }) => [...root.querySelectorAll(selector)]);
  for (const part of parts.flat()) part.style.minHeight = "";
  const places = new Set(views.map(({ root }) => root.getBoundingClientRect().left));
  if (views.length < 2 || places.size < views.length) return false; // below each other
  parts[0].forEach((_, i) => {
    const row = parts.map((column) => column[i]).filter(Boolean);
    const most = Math.max(...row.map((part) => part.getBoundingClientRect().height)); // not rounded
    for (const part of row) part.style.minHeight = `${most}px`;
  });
  return true;
}
