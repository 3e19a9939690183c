// The film: the source rises through the encoder once; then one token after another climbs the decoder, and its word lands
// in the translation and enters below, shifted right.
import { calm, make, plain, touching } from "../shared/index.js";
import { changeOf, fillCard } from "./card.js";
import { drawPicture, isAhead, partNow } from "./draw.js";
import { placeCandidates } from "./marks.js";

const LAYER = 1000; // milliseconds for a layer, whose sentence is read
const LATER = 600; // after the source and two tokens
const STAY = 1200; // with the candidates and the way to the next input
const SPEEDS = [0.5, 1, 2, 4];

export function buildPlayer(view) {
  const button = (name, text, label, onclick) => make("button", name, text, { "aria-label": label, title: touching() ? "" : label, onclick });
  view.play = make("button", "play", { onclick: () => togglePlay(view) });
  const speed = make("select", "speed", { "aria-label": "Speed", onchange: () => (view.speed = Number(speed.value)) },
    SPEEDS.map((value) => make("option", "", `${value}×`, { value, ...(value === 1 ? { selected: "" } : {}) })));
  view.speed = 1;
  view.count = make("span", "count");
  view.line = make("p", "translation", { "aria-label": "Translation" });
  labelPlay(view);
  return make("div", "player", view.play,
    button("step", "‹", "Step back", () => view.choose({ row: view.state.row - 1 })), view.count,
    button("step", "›", "Step on", () => view.choose({ row: view.state.row + 1 })), speed, view.line);
}

// True if a press of Play is a step: without motion, and in long texts, whose steps are requests.
function steps(view) {
  return calm() || view.header.stacks.some(({ rows }) => rows);
}

function labelPlay(view) {
  view.play.textContent = view.film?.turn ? "Pause" : steps(view) && !view.film ? "Step" : "Play";
}

// The translation, the word of this step, and the words that the last change altered.
export function writeLine(view) {
  const { header, state, film } = view;
  const changed = (t) => header.changed?.includes(t);
  view.count.textContent = `step ${state.row + 1} of ${header.predicted.length}`;
  const lost = (t) => (film ? [] : header.lost.filter(([place]) => place === t).map(([, token]) => [token, t, token]));
  const back = header.lost[0]?.[0] === view.taken && header.candidates[view.taken]?.find(([token]) => token === header.lost[0][1]);
  const decoders = [new TextDecoder(), new TextDecoder()]; // byte tokens make a letter together
  const words = header.predicted.flatMap((token, t) => [...lost(t), [token, t]]).map(([token, t, gone]) => {
    const [, byte] = token.match(/^<0x(..)>$/) ?? [];
    const end = !byte && /^<.+>$/.test(token);
    const text = byte ? decoders[Number(Boolean(gone))].decode(Uint8Array.of(parseInt(byte, 16)), { stream: true })
      : end ? ` ${token}` : token.replaceAll("\u2581", " ");
    const look = ["word", t === state.row && "now", film && t >= state.row + Number(Boolean(film.landed)) && "coming", changed(t) && "changed", end && "quiet"];
    const shown = text.trim() || text;
    const word = make(gone ? "button" : "span", gone ? "quiet" : look.filter(Boolean).join(" "), gone ? make("s", "", shown) : shown, {
      dir: "auto", onclick: () => (gone && back ? view.touch({ what: "take", kind: "cross", query: view.taken, key: back[2] }) : view.choose({ row: t }, { lost: gone })),
      ...(gone ? { title: back ? "Back to the model's own words" : "Lost by the last change: show the step" } : changed(t) ? { title: "New by the last change" } : {}),
    });
    return text.startsWith(" ") && shown !== text ? [" ", word] : [word];
  });
  // On a phone, the card with this is far away.
  const heads = header.out.map(([, layer, head]) => `${layer + 1}.${head + 1}`);
  const off = heads.length && `Edited: ${heads.length > 3 ? `${heads.length} heads` : `head ${heads.join(", ")}`} off`;
  const answer = view.plan.narrow && !film ? [off, ...changeOf(view, [off ? ", " : "Last change: ", " ", " → ", ""])] : [];
  view.line.replaceChildren(...words.flat(), make("div", "", answer));
}

const isLast = ({ state, header }) => state.row + 1 === header.predicted.length;

