// The frame's keyboard shortcuts, the hint that lists them, and the link to the view. Shortcuts are
// ignored while someone types; one is sent to Python as the trigger `go`.

const STOPS = "a[href], button, input, select, textarea, summary, [tabindex]";
const MODIFIERS = new Set(["Shift", "Control", "Alt", "Meta"]);

// Streamlit opens a page at its bare address and then pushes the one with the view's parameters, so
// that the first Back would seem to do nothing: the second address takes the place of the first.
const { pushState } = history;
if (!pushState.replacesBare) {
  history.pushState = (state, title, address) => {
    const to = new URL(address ?? "", location.href);
    const bare = !location.search && to.search && to.pathname === location.pathname;
    (bare ? history.replaceState : pushState).call(history, state, title, address);
  };
  history.pushState.replacesBare = true;
}

function component({ root, header: data }, { setTriggerValue }) {
  const wasOpen = root.querySelector(".all")?.open;
  const acts = new Map(data.keys.map(([pressed, , , go]) => [pressed, go]));
  const send = (go) => setTriggerValue("go", go);

  const list = panel(data, send);
  const link = linkTo();
  const onclick = () => {
    link.box.close();
    toggle(list);
  };
  const hint = make("button", "hint", { "aria-label": "All keys", title: "All keys", onclick },
    data.presenting ? make("span", "", data.title) : [],
    make("kbd", "", "?"), make("span", "word", "keys"));
  link.button.onclick = () => {
    list.close();
    link.toggle();
  };
  root.classList.toggle("presenting", data.presenting);
  root.replaceChildren(link.button, hint, link.box, list);
  if (wasOpen) list.show();

  const onKey = (event) => {
    if (event.key === "Tab") return reach(document.querySelector("[data-testid=stMain]"));
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.defaultPrevented || event.repeat || MODIFIERS.has(event.key)) return;
    const target = event.composedPath()[0];
    if (event.key === "Escape" && link.box.open) return link.box.close();
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
  root.unlisten?.();
  document.addEventListener("keydown", onKey, { capture: true });
  root.unlisten = () => document.removeEventListener("keydown", onKey, { capture: true });
  return root.unlisten;
}

// Let Tab stop at what scrolls and holds nothing to stop at, so that arrows can scroll it: not every
// browser does so by itself. Called at each Tab, since what scrolls depends on the window.
function reach(root) {
  for (const each of root?.querySelectorAll("*") ?? []) {
    if (each.shadowRoot) reach(each.shadowRoot);
    if (each.hasAttribute("data-reached")) each.removeAttribute("tabindex");
    else if (each.matches(STOPS)) continue;
    const stops = scrolls(each) && !each.querySelector(STOPS);
    each.toggleAttribute("data-reached", stops);
    if (stops) each.tabIndex = 0;
  }
}

function scrolls(each) {
  const wide = each.scrollWidth > each.clientWidth + 1, high = each.scrollHeight > each.clientHeight + 1;
  if (!wide && !high) return false;
  const { overflowX, overflowY } = getComputedStyle(each), own = ["auto", "scroll"];
  return (wide && own.includes(overflowX)) || (high && own.includes(overflowY));
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

// A button that copies the page's address, which says everything that is chosen, and shows it.
function linkTo() {
  const button = make("button", "link", "Link", { title: "Copy the link that opens this view again" });
  const status = make("p", "status", { role: "status" });
  const address = make("input", "address", { readonly: "", "aria-label": "Address of this view" });
  const box = make("dialog", "list", { "aria-label": "Link to this view" }, status, address);
  const show = (text) => {
    status.textContent = text;
    address.value = location.href;
    box.show();
    address.select();
  };
  const opens = "It opens this page with all that is chosen now.";
  return {
    button,
    box,
    toggle() {
      if (box.open) return box.close();
      show(`Copy this link. ${opens}`);
      // Without https a browser does not let pages copy.
      return navigator.clipboard?.writeText(location.href).then(
        () => show(`The link is copied. ${opens}`),
        () => undefined,
      );
    },
  };
}

function panel(data, send) {
  const row = (tag, label, does, ...more) =>
    make(tag, "row", make("kbd", "", label), make("span", "", does), ...more);
  const more = [...data.more, ["?", "this list"], ["Esc", "close it"]];
  return make("dialog", "list all", { "aria-label": "Keys" },
    data.keys.map(([, label, does, go]) => row("button", label, does, { onclick: () => send(go) })),
    more.map(([label, does]) => row("div", label, does)));
}
