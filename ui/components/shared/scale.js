// The colour scale below a map, with labelled ends.
import { canvasOfImage, imageOf } from "./colours.js";
import { make } from "./view.js";

export function buildScale(low, high, ...more) {
  const ends = [make("span", "", low), make("canvas"), make("span", "", high)];
  return make("div", "scale", { "aria-hidden": "true" }, ...ends, ...more);
}

// The scale of a map's weights, or of differences up to a limit.
export function scaleOf({ ends, limit }) {
  if (limit) return buildScale(`${ends[0]} \u2212${limit}`, `+${limit} ${ends[1]}`);
  return buildScale("0", "1", make("span", "unit reading"));
}

// Draws a scale; `reading` explains its colours (figures/palette.py), `noun` names a number.
export function drawScale(scale, words, reading, noun) {
  canvasOfImage(imageOf(1, 256, (level) => words[level]), scale.querySelector("canvas"));
  const note = scale.querySelector(".reading");
  if (note) note.textContent = `${noun || "attention weight"}, ${reading}`;
}
