// The frame around every chart: title, caption, the command behind its data, CSV and SVG.

import { h, slug } from "./dom.js";
import { csv, save, standaloneSvg } from "./download.js";

const PAPER = 690; // px, the width of a printed page's text
const EXPORT = 860; // px, at least, so that an export from a phone has its labels

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // an old browser, or no permission
    const area = h("textarea", { class: "unseen" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  const before = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = before), 1500);
}

/** A command with a button that copies it. */
export function commandLine(command) {
  const button = h(
    "button",
    {
      type: "button",
      class: "small",
      "aria-label": "Copy the command",
      click: () => copy(command, button),
    },
    "Copy",
  );
  return h("div", { class: "command" }, h("code", { tabindex: "0" }, command), button);
}

/**
 * @param {object} page  figures register here to be drawn; see page.js
 * @param {object} what  {title, caption, command, controls?, draw, leading?}; `leading`: the one of the
 *   first screen, under no section's heading
 *   draw(width) returns {svg, rows, note?}, or null when nothing of it is selected. `rows` are what
 *   is drawn, as the CSV has it.
 */
export function figure(page, { title, caption, command, controls = [], draw, leading = false }) {
  const id = page.uniqueId(slug(title));
  const place = h("div", { class: "plot" });
  const note = h("span", { class: "note" });
  let drawn = null;

  function paint(width) {
    drawn = draw(width);
    note.textContent = drawn?.note ? ` ${drawn.note}` : "";
    if (!drawn) {
      place.replaceChildren(h("p", { class: "nothing" }, "Nothing of this is selected above."));
      return;
    }
    drawn.svg.setAttribute("role", "img");
    drawn.svg.setAttribute("aria-label", `${title}. ${caption}`);
    place.replaceChildren(drawn.svg);
  }

  function exportSvg() {
    const studio = h("div", { class: "studio" });
    place.append(studio);
    const again = draw(Math.max(EXPORT, place.clientWidth));
    studio.append(again.svg);
    const text = standaloneSvg(again.svg, `${title}. ${caption}`);
    studio.remove();
    return text;
  }

  const file = (ending) => `${slug(page.report.title ?? "report")}-${id}.${ending}`;
  const tools = h(
    "div",
    { class: "tools" },
    command ? commandLine(command) : null,
    h(
      "button",
      {
        type: "button",
        class: "small",
        "aria-label": `Data of "${title}" as CSV`,
        click: () => drawn && save(file("csv"), "text/csv", csv(drawn.rows)),
      },
      "CSV",
    ),
    h(
      "button",
      {
        type: "button",
        class: "small",
        "aria-label": `"${title}" as SVG`,
        click: () => drawn && save(file("svg"), "image/svg+xml", exportSvg()),
      },
      "SVG",
    ),
  );
  const element = h(
    "figure",
    { id, class: leading ? "lead-figure" : null },
    h(
      "div",
      { class: "figure-head" },
      h(leading ? "h2" : "h3", {}, title),
      h("div", { class: "controls" }, controls),
    ),
    place,
    h("figcaption", {}, caption, note),
    tools,
  );
  const redraw = page.register({ element, place, paint, paper: PAPER });
  return { element, redraw };
}
