// The frame's keyboard shortcuts and the hint that lists them. Ignored while someone types.
//
// Input: {presenting, title, keys: [[pressed, label, does, go]], more: [[label, does]], clicker}.
// A shortcut is sent to Python as the trigger `go`.

const MODIFIERS = new Set(["Shift", "Control", "Alt", "Meta"]);

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".keys");
  if (!root || !data) return undefined;
  const wasOpen = root.querySelector("dialog")?.open;
  const acts = new Map(data.keys.map(([pressed, , , go]) => [pressed, go]));
  const send = (go) => setTriggerValue("go", go);

  const hint = make("button", "hint");
  hint.type = "button";
  hint.setAttribute("aria-label", "All keys");
  hint.title = "All keys";
  if (data.presenting) hint.append(make("span", "", data.title));
  hint.append(make("kbd", "", "?"), make("span", "word", "keys"));
  const list = panel(data, send);
  hint.onclick = () => toggle(list);
  root.classList.toggle("presenting", data.presenting);
  root.replaceChildren(hint, list);
  if (wasOpen) list.show();

  const onKey = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.defaultPrevented || event.repeat || MODIFIERS.has(event.key)) return;
    const target = event.composedPath()[0];
    if (event.key === "Escape" && list.open) return list.close();
    if (typing(target, event.key)) return;
    if (event.key === "?") {
      event.preventDefault();
      toggle(list);
      return;
    }
    const go = acts.get(nameOf(event)) ?? (data.clicker ? clicker(event.key) : undefined);
    if (!go) return;
    event.preventDefault();
    event.stopPropagation();
    send(go);
  };
  // Ahead of the components on the page, which use the arrows. This runs for every message and must
  // not listen twice.
  root.deaf?.();
  document.addEventListener("keydown", onKey, { capture: true });
  root.deaf = () => document.removeEventListener("keydown", onKey, { capture: true });
  return root.deaf;
}

// "n", "Shift+P", "Shift+ArrowRight". Capital letters are the same key under caps lock.
function nameOf(event) {
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (!event.shiftKey) return key;
  return `Shift+${key.length === 1 ? key.toUpperCase() : key}`;
}

function clicker(key) {
  return { PageDown: "next-stop", PageUp: "previous-stop" }[key];
}

// Whether the focused element uses the key: text fields, and controls that arrows move.
function typing(target, key) {
  if (!(target instanceof Element)) return false;
  if (target.isContentEditable) return true;
  if (target.matches("textarea, select, [role=textbox], [role=combobox], [role=listbox], [role=slider]")) {
    return true;
  }
  if (!target.matches("input")) return false;
  const plain = ["button", "checkbox", "radio", "submit", "reset", "image"];
  return !plain.includes(target.type) || key.startsWith("Arrow");
}

function toggle(list) {
  if (list.open) list.close();
  else list.show();
}

function panel(data, send) {
  const list = document.createElement("dialog");
  list.className = "list";
  list.setAttribute("aria-label", "Keys");
  for (const [, label, does, go] of data.keys) {
    const row = make("button", "row");
    row.type = "button";
    row.append(make("kbd", "", label), make("span", "", does));
    row.onclick = () => send(go);
    list.append(row);
  }
  for (const [label, does] of [...data.more, ["?", "this list"], ["Esc", "close it"]]) {
    const row = make("div", "row");
    row.append(make("kbd", "", label), make("span", "", does));
    list.append(row);
  }
  return list;
}
