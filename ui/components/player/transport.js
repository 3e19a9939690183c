// Moving through the steps: buttons, scrubber, playing, and keys.

const PLAY_MS = 800;

Object.assign(Player.prototype, {
  buildTransport() {
    const bar = (this.transport = el("div", "transport"));
    const add = (name, label, act) => {
      const button = el("button", "icon", { type: "button", "aria-label": label, title: label });
      button.append(icon(name));
      button.addEventListener("click", act);
      bar.append(button);
      return button;
    };
    this.first = add("first", "First step (Home)", () => this.go(0));
    this.back = add("back", "One step back (left arrow)", () => this.go(this.step - 1));
    this.play = add("play", "Play (space)", () => this.toggle());
    this.play.classList.add("main");
    this.forward = add("forward", "One step forward (right arrow)", () => this.go(this.step + 1));
    this.last = add("last", "Last step (End)", () => this.go(Infinity));
    this.scrubber = el("input", "", { type: "range", min: "1", "aria-label": "Decoding step" });
    this.scrubber.addEventListener("input", () => this.go(Number(this.scrubber.value) - 1));
    this.count = el("output", "count");
    this.scale = el("canvas", "scale", { role: "img" });
    bar.append(this.scrubber, this.count, this.scale);
    return bar;
  },

  drawTransport() {
    const T = this.message.header.shape[2];
    this.scrubber.value = String(this.step + 1);
    this.count.textContent = this.where();
    this.root.classList.toggle("ended", this.beyond);
    this.first.disabled = this.back.disabled = this.step === 0;
    this.forward.disabled = this.last.disabled = this.step === T - 1;
    this.drawScale();
  },

  where() {
    const T = this.message.header.shape[2];
    return this.beyond ? `ended after step ${T}` : `step ${this.step + 1} of ${T}`;
  },

  /** The colour scale, the same in every picture: a weight of 0 to a weight of 1. */
  drawScale() {
    const measure = this.scale.getContext("2d");
    measure.font = this.labelFont();
    const before = Math.ceil(measure.measureText("weight 0").width) + 4;
    const high = `1 · ${this.message.header.reading[themeOf(this.root)]}`;
    const after = Math.ceil(measure.measureText(high).width) + 4;
    const tall = Math.max(16, Math.ceil(1.4 * this.labelSize()));
    const ctx = sharp(this.scale, before + 70 + after, tall);
    const middle = tall / 2;
    const style = getComputedStyle(this.root);
    const strip = setPixels(make("canvas", ""), 1, 256, (level) => this.words[level]);
    ctx.drawImage(strip, before, middle - 4, 70, 8);
    ctx.strokeStyle = style.getPropertyValue("--st-border-color");
    ctx.strokeRect(before - 0.5, middle - 4.5, 71, 9);
    ctx.font = this.labelFont();
    ctx.fillStyle = style.getPropertyValue("--st-text-color");
    ctx.globalAlpha = 0.72;
    ctx.textBaseline = "middle";
    ctx.textAlign = "right";
    ctx.fillText("weight 0", before - 4, middle + 0.5);
    ctx.textAlign = "left";
    ctx.fillText(high, before + 74, middle + 0.5);
    this.scale.setAttribute("aria-label", `Colours: weight 0 to ${high}`);
  },

  toggle() {
    if (this.timer !== null) {
      this.stop();
      this.changed();
      return;
    }
    const T = this.message.header.shape[2];
    if (T < 2) return;
    if (this.step === T - 1) this.go(0);
    this.timer = setInterval(() => this.go(this.step + 1), PLAY_MS);
    clearTimeout(this.reportTimer);
    this.showPlaying();
  },

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.showPlaying();
  },

  showPlaying() {
    const playing = this.timer !== null;
    const label = playing ? "Pause (space)" : "Play (space)";
    this.play.replaceChildren(icon(playing ? "pause" : "play"));
    this.play.setAttribute("aria-label", label);
    this.play.title = label;
  },

  /** Keys work inside the player, and arrows also where nothing on the page wants them. */
  key(event) {
    // Shift and an arrow turn the pages.
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    if (event.defaultPrevented) return;
    if (getComputedStyle(this.root).visibility === "hidden") return; // the opening plays before it
    const path = event.composedPath();
    const target = path[0];
    const inside = path.includes(this.root);
    const idle = target === document.body || (target.tagName === "BUTTON" && !target.role);
    if (!inside && !(idle && event.key.startsWith("Arrow"))) return;
    if (target.tagName === "SELECT") return;
    const acts = {
      ArrowLeft: () => this.go(this.step - 1),
      ArrowRight: () => this.go(this.step + 1),
      Home: () => this.go(0),
      End: () => this.go(Infinity),
      " ": () => this.toggle(),
    };
    if (event.key === " " && target.tagName === "BUTTON") return; // presses that button
    if (!Object.hasOwn(acts, event.key)) return;
    event.preventDefault();
    acts[event.key]();
  },
});
