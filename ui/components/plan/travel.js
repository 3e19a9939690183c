// On request the chosen tokens' vectors travel through the model, block by block, and stop.
import { calm } from "../shared/index.js";
import { showBlock } from "./panel.js";

const MOVE = 220; // milliseconds from block to block
const STAY = { main: 620, thin: 260, plate: 90, plain: 380 };

// The places on the way: up the encoder, over to the decoder, up the decoder.
function wayOf(view) {
  const { plan } = view;
  const stops = (s) =>
    plan.blocks
      .filter((block) => block.stack === s && block.look !== "ports")
      .map((block) => ({ id: block.id, look: block.look, to: [[plan.spines[s], block.y + block.h / 2]] }));
  const cross = plan.blocks.find((block) => block.id === "decoder.cross.qkv");
  return [
    { to: [[plan.spines[0], plan.height]], jump: true },
    ...stops(0),
    { id: cross.id, look: "main", to: plan.memory },
    { to: [[plan.spines[1], plan.height]], jump: true },
    ...stops(1),
    { to: [[plan.spines[1], 0]], last: true },
  ];
}

export function labelPlay(view) {
  const still = calm() ? "Step" : "Play";
  view.play.textContent = view.travel && !calm() ? "Stop" : still;
  view.play.title = "Follow the chosen tokens' vectors from block to block.";
}

// Play; where motion is unwanted, each press goes one block further instead.
export function travel(view) {
  const way = wayOf(view);
  if (calm()) {
    do view.stop = ((view.stop ?? -1) + 1) % way.length;
    while (!way[view.stop].id);
    arrive(view, way[view.stop]);
    return;
  }
  view.travel = { way, at: 0, since: null, from: way[0].to[0] };
  view.dot.classList.add("on");
  labelPlay(view);
  const frame = (now) => {
    const going = view.travel;
    if (!going) return;
    if (!view.root.isConnected) {
      stopTravel(view);
      return;
    }
    going.since ??= now;
    const stop = way[going.at];
    const points = stop.jump ? stop.to : [going.from, ...stop.to];
    const time = stop.jump ? 1 : MOVE * (points.length - 1);
    const share = Math.min(1, (now - going.since) / time);
    placeDot(view, along(points, share));
    if (share === 1 && !going.there) {
      going.there = true;
      arrive(view, stop);
    }
    if (now - going.since >= time + (STAY[stop.look] ?? 0)) {
      [going.from, going.at, going.since, going.there] = [stop.to.at(-1), going.at + 1, now, false];
      if (going.at === way.length) {
        stopTravel(view);
        return;
      }
    }
    going.request = requestAnimationFrame(frame);
  };
  view.travel.request = requestAnimationFrame(frame);
}

function arrive(view, stop) {
  if (stop.id) showBlock(view, stop.id);
}

export function stopTravel(view) {
  if (!view.travel) return;
  cancelAnimationFrame(view.travel.request);
  view.travel = null;
  view.dot.classList.remove("on");
  labelPlay(view);
}

function placeDot(view, [x, y]) {
  view.dot.setAttribute("cx", x);
  view.dot.setAttribute("cy", y);
}

// The point at a share of the way along a line of points.
function along(points, share) {
  const lengths = points.slice(1).map(([x, y], i) => Math.hypot(x - points[i][0], y - points[i][1]));
  let left = share * lengths.reduce((sum, length) => sum + length, 0);
  for (let i = 0; i < lengths.length; i++) {
    if (left <= lengths[i] && lengths[i] > 0) {
      const part = left / lengths[i];
      return points[i].map((value, axis) => value + part * (points[i + 1][axis] - value));
    }
    left -= lengths[i];
  }
  return points.at(-1);
}
