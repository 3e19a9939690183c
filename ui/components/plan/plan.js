// Figure 1 of the paper for one checkpoint and sentence: a picture that plays the translation and unfolds its
// blocks in place. Reports the choice, "open" for a part as a page, and "touch" for a change of the model.
import { MAIN } from "../../platform/page.js";
import { enlarged, extend, isOffline, make, modified, pageTop, shown, syncChoice, watch, windowHeight }
  from "../shared/index.js";
import { fillCard } from "./card.js";
import { Data, KINDS } from "./data.js";
import { coloursOf, drawPicture } from "./draw.js";
import { focusOf, layOut, openLayer, parseFocus } from "./layout.js";
import { placeBands, placeCandidates, placeTokens } from "./marks.js";
import { buildPlayer, stop, togglePlay, writeLine } from "./play.js";
import { fillPanel } from "./unfold.js";

// The last change of the model: its control, its step and where they were, for a picture that the page mounts anew;
// and the numbers of the last message, after those before its change.
const touched = (window[Symbol.for("headlight.touched")] ??= {});

function component({ root, header, body }, host) {
  root.halt?.();
  const view = {
    root, header, host, data: new Data(header, body), kinds: KINDS, frames: 0, lit: null, peek: null, hover: null, key: null, need: 0,
    lost: root.plan?.lost, taken: touched.row, time: { up: [1, 1] }, alive: !isOffline(header), marks: new Map(),
  };
  const same = ([, p, id], [, was, other]) => p === was && id === other;
  const old = header.was.length ? touched.kept?.find((kept) => header.was.every((all, t) => kept.header.candidates[t]?.every((now, n) => same(now, all[n] ?? [])))) : null;
  touched.kept = [old ?? [], view.data].flat();
  view.before = (s) => (old && (!s || view.state.row < header.was.length) && old.row(s, s ? view.state.row : view.state.source) >= 0 ? old : null); // for the chosen token
  const choice = syncChoice(host, header);
  const take = (state) => {
    view.state = clamped(header, state);
    view.focus = parseFocus(view.state.focus, header.stacks);
  };
  take(choice.value);
  // `quiet` changes are not reported: the steps of a running film, which other choices leave.
  view.choose = (change, { quiet = false, lost } = {}) => {
    const left = !quiet && stop(view);
    const before = JSON.stringify(view.state);
    take({ ...view.state, ...change });
    if (JSON.stringify(view.state) === before && view.lost === lost && !left && !quiet) return;
    view.lost = lost;
    if (!quiet) choice.set(view.state);
    draw();
  };
  view.unfold = (part) => {
    Object.assign(view, { since: performance.now(), lit: null, peek: null });
    view.choose({ focus: part === null ? focusOf(view, { ...view.focus, block: null, head: null }) : focusOf(view, part) });
  };
  // Lights the parts of a name, in formula, panel, lines and text.
  view.light = (part) => {
    view.lit = part;
    for (const mark of root.querySelectorAll("[data-part]")) mark.classList.toggle("lit", mark.dataset.part === part);
    for (const word of document.querySelectorAll("strong")) word.style.outline = part && header.texts.named[word.textContent] === part ? "1px solid" : "";
    drawPicture(view);
  };
  document.onpointerover = document.onpointerout = ({ target, type }) => {
    const part = target.closest?.("strong") && header.texts.named[target.textContent]; // of a page's text
    if (part && root.isConnected) view.light(type === "pointerover" ? part : null);
  };
  view.glance = (peek) => drawPicture(Object.assign(view, { peek }));
  view.point = (band, { screenX, screenY }) => {
    if (`${screenX} ${screenY}` === touched.place || (band && performance.now() - view.since < 400)) return; // a block that slid under the pointer
    view.hover = band;
    fillCard(view);
  };
  root.onpointermove = ({ screenX, screenY }) => (touched.place = `${screenX} ${screenY}`);
  view.touch = (change) => {
    if (view.film) view.choose(change.what === "take" ? { row: change.query } : {}); // where its candidate is
    const active = root.getRootNode().activeElement;
    Object.assign(touched, { id: active?.dataset.id, row: change.what === "take" ? change.query : null, at: [active ?? root, root].map(topOf) });
    view.send("touch", { layer: 0, head: 0, query: 0, key: 0, ...change });
  };
  view.send = (name, value) => view.alive && host.setTriggerValue?.(name, value);
  build(view);
  const draw = () => {
    view.look = coloursOf(view);
    const { size } = view.look;
    const unit = Math.max(0.9, size / 14);
    view.large = root.classList.toggle("large", enlarged(root) > 1);
    const back = keepFocus(view);
    const room = () => windowHeight() - pageTop(view.stage) - (view.large ? 4 : 14);
    const lay = () => (view.plan = layOut(view, view.stage.clientWidth, Math.max(430, room()), unit * view.scale));
    const fit = () => {
      view.look.size = size * view.scale;
      for (const part of [view.stage.previousSibling, view.stage]) part.style.fontSize = `${view.scale}em`;
      lay();
      fillPanel(view);
      return room() / lay().height;
    };
    // Type grows with the window; it shrinks so that tokens fit in the window. A film keeps its size.
    view.scale = view.film ? view.scale : Math.max(1, Math.min(1.4, view.stage.clientWidth / 900 / unit, (windowHeight() - pageTop(root) - 52) / 574 / unit));
    const least = (view.large ? (view.focus.head === null ? 8.6 : 7) + 7.6 * enlarged(root) : 13) / 14 / unit; // its small lines have 12 px, presenting 15 or 18, less in a head
    for (let share = fit(); share < 0.99 && view.scale > least && !view.plan.narrow; share = fit()) {
      view.scale = Math.max(least, view.scale * share);
    }
    view.stage.style.height = `${lay().height}px`;
    for (const name of ["narrow", "tight"]) root.classList.toggle(name, view.plan[name]);
    view.marks.clear();
    writeLine(view);
    placeTokens(view);
    placeBands(view);
    placeCandidates(view);
    fillCard(view);
    drawPicture(view);
    back();
  };
  view.draw = draw;
  root.halt = () => stop(view);
  root.plan = view; // for tests and the console
  const unwatch = watch(root, draw);
  return () => {
    stop(view);
    unwatch();
  };
}

