// Players side by side: they step together, and matching parts stand at one height.
import { alignParts, groupOf } from "../shared/index.js";

export const groupPart = {
  /** The mounted players of this one's group, including itself; empty for a lone player. */
  members() {
    const { group } = this.message.header;
    if (!group) return [];
    const all = groupOf("players", group, this);
    return all.filter((each) => each.message?.header.group === group);
  },

  /** Follow another player, as far as this trace and model have its place. */
  follow(other) {
    if (other.timer === null) this.choice.follow(other.choice); // that one reports
    this.moveTo(other.place());
    this.draw();
  },

  /** Align parts of players side by side, which share one bar of controls. */
  align() {
    const members = this.members();
    const parts = ".lane, .transport, .panel, .choosers";
    const beside = members.length > 1 && alignParts(members, parts);
    this.share(members.length ? members : [this], beside);
    if (beside) alignParts(members, parts);
    for (const each of members) each.drawRays();
  },

  /** One bar of controls across players that stand side by side; else each has its own. */
  share(members, beside) {
    const boxes = new Map(members.map((each) => [each, each.root.getBoundingClientRect()]));
    const left = Math.min(...[...boxes.values()].map((box) => box.left));
    const right = Math.max(...[...boxes.values()].map((box) => box.right));
    const inOrder = [...members].sort((a, b) => boxes.get(a).left - boxes.get(b).left);
    const both = inOrder.map((each, at) => `${String.fromCharCode(65 + at)} ${each.where()}`);
    for (const each of members) {
      const leads = beside && !each.message.header.follows;
      each.root.classList.toggle("leads", leads);
      each.root.classList.toggle("led", beside && !leads);
      each.transport.style.left = leads ? `${left - boxes.get(each).left}px` : "";
      each.transport.style.width = leads ? `${right - left}px` : "";
      each.count.textContent = leads ? both.join(" · ") : each.where();
    }
  },
};
