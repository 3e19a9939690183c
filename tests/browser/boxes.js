// What a window spoils: controls cut off or too small to hit, tiny text, labels on labels.
() => {
  const LEAST_TYPE = 11.95, LEAST_CONTROL = 16, found = [];
  const controls = "button, a[href], input, select, textarea, summary, [role=radio], [role=tab]";
  const above = "[data-testid=stHeader], [data-testid=stSidebar], dialog, .tip, .modebar, .st-key-keys, .st-key-edits, .st-key-after_choice";
  const native = "[data-testid=stTooltipIcon], [data-testid=stMultiSelect], .katex, [data-testid=stDataFrame]";
  const up = (each) => each.parentElement ?? each.getRootNode().host;
  const all = (root) => [...root.querySelectorAll("*")]
    .flatMap((each) => [each, ...(each.shadowRoot ? all(each.shadowRoot) : [])]);
  const says = (each) => (each.getAttribute("aria-label") || each.textContent).trim().slice(0, 40);
  const seen = all(document.querySelector("[data-testid=stMain]")).filter((each) =>
    each.checkVisibility({ opacityProperty: true, visibilityProperty: true })
    && !each.closest(`style, script, option, title, desc, .unseen, ${native}`));

  // The part of a box that its ancestors show; `cut`: one hides the rest, and does not scroll.
  const shown = (each, { left, top, right, bottom }, from = up(each)) => {
    let cut = false;
    for (let at = from; at && getComputedStyle(each).position !== "fixed"; at = up(at)) {
      const { overflowX: x, overflowY: y } = getComputedStyle(at), edge = at.getBoundingClientRect();
      if (x !== "visible" && (left < edge.left - 1 || right > edge.right + 1)) {
        cut ||= !["auto", "scroll"].includes(x);
        [left, right] = [Math.max(left, edge.left), Math.min(right, edge.right)];
      }
      if (y !== "visible") [top, bottom] = [Math.max(top, edge.top), Math.min(bottom, edge.bottom)];
    }
    return { left, top, right, bottom, cut };
  };
  const cuts = (each) => getComputedStyle(each).overflowX !== "visible"
    && each.scrollWidth > each.clientWidth + 1 && each.clientWidth > 2;
  for (const each of seen.filter((each) => each.matches(controls))) {
    const box = each.getBoundingClientRect(), inline = getComputedStyle(each).display === "inline";
    if (box.width < 3 || each.matches("input")) continue; // Streamlit draws its own
    if (!inline && Math.min(box.width, box.height) < LEAST_CONTROL) found.push(`small: ${says(each)}`);
    if (shown(each, box).cut) found.push(`cut off: ${says(each)}`);
    if ([each, ...each.querySelectorAll("*")].some(cuts)) found.push(`its text is cut: ${says(each)}`);
  }

  // A label is a box around a middle, turned by an angle, in the height of its small letters.
  const labels = [];
  const label = (text, size, [x, y], width, angle) => {
    if (size < LEAST_TYPE) found.push(`tiny: ${text}, ${size.toFixed(1)} px`);
    const [cos, sin, w, h] = [Math.cos(angle), Math.sin(angle), width / 2 - 1, size * 0.27];
    const corners = [[-w, -h], [w, -h], [w, h], [-w, h]];
    labels.push({ text, axes: [[cos, sin], [-sin, cos]],
      corners: corners.map(([a, b]) => [x + cos * a - sin * b, y + sin * a + cos * b]) });
  };
  for (const each of seen) {
    if (each.closest(above)) continue;
    const style = getComputedStyle(each), size = parseFloat(style.fontSize);
    const turn = each.getScreenCTM?.() ?? new DOMMatrix(style.transform);
    const angle = Math.atan2(turn.b, turn.a) + (style.writingMode.startsWith("v") ? Math.PI / 2 : 0);
    for (const node of each.childNodes) {
      if (node.nodeType !== Node.TEXT_NODE || !node.data.trim() || /Material/.test(style.fontFamily)) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      for (const box of angle ? [range.getBoundingClientRect()] : range.getClientRects()) {
        const { left, top, right, bottom } = shown(each, box, each);
        if (right - left < 3 || bottom - top < size / 2) continue;
        const middle = [(left + right) / 2, (top + bottom) / 2], high = size * Math.abs(Math.cos(angle));
        const length = Math.abs(Math.sin(angle)) > 0.1 ? (box.height - high) / Math.abs(Math.sin(angle)) : right - left;
        label(node.data.trim().slice(0, 30), size * (each.getScreenCTM ? Math.hypot(turn.a, turn.b) : 1), middle, length, angle);
      }
    }
    const box = each.getBoundingClientRect(), scale = box.width / each.width;
    for (const [text, size, x, y, width, slant] of each.written ?? []) {
      const place = [box.left + x * scale, box.top + y * scale];
      if (place[0] > box.left && place[0] < box.right) label(text, size * scale, place, width * scale, slant);
    }
  }
  const apart = (one, other) => [...one.axes, ...other.axes].some(([x, y]) => {
    const [a, b] = [one, other].map(({ corners }) => corners.map(([u, v]) => x * u + y * v));
    return Math.min(Math.max(...a), Math.max(...b)) - Math.max(Math.min(...a), Math.min(...b)) < 1;
  });
  labels.forEach((one, at) => labels.slice(at + 1).forEach((other) => {
    if (!apart(one, other)) found.push(`“${one.text}” lies on “${other.text}”`);
  }));
  return found;
}
