// Runs in the page before anything else, see pace.py and views.py. `pace.arm(name, ...args)` waits
// for the next click, key or choice and then notes in `pace.took` how many milliseconds pass until
// `ready[name]` holds and is on screen; `pace.since` counts from a time.
(() => {
  // Components live in shadow roots; looking for them in every frame would cost what is measured.
  const roots = new Set();
  const attach = Element.prototype.attachShadow;
  Element.prototype.attachShadow = function (options) {
    const root = attach.call(this, options);
    roots.add(root);
    return root;
  };
  const all = (selector) =>
    [document, ...roots].flatMap((root) =>
      root === document || root.host.isConnected ? [...root.querySelectorAll(selector)] : []);
  // Its last corner, which is drawn last; reading all of a large canvas would take long.
  const painted = (canvas) => {
    if (!canvas || !canvas.width || !canvas.height) return false;
    const [w, h] = [Math.min(8, canvas.width), Math.min(8, canvas.height)];
    const corner = canvas.getContext("2d").getImageData(canvas.width - w, canvas.height - h, w, h);
    return corner.data.some((byte) => byte > 0);
  };
  const lens = () => all(".lens .plot")[0]?.getAttribute("aria-label") ?? "";
  const ready = {
    // The trivial page has counted so far.
    counted: (count) =>
      all("[data-testid=stText]").some((each) => each.textContent === `Clicked ${count} times`),
    // This cell of the grid is the chosen one, and its map is under the lens.
    chosen: (name) =>
      all(".grid .map[aria-selected=true]")[0]?.getAttribute("aria-label").startsWith(`${name}:`) &&
      lens().startsWith(`${name}:`) && painted(all(".lens canvas.cells")[0]),
    // The grid says of its first map what it said when `pace.remember` was called for this name.
    remembered: (name) =>
      pace.said() === pace.memory[name] && painted(all(".grid canvas.maps")[0]),
    // The grid shows the maps of this name.
    drawn: (label) =>
      all(".grid .table")[0]?.getAttribute("aria-label") === label &&
      painted(all(".grid canvas.maps")[0]),
    // BertViz has drawn this kind, in an element newer than the last call of `pace.age`.
    lines: (kind) => {
      const svg = document.querySelector("#vis svg");
      return svg !== null && document.querySelector("#filter").value === kind &&
        !svg.dataset.before && svg.querySelector("line") !== null;
    },
    // The player stands at this step.
    stepped: (step) => all(".player .count")[0]?.textContent.startsWith(`step ${step} of`),
    stopped: () =>
      [...document.querySelectorAll("[data-testid=stAlert]")].some((each) =>
        each.textContent.includes("Stopped.")),
  };
  // Filled by `pace.notice()`: when work and its bar first appeared, and the longest time for which
  // the main part was blank although the navigation was there, in milliseconds.
  const seen = { blank: 0 };
  let before = performance.now(), blank = 0;
  const notice = () => {
    const now = performance.now(), main = document.querySelector("[data-testid=stMain]");
    if (document.querySelector(".st-key-work")) seen.frame ??= now;
    if (document.querySelector("[data-testid=stProgress]")) seen.bar ??= now;
    const shown = !main || !document.querySelector("[data-testid=stTopNavLink]") ||
      main.innerText.trim() || main.querySelector("canvas, [data-testid=stSkeleton]");
    blank = shown ? 0 : blank + now - before;
    seen.blank = Math.max(seen.blank, blank);
    before = now;
  };
  const pace = (window.pace = {
    memory: {}, took: null, seen,
    notice: () => setInterval(notice, 10),
    said: () => all(".grid .map")[0]?.getAttribute("aria-label") ?? "",
    frames: () => Number(all(".plan .lines")[0]?.dataset.frames ?? 0),
    // Milliseconds, and the frames that the picture of the whole model drew in them.
    watched: async (time) => {
      const [began, before] = [performance.now(), pace.frames()];
      await new Promise((done) => setTimeout(done, time));
      return [performance.now() - began, pace.frames() - before];
    },
    remember: (name) => { pace.memory[name] = pace.said(); },
    age: () => {
      for (const svg of document.querySelectorAll("#vis svg")) svg.dataset.before = "yes";
    },
    holds: (name, ...args) => Boolean(ready[name](...args)),
    since: (began, name, ...args) => {
      pace.took = null;
      const look = () => {
        if (!ready[name](...args)) return requestAnimationFrame(look);
        // What was drawn in one frame is on screen when the next one begins.
        return requestAnimationFrame(() => { pace.took = performance.now() - began; });
      };
      look();
    },
    arm: (name, ...args) => {
      pace.took = null;
      const kinds = ["click", "keydown", "input"];
      const begin = () => {
        for (const kind of kinds) document.removeEventListener(kind, begin, true);
        pace.since(performance.now(), name, ...args);
      };
      for (const kind of kinds) document.addEventListener(kind, begin, true);
    },
  });
})();
