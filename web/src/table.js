// A table that sorts by click or key on its headings. Missing values stay at the end either way.

import { h } from "./dom.js";

/**
 * @param {object} what
 *   columns: [{label, numeric?, title?, value(row), render?(row), descendingFirst?}]
 *   rows: a function that returns them; `refresh` asks again, and keeps the order
 *   rowClass?(row)
 * @returns {{element: HTMLElement, refresh: () => void}}
 */
export function table({ caption, columns, rows, rowClass, className = "" }) {
  let order = null; // {column, direction}
  const body = h("tbody");

  const cells = (row) =>
    columns.map((column, i) =>
      h(
        i ? "td" : "th",
        { class: column.numeric ? "number" : null, scope: i ? null : "row" },
        column.render ? column.render(row) : String(column.value(row) ?? "–"),
      ),
    );

  function refresh() {
    const sorted = [...rows()];
    if (order)
      sorted.sort((a, b) => compare(order.column.value(a), order.column.value(b), order.direction));
    body.replaceChildren(...sorted.map((row) => h("tr", { class: rowClass?.(row) }, cells(row))));
    for (const [column, head] of heads)
      head.setAttribute(
        "aria-sort",
        order?.column !== column ? "none" : order.direction > 0 ? "ascending" : "descending",
      );
  }

  function sortBy(column) {
    const first = column.descendingFirst ? -1 : 1;
    order = { column, direction: order?.column === column ? -order.direction : first };
    refresh();
  }

  const heads = new Map(
    columns.map((column) => [
      column,
      h(
        "th",
        { scope: "col", class: column.numeric ? "number" : null },
        h(
          "button",
          { type: "button", title: column.title, click: () => sortBy(column) },
          column.label,
        ),
      ),
    ]),
  );
  refresh();
  const element = h(
    "div",
    {
      class: rows().length > 20 ? "table-scroll tall" : "table-scroll",
      tabindex: "0",
      role: "region",
      "aria-label": caption,
    },
    h(
      "table",
      { class: className },
      h("caption", { class: "unseen" }, caption),
      h("thead", {}, h("tr", {}, [...heads.values()])),
      body,
    ),
  );
  return { element, refresh };
}

function compare(a, b, direction) {
  const missing = (value) => value === null || value === undefined || Number.isNaN(value);
  if (missing(a) || missing(b)) return missing(a) - missing(b);
  if (typeof a === "number" && typeof b === "number") return (a - b) * direction;
  return String(a).localeCompare(String(b), "en", { numeric: true }) * direction;
}
