// The scale below a map: its colours and the labels of both ends.

function buildScale(low, high, ...more) {
  const scale = make("div", "scale");
  scale.setAttribute("aria-hidden", "true");
  scale.append(make("span", "", low), make("canvas", ""), make("span", "", high), ...more);
  return scale;
}

// The labelled ends of a scale of differences.
function signedEnds({ ends: [low, high], limit }) {
  return [`${low} \u2212${limit}`, `+${limit} ${high}`];
}

function drawScale(scale, words) {
  setPixels(scale.querySelector("canvas"), 1, 256, (level) => words[level]);
}
