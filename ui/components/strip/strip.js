// Words or tokens in a row, each above its log-probability. Those the other side lacks are
// underlined; the first difference is marked. Token text only ever becomes textContent.

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".strip");
  if (!root || !data?.byteLength) return undefined;
  const { header } = unpack(data);
  const row = make("div", header.line ? "row line" : "row");
  row.setAttribute("role", "list");
  row.setAttribute("aria-label", header.label);
  header.tokens.forEach((token, i) => {
    const box = make("span", "token");
    box.setAttribute("role", "listitem");
    if (header.differing[i]) box.classList.add("differs");
    if (header.parting === i) box.classList.add("parting");
    box.append(make("bdi", "text", plain(token)));
    const value = header.log_probs[i];
    if (value !== undefined) {
      box.append(make("span", "log", signed(value)));
      box.title = `${i + 1} ${token}: log p ${value} nats, p ${(100 * Math.exp(value)).toFixed(1)}%`;
      box.style.setProperty("--p", Math.exp(value).toFixed(3));
      box.classList.add("scored");
    }
    row.append(box);
  });
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
