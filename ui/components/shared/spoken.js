// Pictures in words: lists that are not seen and that screen readers reach.
import { percent } from "./numbers.js";
import { make, plain } from "./view.js";

const MOST = 3; // cells of a row

// A list for screen readers; `write(items)` replaces its lines.
export function spokenList(label, lines = []) {
  const element = make("ul", "unseen spoken", { "aria-label": label });
  const write = (items) => element.replaceChildren(...items.map((text) => make("li", "", plain(text))));
  write(lines);
  return { element, write };
}

// The rows of a map in words, each with its largest cells: "row 3 _es: it 98%, because 1%". `valueAt`
// returns null where there is no cell.
export function rowsInWords(rows, columns, valueAt, textOf) {
  const write = textOf ?? percent;
  const least = textOf ? 0 : 0.005; // less is 0%
  return rows.map((name, row) => {
    const best = [];
    for (let column = 0; column < columns.length; column++) {
      const value = valueAt(row, column);
      const size = value === null ? 0 : Math.abs(value);
      if (size <= (best[MOST - 1]?.size ?? least)) continue;
      best.splice(best.findLastIndex((each) => each.size >= size) + 1, 0, { size, text: `${columns[column]} ${write(value)}` });
      best.length = Math.min(MOST, best.length);
    }
    return `row ${row + 1} ${name}: ${best.map(({ text }) => text).join(", ") || "nothing"}`;
  });
}
