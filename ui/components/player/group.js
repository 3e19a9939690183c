// Players side by side: they step together, and matching parts stand at one height.

const GROUPS = (window[Symbol.for("headlight.players")] ??= new Map());

Object.assign(Player.prototype, {
  /** The mounted players of this one's group, including itself; empty for a lone player. */
  members() {
    const { group } = this.message.header;
    if (!group) return [];
    const known = (GROUPS.get(group) ?? []).filter((each) => each.root.isConnected);
    const members = known.includes(this) ? known : [...known, this];
    GROUPS.set(group, members);
    return members.filter((each) => each.message?.header.group === group);
  },

  /** Move the other players too. */
  call() {
    for (const each of this.members()) if (each !== this) each.come(this);
  },

  /** Follow another player, as far as this trace and model have its place. */
  come({ step, layer, head, shifted }) {
    const [L, H, T] = this.message.header.shape;
    this.stop();
    clearTimeout(this.reportTimer); // the one that was moved tells
    this.beyond = step >= T;
    this.step = Math.min(step, T - 1);
    this.layer = layer !== null && layer < L ? layer : null;
    this.head = head !== null && head < H ? head : null;
    this.shifted = shifted;
    if (this.hover?.chip) this.setHover(null); // it tells of the step before
    this.draw();
  },

  /** Give parts that stand side by side the height of the taller one. */
  align() {
    const members = this.members();
    if (members.length < 2) return;
    const parts = members.map((each) => [
      ...each.root.querySelectorAll(".lane, .transport, .panel, .choosers"),
    ]);
    for (const part of parts.flat()) part.style.minHeight = "";
    const places = new Set(members.map((each) => each.root.getBoundingClientRect().left));
    if (places.size === members.length) {
      parts[0].forEach((_, i) => {
        const row = parts.map((each) => each[i]).filter(Boolean);
        const most = Math.max(...row.map((each) => each.getBoundingClientRect().height)); // not rounded
        for (const each of row) each.style.minHeight = `${most}px`;
      });
    }
    for (const each of members) each.drawRays();
  },
});
