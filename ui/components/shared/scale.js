// The colour scale below a map, with labelled ends.
import { canvasOfImage, imageOf, signedLevel } from "./colours.js";
import { make } from "./view.js";

export function buildScale(low, high, ...more) {
  const ends = [make("span", "", low), make("canvas"), make("span", "", high)];
  return make("div", "scale", { "aria-hidden": "true" }, ...ends, ...more);
}

// The scale of a map's weights, or of differences: to a limit on both sides, or as far as they go on each.
export function scaleOf({ ends, limit, noun = "", range: [low, high] = [limit, limit] }) {
  const unit = noun.includes(" in ") ? ` ${noun.split(" in ")[1]}` : "";
  if (limit) return buildScale(low ? `${ends[0]} \u2212${low}${unit}` : "0", high ? `+${high}${unit} ${ends[1]}` : "0");
  return buildScale("0", "1", make("span", "unit reading"));
}

// Draws a scale, of differences from -low to high; `reading` explains it (figures/palette.py), `noun` names a number.
export function drawScale(scale, words, reading, noun, limit = 1, [low, high] = [limit, limit]) {
  const at = (level) => signedLevel(((low + high) * level) / 255 - low, limit);
  canvasOfImage(imageOf(1, 256, (level) => words[at(level)]), scale.querySelector("canvas"));
  const note = scale.querySelector(".reading");
  if (note) note.textContent = `${noun || "attention weight"}, ${reading}`;
}
