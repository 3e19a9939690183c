// The frame's keyboard shortcuts, the hint that lists them, and the link to the view. Shortcuts are
// ignored while someone types; one is sent to Python as the trigger `go`.
import { HELPS, IDLE, MAIN, OPEN, replaceBareAddresses, SKIP } from "../../platform/page.js";
import { make, shown } from "../shared/index.js";

const STOPS = "a[href], button, input, select, textarea, summary, [tabindex]";
// What a picture may do with a key, as `nameOf` writes it.
const MOVES = ["ArrowLeft", "ArrowRight", "Home", "End", " "];
const SCROLLS = { ArrowDown: 0.7, ArrowUp: -0.7 }; // of the window, while presenting
const MODIFIERS = new Set(["Shift", "Control", "Alt", "Meta"]);
let watched = null; // the texts of results before the last click

replaceBareAddresses();

function component({ root, header: data }, { setTriggerValue }) {
  const wasOpen = root.querySelector(".all")?.open;
  const acts = new Map(data.keys.flatMap(([names, , , go]) => names.map((name) => [name, go])));
  const send = (go) => setTriggerValue("go", go);
  const leave = () => {
    let focused = document.activeElement;
    while (focused?.shadowRoot?.activeElement) focused = focused.shadowRoot.activeElement;
    focused?.blur();
    send(data.lecturing ? "leave-lecture" : "present");
  };

  const blank = make("div", "blank", { hidden: "" });
  blank.hidden = !root.querySelector(".blank") || root.querySelector(".blank").hidden;
  const act = (go) => {
    if (go === "blank") blank.hidden = !blank.hidden;
    else send(go);
  };
  const list = panel(data, act);
  const link = linkTo();
  const onclick = () => {
    link.box.close();
    toggle(list);
  };
  const hint = make("button", "hint", { "aria-label": "All keys", title: "All keys", onclick },
    make("kbd", "", "?"), make("span", "word", "keys"));
  link.button.onclick = () => {
    list.close();
    link.toggle();
  };
  // An overtaken run leaves the style of the mode that it ended.
  for (const [name, on] of Object.entries({ presenting: data.presenting, lecture: data.lecturing })) {
    for (const style of document.querySelectorAll(`style.${name}`)) style.media = on ? "all" : "not all";
  }
  root.classList.toggle("presenting", data.presenting);
  root.classList.toggle("lecturing", data.lecturing);
  const gloss = make("div", "gloss", { role: "status", hidden: "" });
  root.replaceChildren(link.button, hint, link.box, list, gloss, blank);
  if (wasOpen) list.show();
  offerSkip();
  if (data.evidence && data.evidence !== root.evidence) scrollTo(data.evidence);
  root.evidence = data.evidence;

  const onKey = (event) => {
    if (event.key === "Tab") return reach(document.querySelector(MAIN));
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.defaultPrevented || event.repeat || MODIFIERS.has(event.key)) return;
    const target = event.composedPath()[0];
    if (!blank.hidden) { // any key brings the picture back
      blank.hidden = true;
      event.preventDefault();
      return event.stopImmediatePropagation();
    }
    if (event.key === "Escape") {
      const box = [link.box, list].find((each) => each.open);
      if (box) return box.close();
      // Open popovers close first, and a picture may drop its selection.
      if (data.presenting && !document.querySelector(OPEN)) {
        setTimeout(() => event.defaultPrevented || leave());
      }
      return;
    }
    if (typing(target, nameOf(event))) return;
    if (data.presenting && !data.lecturing && MOVES.includes(nameOf(event)) && idle(target, event.key)) return pass(event);
    if (data.presenting && !data.lecturing && target.matches(`body, ${MAIN}`) && SCROLLS[event.key]) {
      document.querySelector(MAIN).scrollBy({ top: SCROLLS[event.key] * innerHeight, behavior: "smooth" });
      return event.preventDefault();
    }
    if (event.key === "?") {
      event.preventDefault();
      toggle(list);
      return;
    }
    const go = acts.get(nameOf(event));
    if (!go) return;
    event.preventDefault();
    event.stopPropagation();
    act(go);
  };
  // A button that was clicked still has the focus; arrows mean nothing to it outside a picture.
  const idle = (target, key) => target.matches(`body, ${MAIN}`) || (key.startsWith("Arrow")
    && target.matches("button:not([role])") && [null, root].includes(target.closest(".component")));
  // A finger cannot hover: what it taps shows the title that a mouse would read, and Streamlit's help
  // and charts get a mouse's events.
  const onTap = (event) => {
    const touched = event.pointerType === "touch";
    const of = event.composedPath().find((each) => touched && each.getAttribute?.("title"));
    gloss.hidden = !of;
    gloss.textContent = of?.title ?? "";
    const at = aside(event);
    watched = said(); // an earlier click's result no longer counts
    if (!at.matches("canvas, .switch")) bring(watched); // a map says at its cell where the answer is
    if (root.hovered) hover(root.hovered, event, ["pointerout", "mouseout"]);
    root.hovered = touched && at.closest(HELPS) && at;
    // Help that opened during a tap would close with it.
    if (root.hovered) setTimeout(hover, 100, at, event, ["pointerover", "pointermove", "mouseover", "mousemove"]);
  };
  // Ahead of the components on the page, which use the arrows. This runs for every message and must
  // not listen twice.
  root.unlisten?.();
  const heard = { keydown: onKey, click: onTap, pointerdown: aside, pointerup: aside };
  const listen = (act) => {
    for (const [name, on] of Object.entries(heard)) document[act](name, on, { capture: true });
  };
  listen("addEventListener");
  root.unlisten = () => listen("removeEventListener");
  return root.unlisten;
}