// Records the focused element. Returns a function that focuses the one that took its place, or the block that
// was folded.
function keepFocus(view) {
  const { root } = view;
  const active = root.getRootNode().activeElement;
  const folded = view.shown;
  const id = touched.id ?? active?.dataset.id;
  if (!touched.id && !root.contains(active)) return () => {};
  return () => {
    if (root.contains(root.getRootNode().activeElement)) return;
    const { s, layer } = view.focus;
    const at = (end, from = "") => root.querySelector(`.band[data-id$="${from}${end}"]`);
    const open = `${view.header.stacks[s].name}.${layer + 1}.`;
    const same = root.querySelector(`[data-id="${id}"]:not([aria-expanded=true])`);
    const block = at((folded ?? "").split(".").slice(0, 3).join(".")) ?? at(id?.split(".").at(-1), open) ?? at("self", open);
    const next = same ?? (view.panel.hidden ? block : view.panel.querySelector(".fold"));
    (next ?? view.play).focus({ preventScroll: true });
    if (view.film) view.point(null, {}); // the text stays the film's
    if (touched.id) hold(view, touched.id, touched.at, performance.now() + 1000);
    touched.id = null;
  };
}

const topOf = (element) => element.getBoundingClientRect().top;

// Keeps a control, or else the picture, where it was in the window while the page around it settles.
function hold({ root }, id, [at, all], end) {
  const main = document.querySelector(MAIN);
  let free = false;
  for (const type of ["pointerdown", "wheel", "keydown"]) window.addEventListener(type, () => (free = true), { once: true });
  const frame = () => {
    if (free || !main || !root.isConnected) return;
    const same = root.querySelector(`[data-id="${id}"]`);
    const away = () => (same ? topOf(same) - at : topOf(root) - all);
    main.scrollTop += away();
    if (away() > 1) root.style.paddingBottom = `${away()}px`; // the page became too short
    if (performance.now() < end) requestAnimationFrame(frame);
  };
  frame();
}

function clamped({ stacks }, chosen) {
  const inside = (value, length) => (Number.isInteger(value) ? Math.min(length - 1, Math.max(0, value)) : 0);
  return {
    source: inside(chosen?.source, stacks[0].tokens.length),
    row: inside(chosen?.row, stacks[1].tokens.length),
    focus: chosen?.focus || `decoder.${stacks[1].depth}`,
  };
}

// The elements that stay.
function build(view) {
  const { root, header: { stacks } } = view;
  extend(root, { role: "group", "aria-label": `The whole model, ${stacks.map(({ depth, name }) => `${depth} ${name}`).join(" and ")} layers` });
  root.removeAttribute("tabindex");
  view.canvas = make("canvas", "lines", { "aria-hidden": "true" });
  view.card = make("div", "card");
  view.panel = make("section", "unfolded", { hidden: "", tabindex: -1 }); // a click in it keeps the keys
  view.bands = make("div", "bands");
  view.tokens = make("div", "columns");
  view.candidates = make("div", "candidates", { role: "group", "aria-label": "Most probable next tokens" });
  view.said = make("p", "unseen", { role: "status" });
  view.stage = make("div", "stage", view.bands, view.canvas, view.tokens, view.candidates, view.card, view.panel);
  root.replaceChildren(buildPlayer(view), view.stage, view.said);
  root.onkeydown = (event) => onKey(view, event);
  const around = ([target]) => root.isConnected && target.contains?.(root.getRootNode().host ?? root.parentNode);
  document.onkeydown = (event) => (around(event.composedPath()) ? onKey(view, event) : null); // the page has the keys, not a control
}

// Keys: Space plays, left and right step, up and down change the layer, Escape folds.
function onKey(view, event) {
  if (modified(event) || event.defaultPrevented || event.target.matches?.("select, input")) return;
  const { root, focus, header } = view;
  const act = {
    Escape: () => view.unfold(focus.head === null ? null : { ...focus, head: null }),
    ArrowRight: () => view.choose({ row: view.state.row + 1 }),
    ArrowLeft: () => view.choose({ row: view.state.row - 1 }),
    p: () => togglePlay(view),
  }[event.key];
  const by = { ArrowUp: 1, ArrowDown: -1 }[event.key];
  if (by && root.contains(event.target) && !event.target.closest?.(".body")) {
    const { s } = view.plan.stacks.flatMap(({ bands }) => bands).find(({ mark }) => mark === event.target) ?? focus;
    const layer = Math.min(header.stacks[s].depth - 1, Math.max(0, openLayer(view, s) + by));
    const block = s !== focus.s || ["embedding", "softmax"].includes(focus.block) ? null : focus.block;
    event.preventDefault();
    view.unfold({ ...focus, s, layer, block });
  } else if (act && !(event.key === "Escape" && !focus.block)) {
    event.preventDefault();
    act();
  }
}

export default (host) => shown(host, "plan", component);
