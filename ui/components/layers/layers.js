// The most probable token behind every decoder layer. A cell is [token, probability, the same in
// words, rank of the token that is predicted in the end, its probability in words].
import { cellCursor, make, plain, shown, touching, writeRow } from "../shared/index.js";

function component({ root, header }) {
  const { cells, columns, rows, predicted } = header;
  const readout = make("p", "readout", { role: "status" });
  const boxes = cells.map((row) => row.map(cellOf));
  const table = make("table", "",
    make("thead", "", make("tr", "", make("td", "corner"), columns.map((name) => make("th", "", { scope: "col" }, name)))),
    make("tbody", "", boxes.map((row, step) => {
      const named = make("th", "row", { scope: "row" });
      writeRow(named, rows[step]);
      return make("tr", "", named, row);
    })),
  );
  const scroller = make("div", "scroller", { tabindex: 0, role: "group", "aria-label": header.label }, table);
  // A table, whose cells outline themselves.
  const matrix = { canvas: scroller, cursor: scroller, cells: { ys: rows, xs: columns } };
  matrix.under = (event) => {
    const box = event.target.closest?.("td");
    const step = boxes.findIndex((row) => row.includes(box));
    return step < 0 ? matrix.at : [step, boxes[step].indexOf(box)];
  };
  matrix.outline = (at) => {
    matrix.cursor.classList.remove("at");
    matrix.at = at;
    if (at) (matrix.cursor = boxes[at[0]][at[1]]).classList.add("at");
  };
  const refresh = cellCursor(scroller, [matrix], {
    readout,
    describe: (at) => (at ? described(header, at) : hint()),
    start: () => [0, columns.length - 1],
  });
  refresh();
  root.replaceChildren(scroller, readout);
}

function cellOf([token, p, , rank]) {
  const parts = [make("bdi", "token", plain(token))];
  if (rank > 1) parts.push(make("span", "rank", String(rank)));
  const box = make("td", rank > 1 ? "" : "final", make("div", "", parts));
  box.style.setProperty("--p", p);
  return box;
}

function hint() {
  return touching() ? "Tap a cell to read it." : "Point at a cell to read it, or move with the arrow keys.";
}

function described({ cells, columns, rows, predicted }, [step, layer]) {
  const [token, , likely, rank, own] = cells[step][layer];
  const where = layer ? `After ${columns[layer]}` : "Before layer 1";
  const ends = rank > 1
    ? `${predicted[step]}, predicted in the end, is number ${rank} with ${own}`
    : layer + 1 < columns.length ? "it is predicted in the end" : "the model's own prediction";
  return `${where}, step ${step + 1} (${rows[step]}): ${token} with ${likely}; ${ends}.`;
}

export default (host) => shown(host, "layers", component);