// Help within a switch's label must not turn the switch. Returns: the pressed element.
function aside(event) {
  const [at] = event.composedPath();
  if (at.closest(HELPS)?.closest("label")) {
    event.stopPropagation();
    event.preventDefault();
  }
  return at;
}

function hover(target, { clientX, clientY }, names) {
  const about = { bubbles: true, composed: true, clientX, clientY, pointerType: "mouse" };
  for (const name of names) target.dispatchEvent(new PointerEvent(name, about));
}

// Scrolls to a heading by its id, or a part of a component by its class, once the page has it, and again
// while content above it still loads. A tour's bar with the answer stays above it.
function scrollTo(name, tries = 40) {
  const parts = [...document.querySelectorAll(`${MAIN} *`)];
  const at = document.getElementById(name)
    ?? parts.map((each) => each.shadowRoot?.querySelector(`.${name}`)).find(Boolean);
  if (at) {
    const bar = document.querySelector(".st-key-tour")?.getBoundingClientRect().height ?? 0;
    at.style.scrollMarginTop = `calc(${bar}px + 4.5rem)`;
    at.scrollIntoView();
  }
  const idle = document.querySelector(IDLE); // only then do the attempts run out
  if (tries && !(at && idle)) setTimeout(scrollTo, 250, name, tries - Boolean(idle));
}

// Text of a click's results; containers of results have keys with this prefix.
function said() {
  return new Map([...document.querySelectorAll("[class*=st-key-result_]")].map((each) => [each.textContent, each]));
}

// Brings a result that differs from those `before` into sight, once no script runs: as much of it as says
// it; and again for some seconds if what comes above or in it moves its ends. Another page begins at its top.
function bring(before, tries = 80, path = location.pathname, place = null) {
  if (before !== watched || path !== location.pathname || !tries) return;
  const fresh = [...said()].flatMap(([text, each]) => (text && !before.has(text) ? [each] : []));
  const inSight = (each) => ((at) => at.top >= 0 && at.top < innerHeight - 100)(each.getBoundingClientRect());
  const result = fresh.find(inSight) ?? fresh.at(-1); // one in sight, or the nearest to its details
  const idle = document.querySelector(IDLE);
  if (!result || !idle) return setTimeout(bring, 100, before, tries - Boolean(idle), path, place);
  const main = document.querySelector(MAIN);
  const { top, bottom } = result.getBoundingClientRect();
  const foot = innerHeight - (document.querySelector(".st-key-edits")?.getBoundingClientRect().height ?? 0);
  const far = top < 70 ? top - 70 : Math.max(0, Math.min(bottom, top + 180) + 12 - foot);
  const now = [top + main.scrollTop, bottom - top, foot].map(Math.round).join();
  if (now !== place) main.scrollBy({ top: far, behavior: "smooth" });
  setTimeout(bring, 100, before, Math.min(tries, 40) - 1, path, now);
}

// While presenting, keys reach the page's first picture without a click. The picture alone handles
// the keys that it uses.
function pass(event) {
  const picture = firstPicture();
  picture?.focus({ preventScroll: true });
  if (!picture || picture.dispatchEvent(new KeyboardEvent("keydown", event))) return;
  event.preventDefault();
  event.stopImmediatePropagation();
}

function firstPicture() {
  const stops = ".component[tabindex='0'], .component [tabindex='0']";
  return [...document.querySelectorAll(`${MAIN} *`)]
    .flatMap((each) => [...(each.shadowRoot?.querySelectorAll(stops) ?? [])])
    .find((each) => each.role !== "radio" && !each.closest(".strip")); // a sentence is not a picture
}

// A second link beside Streamlit's "Skip to main content", past the controls to the first picture.
function offerSkip() {
  const skip = document.querySelector(SKIP);
  if (!skip || skip.nextElementSibling?.matches(".skip-to-picture")) return;
  const link = skip.cloneNode();
  delete link.dataset.testid;
  link.classList.add("skip-to-picture");
  link.textContent = "Skip to the picture";
  link.onclick = (event) => {
    event.preventDefault();
    (firstPicture() ?? document.querySelector(MAIN)).focus();
  };
  skip.after(link);
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

// Whether the focused element uses the key, as `nameOf` writes it: text fields, and controls that
// arrows move.
function typing(target, key) {
  if (!(target instanceof Element)) return false;
  if (target.isContentEditable) return true;
  if (target.matches("textarea, select, [role=textbox], [role=combobox], [role=listbox]")) {
    return true;
  }
  if (!target.matches("input, [role=slider]")) return false;
  const plain = ["button", "checkbox", "radio", "range", "submit", "reset", "image", undefined];
  return !plain.includes(target.type) || key.startsWith("Arrow");
}

function toggle(list) {
  if (list.open) list.close();
  else list.show();
}

// A button that copies the page's address, which holds every choice on it, and shows it.
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
  const opens = "It opens this page with your current choices.";
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
  const mode = data.lecturing ? "the lecture" : "presenter mode";
  const leave = data.presenting ? `close it, or leave ${mode}` : "close it";
  const more = [...data.more, ["?", "this list"], ["Esc", leave]];
  return make("dialog", "list all", { "aria-label": "Keys" },
    data.keys.map(([, label, does, go]) => row("button", label, does, { onclick: () => send(go) })),
    more.map(([label, does]) => row("div", label, does)));
}

export default (host) => shown(host, "keys", component);
