// Runs in the page before anything else, see views.py. `race.wait` notes in `race.at` when a kind of
// attention is on screen; `race.asked` is the time of the event that asks for another kind.
(() => {
  // The grid lives in a shadow root; looking for it in every frame would cost what is measured.
  const roots = [];
  const attach = Element.prototype.attachShadow;
  Element.prototype.attachShadow = function (options) {
    const root = attach.call(this, options);
    roots.push(root);
    return root;
  };
  const grid = () => {
    for (const root of roots) {
      const found = root.host.isConnected && root.querySelector(".grid [role=grid]");
      if (found) return found;
    }
    return null;
  };
  // Its last corner, which is drawn last; reading all of a large canvas would take long.
  const painted = (canvas) => {
    if (!canvas || !canvas.width || !canvas.height) return false;
    const [w, h] = [Math.min(8, canvas.width), Math.min(8, canvas.height)];
    const corner = canvas.getContext("2d").getImageData(canvas.width - w, canvas.height - h, w, h);
    return corner.data.some((byte) => byte > 0);
  };
  const drawn = {
    headlight: (kind) => {
      const table = grid();
      return table?.getAttribute("aria-label") === kind &&
        painted([...table.querySelectorAll("canvas")].pop());
    },
    bertviz: (kind) => {
      const svg = document.querySelector("#vis svg");
      return svg !== null && document.querySelector("#filter").value === kind &&
        !svg.dataset.before && svg.querySelector("line") !== null;
    },
  };
  const race = (window.race = { at: null, asked: null });
  race.wait = (who, kind) => {
    race.at = null;
    const look = () => {
      if (!drawn[who](kind)) return requestAnimationFrame(look);
      // What was drawn in one frame is on screen when the next one begins.
      return requestAnimationFrame(() => { race.at = performance.now(); });
    };
    look();
  };
  for (const name of ["click", "change"]) {
    document.addEventListener(name, () => { race.asked = performance.now(); }, true);
  }
})();
