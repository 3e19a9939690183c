// Words or tokens in a row, each above its log-probability. Those the other side lacks are underlined;
// the first difference is marked. Or two sentences, word below word, with what changed between them.
import { extend, make, plain, remember, rove, shown, signed } from "../shared/index.js";

function component({ root, header }, host) {
  const { columns } = header;
  showRow(root, header, columns ? besides(root, header) : tokensOf(header, host));
}

function tokensOf(header, host) {
  return header.tokens.map((token, i) => {
    const word = make("bdi", "text", plain(token));
    const box = make("span", "token", { role: "listitem" }, header.asks ? asking(header, host, i, word) : word);
    box.classList.toggle("differs", header.differing[i]);
    box.classList.toggle("parting", header.parting === i);
    box.classList.toggle("struck", header.struck[i]);
    const value = header.log_probs[i];
    if (value === undefined) return box;
    const p = Math.exp(value);
    box.style.setProperty("--p", p.toFixed(3));
    box.classList.add("scored");
    const title = `${i + 1} ${token}: log p ${value} nats, p ${(100 * p).toFixed(1)}%`;
    return extend(box, make("span", "log", signed(value)), { title });
  });
}

// A word as a button, which reports its position.
function asking({ pressed, struck }, host, at, word) {
  const said = struck[at] ? make("span", "unseen", " (hidden)") : [];
  const onclick = () => host.setTriggerValue("word", at);
  return make("button", "", { "aria-pressed": pressed === at, onclick }, word, said);
}

// Two sentences: the tokens of each word, their changes, and the word that is there now. The last one
// is the sum.
function besides(root, { columns, total, ends }) {
  ends.forEach(([less, more], at) => {
    root.style.setProperty(`--less-${at}`, less);
    root.style.setProperty(`--more-${at}`, more);
  });
  const largest = Math.max(1, ...columns.flatMap(([, , changes]) => changes.map(Math.abs)));
  const same = columns.every(([, , , , differs]) => !differs);
  const change = (value, title = {}) => {
    const box = make("span", value < 0 ? "change less" : "change more", title, signed(value));
    box.style.setProperty("--size", Math.min(1, Math.abs(value) / largest).toFixed(3));
    return box;
  };
  const words = columns.map(([tokens, logs, changes, other, differs]) => {
    const pieces = tokens.map((token, i) => {
      const title = `${token}: log p ${signed(logs[i])}, now ${signed(logs[i] + changes[i])} nats`;
      return make("span", "piece", make("bdi", "text", plain(token)), change(changes[i], { title: plain(title) }));
    });
    const said = differs ? make("span", "unseen", other ? " becomes " : " is gone") : [];
    const now = other ? make("bdi", "text", plain(other)) : make("span", "", { "aria-hidden": true }, "–");
    const below = same ? [] : make("span", "now", differs ? {} : { "aria-hidden": true }, said, now);
    return make("span", differs ? "token beside differs" : "token beside", { role: "listitem" },
      make("span", "pieces", pieces), below);
  });
  words[columns.findIndex(([, , , , differs]) => differs)]?.classList.add("parting");
  const sum = make("span", "token beside sum", { role: "listitem" },
    make("span", "pieces", make("span", "piece", make("span", "text", "sum"), change(total))), same ? [] : make("span", "now", "\u00a0"));
  const names = ["original", "change, nats", ...(same ? [] : ["edited"])].map((name) => make("span", "", name));
  return [make("span", "names", { "aria-hidden": true }, names), ...words, sum];
}

function showRow(root, header, tokens) {
  const about = { role: "list", "aria-label": header.label };
  const row = make("div", "row", about, tokens);
  row.dir = "auto";
  root.classList.toggle("led", Boolean(header.lead));
  const restore = remember(root, ".row");
  root.replaceChildren(...(header.lead ? [make("span", "lead", header.lead)] : []), row);
  if (header.asks) rove([...row.querySelectorAll("button")]);
  restore();
}

export default (host) => shown(host, "strip", component);
