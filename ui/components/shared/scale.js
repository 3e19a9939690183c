// The scale below a map: its colours and the labels of both ends.
import { canvasOfImage, imageOf } from "./colours.js";
import { make } from "./view.js";

export function buildScale(low, high, ...more) {
  const ends = [make("span", "", low), make("canvas"), make("span", "", high)];
  return make("div", "scale", { "aria-hidden": "true" }, ...ends, ...more);
}

// The scale of attention weights, the same below every map.
export function buildWeightScale() {
  return buildScale("0", "1", make("span", "unit reading"));
}

// The labelled ends of a scale of differences.
export function signedEnds({ ends: [low, high], limit }) {
  return [`${low} \u2212${limit}`, `+${limit} ${high}`];
}

// Draws a scale in the colours of `theme`; `reading` says how to read it in each (figures/palette.py).
export function drawScale(scale, words, reading) {
  canvasOfImage(imageOf(1, 256, (level) => words[level]), scale.querySelector("canvas"));
  const note = scale.querySelector(".reading");
  if (note) note.textContent = `attention weight, ${reading}`;
}
