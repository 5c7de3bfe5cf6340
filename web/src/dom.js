// Elements from data. Text goes in as text nodes: nothing that a label says can become markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** h("p", {class: "lead", click: handler}, "text", child…): functions become listeners. */
export const h = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);

/** The same for SVG. */
export const s = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

/** "Ring all-reduce, 3 workers" -> "ring-all-reduce-3-workers", for file names and anchors. */
export const slug = (text) =>
  text
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+|-+$/g, "")
    .slice(0, 60) || "figure";

export const capitalised = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** A labelled <select>; `choices` are [value, text] pairs. */
export function select(label, choices, chosen, onChange) {
  const options = choices.map(([value, text]) =>
    h("option", { value, selected: value === chosen }, text),
  );
  return h(
    "label",
    { class: "select" },
    h("span", {}, label),
    h("select", { change: (event) => onChange(event.target.value) }, options),
  );
}