// Plays, or freezes the film where it is.
export function togglePlay(view) {
  const { film, state } = view;
  if (film?.turn) {
    film.turn = null;
    labelPlay(view);
    fillCard(view);
  } else if (film) roll(view);
  else if (steps(view)) view.choose({ row: isLast(view) ? 0 : state.row + 1 });
  else {
    view.film = { parts: 0 };
    view.root.classList.add("playing");
    begin(view, view.resume && !isLast(view) ? state.row : -1);
  }
}

// Begins a row, or the source for -1.
function begin(view, row) {
  Object.assign(view.film, { row, at: 0, landed: false, parts: view.film.parts + 1 });
  view.time.up = row < 0 ? [0, 0] : [1, 0];
  view.root.classList.add("waiting");
  view.choose({ row }, { quiet: true });
  if (view.plan.narrow && row <= 0) { // the film stays in sight where a stack is as high as the window
    (row < 0 ? view.root : view.candidates).scrollIntoView({ block: row < 0 ? "start" : "end", behavior: "smooth" });
  }
  roll(view);
}

// Runs the film on from where it is, until it is paused or left.
function roll(view) {
  const { film, film: { row } } = view;
  const s = row < 0 ? 0 : 1;
  const turn = (film.turn = {});
  view.hover = null; // the text is the film's until the pointer moves
  labelPlay(view);
  fillCard(view);
  const frame = (now) => {
    if (view.film?.turn !== turn || !view.root.isConnected) return;
    film.at += (now - (turn.last ?? now)) * view.speed;
    turn.last = now;
    const share = wayIn(view.plan.stacks[s], film.at / (film.parts > 3 ? LATER : LAYER));
    if (view.time.up[s] !== share) {
      view.time.up[s] = share;
      view.root.classList.toggle("waiting", share < 1);
      if (view.held && !isAhead(view, view.plan.stacks[view.focus.s], view.plan.panel)) view.draw();
      else drawPicture(view);
      const { layer } = partNow(view);
      if (layer !== film.layer) fillCard(view);
      film.layer = layer;
    }
    if (share === 1 && row >= 0 && !film.landed) land(view, row);
    if (share < 1 || (s && film.at < film.landed + STAY)) requestAnimationFrame(frame);
    else if (s && isLast(view)) view.choose({});
    else begin(view, row + 1);
  };
  requestAnimationFrame(frame);
}

// The share of the way up a stack, when so many layers' time is gone: each takes one, the one with its blocks two.
function wayIn({ bands }, time) {
  const [first, ...flow] = bands.filter(({ kind }) => kind !== "candidates");
  for (const { layer, t, length } of flow) {
    const own = flow.filter((band) => band.layer === layer);
    const takes = layer === undefined ? 0.3 : (Math.min(2, own.length) * length) / own.reduce((sum, band) => sum + band.length, 0);
    if (time < takes) return (t + (length * time) / takes - first.length) / (flow.at(-1).t + flow.at(-1).length - first.length);
    time -= takes;
  }
  return 1;
}

// The word flies from the candidates into the translation, and below as the next input.
function land(view, row) {
  view.film.landed = view.film.at;
  placeCandidates(view);
  fillCard(view);
  const from = view.candidates.querySelector("[aria-pressed=true]");
  const word = view.line.querySelectorAll(".word")[row];
  word?.classList.remove("coming");
  view.said.textContent = plain(view.header.predicted[row]);
  drawPicture(view);
  if (!from) return;
  const stops = [from.querySelector("bdi"), word, view.marks.get(`row.${row + 1}`)].filter(Boolean);
  const base = view.root.getBoundingClientRect();
  const ghost = make("span", "ghost", stops[0].textContent);
  view.root.append(ghost);
  const frames = stops.map((stop) => stop.getBoundingClientRect()).map(({ left, top }, n) =>
    ({ transform: `translate(${left - base.left}px, ${top - base.top}px)`, opacity: n < 2 ? 1 : 0.4, easing: "ease-in-out" }));
  const film = ghost.animate(frames, { duration: (420 * (stops.length - 1)) / view.speed });
  film.onfinish = film.oncancel = () => ghost.remove();
}

// Leaves the film, and returns true if there was one. Play goes on with the chosen step.
export function stop(view) {
  if (!view.film) return false;
  Object.assign(view, { film: null, resume: true, time: { up: [1, 1] } });
  view.root.classList.remove("waiting", "playing");
  labelPlay(view);
  return true;
}
