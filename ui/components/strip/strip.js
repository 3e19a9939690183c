// Words or tokens in a row, with the log-probability of each below it. What the other side does not
// have is underlined; the first place that differs is marked. Token text is only ever textContent.

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".strip");
  if (!root || !data?.byteLength) return undefined;
  const { header } = unpack(data);
  const row = make("div", "row");
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
      const number = value.toFixed(2).replace("-0.00", "0.00").replace("-", "−");
      box.append(make("span", "log", number));
      box.title = `${i + 1} ${token}: log p ${value} nats, p ${(100 * Math.exp(value)).toFixed(1)}%`;
      box.style.setProperty("--p", Math.exp(value).toFixed(3));
      box.classList.add("scored");
    }
    row.append(box);
  });
  root.replaceChildren(row);
  return undefined;
}
