// Two paths of a search tree as two rows of tokens. The shared prefix is written once,
// across both rows; the step at which they diverge is marked. Token text is only ever textContent.

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".branches");
  if (!root || !data?.byteLength) return undefined;
  const { header } = unpack(data);
  const { a, b, shared } = header;
  const table = make("div", "lanes");
  table.setAttribute("role", "table");
  table.setAttribute("aria-label", "Tokens of A and B with their log-probabilities, step by step");
  const columns = Math.max(a.length, b.length);
  table.style.gridTemplateColumns = `auto repeat(${columns}, auto)`;
  const cell = (row, column, name, text) => {
    const element = make("span", name, text);
    element.style.gridRow = row;
    element.style.gridColumn = column + 2;
    table.append(element);
    return element;
  };
  for (let i = 0; i < columns; i += 1) cell(1, i, "number", String(i + 1));
  [["a", a, 2], ["b", b, 3]].forEach(([name, tokens, row]) => {
    const letter = make("span", `letter ${name}`, name.toUpperCase());
    letter.style.gridRow = row;
    letter.style.gridColumn = 1;
    table.append(letter);
    tokens.forEach(([token, logProb], i) => {
      if (i < shared && name === "b") return;
      const box = cell(row, i, i < shared ? "token common" : `token ${name}`);
      if (i < shared) box.style.gridRow = "2 / 4";
      if (i === shared) box.classList.add("parting");
      const text = make("bdi", "text", plain(token));
      const number = make("span", "log", signed(logProb));
      box.title = `${name.toUpperCase()}, step ${i + 1}: ${token}, log p ${logProb}`;
      box.append(text, number);
    });
  });
  root.replaceChildren(table);
  return watch(root, () => {
    const [first, second] = header.colours[themeOf(root)];
    root.style.setProperty("--a", first);
    root.style.setProperty("--b", second);
  });
}
