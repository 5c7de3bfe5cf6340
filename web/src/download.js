// What is drawn, as files: CSV of the rows behind a chart, and the chart as an SVG of its own.

import { s } from "./dom.js";

/** RFC 4180. What a spreadsheet would run as a formula gets a leading apostrophe. */
export function csv(rows) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const cell = (value) => {
    if (value === null || value === undefined) return "";
    const text =
      typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? "'" + value : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  return [names, ...rows.map((row) => names.map((name) => row[name]))]
    .map((row) => row.map(cell).join(",") + "\r\n")
    .join("");
}

const EDGE = 14; // px of paper around an exported chart
const RESOLVED = [
  "fill",
  "stroke",
  "color",
  "stroke-dasharray",
  "stroke-width",
  "opacity",
  "fill-opacity",
  "stroke-opacity",
  "font-size",
  "font-weight",
  "font-family",
  "font-variant-numeric",
  "paint-order",
  "stroke-linejoin",
  "text-anchor",
  "visibility",
];

/** An SVG file that looks the same without this page. `chart` must be in the document. */
export function standaloneSvg(chart, title) {
  const copy = chart.cloneNode(true);
  const originals = [chart, ...chart.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, i) => {
    if (element.tagName === "style") return;
    const style = getComputedStyle(originals[i]);
    const parent = i ? getComputedStyle(originals[i].parentNode) : null;
    // Only what differs from the parent: the rest is inherited, and the file stays small.
    const inherited = (name) =>
      parent &&
      !/opacity/.test(name) &&
      style.getPropertyValue(name) === parent.getPropertyValue(name);
    element.removeAttribute("style");
    element.removeAttribute("class");
    for (const name of RESOLVED) {
      const value = style.getPropertyValue(name);
      if (inherited(name)) element.removeAttribute(name);
      else if ((value && value !== "none") || /fill|stroke/.test(name))
        element.setAttribute(name, value);
    }
  });
  copy.querySelectorAll("style").forEach((element) => element.remove());
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const [width, height] = ["width", "height"].map((n) => Number(chart.getAttribute(n)) + 2 * EDGE);
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.setAttribute("viewBox", `${-EDGE} ${-EDGE} ${width} ${height}`);
  const fill = getComputedStyle(document.body).backgroundColor;
  const paper = s("rect", { x: -EDGE, y: -EDGE, width, height, fill, stroke: "none" });
  copy.prepend(s("title", {}, title), paper);
  return '<?xml version="1.0" encoding="UTF-8"?>\n' + new XMLSerializer().serializeToString(copy);
}

/** Offers `text` as a file. */
export function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
