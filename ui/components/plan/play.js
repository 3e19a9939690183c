// The film: the source rises through the encoder once; then one token after another climbs the decoder, and its word lands
// in the translation and enters below, shifted right.
import { calm, make, plain } from "../shared/index.js";
import { fillCard } from "./card.js";
import { drawPicture, partNow } from "./draw.js";
import { placeCandidates } from "./marks.js";

const SOURCE = 1000; // milliseconds for a layer of the encoder: a sentence says what it does
const LAYER = 600; // and of the decoder
const STAY = 1200; // with the candidates and the way to the next input
const SPEEDS = [0.5, 1, 2, 4];

export function buildPlayer(view) {
  const button = (name, text, label, onclick) => make("button", name, text, { "aria-label": label, title: label, onclick });
  view.play = make("button", "play", { onclick: () => togglePlay(view) });
  const speed = make("select", "speed", { "aria-label": "Speed", onchange: () => (view.speed = Number(speed.value)) },
    SPEEDS.map((value) => make("option", "", `${value}×`, { value, ...(value === 1 ? { selected: "" } : {}) })));
  view.speed = 1;
  view.count = make("span", "count");
  view.line = make("p", "translation", { "aria-label": "Translation" });
  labelPlay(view);
  return make("div", "player", view.play,
    button("step", "‹", "Step back", () => stepTo(view, view.state.row - 1)), view.count,
    button("step", "›", "Step on", () => stepTo(view, view.state.row + 1)), speed, view.line);
}

// True if a press of Play is a step: without motion, and in long texts, whose steps are requests.
function steps(view) {
  return calm() || view.header.stacks.some(({ rows }) => rows);
}

function labelPlay(view) {
  view.play.textContent = view.film ? "Pause" : steps(view) ? "Step" : "Play";
}

// The translation, the word of this step, and the words that the last change altered.
export function writeLine(view) {
  const { header, state, film } = view;
  const changed = (t) => header.changed?.includes(t);
  view.count.textContent = `step ${state.row + 1} of ${header.predicted.length}`;
  const lost = (t) => (film ? [] : header.lost.filter(([place]) => place === t).map(([, token]) => [token, -1]));
  const words = header.predicted.flatMap((token, t) => [...lost(t), [token, t]]).map(([token, t]) => {
    const end = /^<.+>$/.test(token);
    const text = end ? ` ${token}` : token.startsWith("\u2581") ? ` ${token.slice(1)}` : token;
    const look = ["word", t === state.row && "now", film && t >= state.row && "coming", changed(t) && "changed", end && "quiet"];
    const word = make(t < 0 ? "s" : "span", t < 0 ? "quiet" : look.filter(Boolean).join(" "), plain(text.trim() || "_"), {
      dir: "auto", onclick: () => stepTo(view, t),
      ...(changed(t) ? { title: "New by the last change" } : t < 0 ? { title: "Lost by the last change" } : {}),
    });
    return text.startsWith(" ") ? [" ", word] : [word];
  });
  view.line.replaceChildren(...words.flat(), make("span", "quiet", header.changed?.length + header.lost.length === 0 ? " (nothing changed)" : ""));
}

export function stepTo(view, row) {
  stop(view);
  if (row >= 0 && row < view.header.predicted.length) view.choose({ row });
}

export function togglePlay(view) {
  if (view.film) {
    stop(view);
    view.report();
    return;
  }
  const n = view.header.predicted.length;
  if (steps(view)) {
    stepTo(view, (view.state.row + 1) % n);
    return;
  }
  const from = view.resume ?? -1;
  view.film = { row: from };
  view.root.classList.add("playing");
  begin(view, from);
}

// Begins a row, or the source for -1.
function begin(view, row) {
  const { film, header } = view;
  Object.assign(film, { row, since: null, landed: false });
  view.time.up = row < 0 ? [0, 0] : [1, 0];
  view.root.classList.add("waiting");
  const before = view.state.row;
  view.choose({ row: Math.max(0, row) }, { quiet: true });
  if (before === Math.max(0, row)) view.draw();
  if (view.plan.narrow && row <= 0) { // the film stays in sight where a stack is as high as the window
    (row < 0 ? view.root : view.candidates).scrollIntoView({ block: row < 0 ? "start" : "end", behavior: "smooth" });
  }
  labelPlay(view);
  const time = row < 0 ? SOURCE * header.stacks[0].depth : LAYER * header.stacks[1].depth + 200;
  const frame = (now) => {
    if (view.film !== film || film.row !== row) return;
    if (!view.root.isConnected) {
      stop(view);
      return;
    }
    film.since ??= now;
    const share = Math.min(1, ((now - film.since) * view.speed) / time);
    if (view.time.up[row < 0 ? 0 : 1] !== share) {
      view.time.up[row < 0 ? 0 : 1] = share;
      view.root.classList.toggle("waiting", share < 1);
      drawPicture(view);
      const { layer } = partNow(view);
      if (layer !== film.layer) fillCard(view);
      film.layer = layer;
    }
    if (share === 1 && row >= 0 && !film.landed) land(view, row);
    if ((now - film.since) * view.speed < time + (row < 0 ? 0 : STAY)) requestAnimationFrame(frame);
    else if (row + 1 < header.predicted.length) begin(view, row + 1);
    else {
      stop(view, null);
      view.report();
    }
  };
  requestAnimationFrame(frame);
}

// The word flies from the candidates into the translation, and below as the next input.
function land(view, row) {
  view.film.landed = true;
  placeCandidates(view);
  fillCard(view);
  const from = view.candidates.querySelector("[aria-pressed=true]");
  const word = view.line.querySelectorAll(".word")[row];
  word?.classList.remove("coming");
  view.said.textContent = plain(view.header.predicted[row]);
  drawPicture(view);
  for (const to of [word, view.marks.get(`row.${row + 1}`)]) if (from && to) fly(view, from, to);
}

function fly(view, from, to) {
  const [a, b, base] = [from, to, view.root].map((element) => element.getBoundingClientRect());
  const ghost = make("span", "ghost", from.querySelector("bdi").textContent);
  view.root.append(ghost);
  const at = ({ left, top, width }) => `translate(${left + width / 2 - base.left}px, ${top - base.top}px)`;
  const film = ghost.animate([{ transform: at(a), opacity: 1 }, { transform: at(b), opacity: 0.4 }],
    { duration: 420 / view.speed, easing: "ease-in-out" });
  film.onfinish = film.oncancel = () => ghost.remove();
}

// Stops the film; a pause continues with the same row.
export function stop(view, resume = view.film?.row) {
  if (!view.film) return;
  view.film = null;
  view.resume = resume ?? undefined;
  view.time.up = [1, 1];
  view.root.classList.remove("waiting", "playing");
  labelPlay(view);
  view.draw();
}
