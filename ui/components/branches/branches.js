// Two paths of a search tree as two rows of tokens. The shared prefix is written once, across both
// rows; the step at which they diverge is marked.
import { make, plain, shown, signed, themeOf, watch } from "../shared/index.js";

function component({ root, header }) {
  const { a, b, shared } = header;
  const columns = Math.max(a.length, b.length);
  const table = make("div", "lanes", {
    role: "table", "aria-label": "Tokens of A and B with their log-probabilities, step by step",
  });
  table.style.gridTemplateColumns = `auto repeat(${columns}, auto)`;
  const cell = (row, column, name, ...parts) => {
    const element = make("span", name, ...parts);
    [element.style.gridRow, element.style.gridColumn] = [row, column];
    table.append(element);
    return element;
  };
  for (let i = 0; i < columns; i += 1) cell(1, i + 2, "number", String(i + 1));
  [["a", a, 2], ["b", b, 3]].forEach(([name, tokens, row]) => {
    cell(row, 1, `letter ${name}`, name.toUpperCase());
    tokens.forEach(([token, logProb], i) => {
      if (i < shared && name === "b") return;
      const title = `${name.toUpperCase()}, step ${i + 1}: ${token}, log p ${logProb}`;
      const box = cell(i < shared ? "2 / 4" : row, i + 2, i < shared ? "token common" : `token ${name}`,
        make("bdi", "text", plain(token)), make("span", "log", signed(logProb)), { title });
      box.classList.toggle("parting", i === shared);
    });
  });
  root.replaceChildren(table);
  return watch(root, () => {
    const [first, second] = header.colours[themeOf(root)];
    root.style.setProperty("--a", first);
    root.style.setProperty("--b", second);
  });
}

export default (host) => shown(host, "branches", component);
