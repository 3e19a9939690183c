// What components share.

export * from "./canvas.js";
export * from "./cells.js";
export * from "./choice.js";
export * from "./colours.js";
export * from "./groups.js";
export * from "./matrix.js";
export * from "./numbers.js";
export * from "./rows.js";
export * from "./scale.js";
export * from "./spoken.js";
export * from "./term.js";
export * from "./view.js";
