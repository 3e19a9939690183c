// A sentence in pieces (header.kind "pieces") or a list of other segmentations ("cuts").
//
// Input: one message of ui/components/packing.py; there is only a header. Text only ever
// becomes textContent. A click is sent to Python as the trigger `chosen`: the piece's id, or the
// 0-based number of the segmentation.

export default function (component) {
  const { data, parentElement, setTriggerValue } = component;
  const root = parentElement.querySelector(".cut");
  if (!root || !data?.byteLength) return undefined;
  root.unwatch?.();
  const { header } = unpack(data);
  const giveBack = remember(root, ".pieces");
  const buttons = header.kind === "pieces" ? pieces(root, header) : cuts(root, header);

  const mark = (chosen) => {
    for (const { button, value } of buttons) {
      button.setAttribute("aria-pressed", String(value === chosen));
    }
  };
  mark(header.chosen);
  buttons.forEach(({ button, value }, at) => {
    button.tabIndex = at === 0 ? 0 : -1;
    button.onclick = () => {
      mark(value);
      setTriggerValue("chosen", value);
    };
    button.onfocus = () => {
      for (const other of buttons) other.button.tabIndex = other.button === button ? 0 : -1;
    };
    button.onkeydown = (event) => {
      const next = { ArrowLeft: at - 1, ArrowUp: at - 1, ArrowRight: at + 1, ArrowDown: at + 1,
        Home: 0, End: buttons.length - 1 }[event.key];
      if (next === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      buttons[next]?.button.focus();
    };
  });
  giveBack();
  return watch(root, () => {
    header.tints[themeOf(root)].forEach((tint, i) => root.style.setProperty(`--tint-${i}`, tint));
  });
}

function pieces(root, header) {
  const list = make("div", "pieces");
  list.setAttribute("role", "group");
  list.setAttribute("aria-label", header.label);
  const n = header.tints.light.length;
  const buttons = header.pieces.map((each) => {
    const button = make("button", `piece ${each.mark}`);
    button.type = "button";
    button.append(make("span", "text", plain(each.piece)), make("span", "id", String(each.id)));
    if (each.score) button.append(make("span", "score", each.score));
    button.title = plain(each.note);
    button.setAttribute("aria-label", plain(`${each.whole}: ${each.note}`));
    if (each.mark !== "special") button.style.setProperty("--tint", `var(--tint-${each.word % n})`);
    list.append(button);
    return { button, value: each.id };
  });
  const rows = [list];
  if (header.changed.length) {
    const line = make("p", "changed", "Normalisation changed ");
    for (const [before, after] of header.changed) {
      const pair = make("span", "pair");
      pair.append(make("del", "", before || "nothing"), make("span", "", " → "));
      pair.append(make("ins", "", after || "nothing"));
      line.append(pair);
    }
    rows.push(line);
  }
  root.replaceChildren(...rows);
  return buttons;
}

function cuts(root, header) {
  const list = make("div", "cuts");
  list.setAttribute("role", "group");
  list.setAttribute("aria-label", header.label);
  const buttons = header.cuts.map((cut, number) => {
    const button = make("button", "row");
    button.type = "button";
    button.setAttribute("aria-label", plain(cut.note));
    button.append(make("span", "label", cut.label));
    if (cut.share !== null) {
      const bar = make("span", "bar");
      const inner = make("span", "inner");
      inner.style.width = `${100 * cut.share}%`;
      bar.append(inner);
      button.append(bar);
    }
    const text = make("span", "stretches", cut.stretches.length ? undefined : plain(cut.text));
    cut.stretches.forEach((stretch, at) => {
      const part = make("span", "stretch");
      for (const piece of stretch) part.append(make("span", "part", plain(piece)));
      if (cut.places[at]) part.append(make("span", "place", cut.places[at]));
      text.append(part);
    });
    button.append(text);
    list.append(button);
    return { button, value: number };
  });
  root.replaceChildren(list);
  return buttons;
}
