// Words or tokens in a row, each above its log-probability. Those the other side lacks are underlined;
// the first difference is marked.

function component({ root, header }) {
  const tokens = header.tokens.map((token, i) => {
    const box = make("span", "token", { role: "listitem" }, make("bdi", "text", plain(token)));
    box.classList.toggle("differs", header.differing[i]);
    box.classList.toggle("parting", header.parting === i);
    const value = header.log_probs[i];
    if (value === undefined) return box;
    const p = Math.exp(value);
    box.style.setProperty("--p", p.toFixed(3));
    box.classList.add("scored");
    const title = `${i + 1} ${token}: log p ${value} nats, p ${(100 * p).toFixed(1)}%`;
    return extend(box, make("span", "log", signed(value)), { title });
  });
  const about = { role: "list", "aria-label": header.label };
  const row = make("div", header.line ? "row line" : "row", about, tokens);
  root.classList.toggle("led", header.lead !== "");
  root.replaceChildren(...(header.lead ? [make("span", "lead", header.lead)] : []), row);
  return header.line ? oneLine(root, row) : undefined;
}

// A text in one line. If it does not fit, it scrolls, and opens at the first difference with a
// little shared text before it.
function oneLine(root, row) {
  row.dir = "auto";
  const show = () => {
    const longer = row.scrollWidth > row.clientWidth + 1;
    row.classList.toggle("longer", longer);
    if (longer) row.tabIndex = 0;
    else row.removeAttribute("tabindex");
    const parting = row.querySelector(".parting");
    if (!longer || !parting) return;
    const [here, there] = [parting.getBoundingClientRect(), row.getBoundingClientRect()];
    const beyond = here.right > there.right - 24 || here.left < there.left;
    if (beyond) row.scrollLeft += here.left - there.left - row.clientWidth / 3;
  };
  return watch(root, show);
}
