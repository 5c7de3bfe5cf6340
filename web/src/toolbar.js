// What stays in sight: chips that switch variants on and off everywhere, axis values, the theme.

import { h, select } from "./dom.js";

const THEME = "lockstep-report-theme";

function remembered() {
  try {
    return localStorage.getItem(THEME);
  } catch {
    // not allowed for this file
    return null;
  }
}

/** Follows the system until the reader decides. */
function themeButton() {
  const root = document.documentElement;
  const dark = () =>
    (root.dataset.theme ??
      (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  if (["dark", "light"].includes(remembered())) root.dataset.theme = remembered();
  const button = h("button", {
    type: "button",
    class: "theme",
    click: () => {
      root.dataset.theme = dark() ? "light" : "dark";
      try {
        localStorage.setItem(THEME, root.dataset.theme);
      } catch {} // it holds for this visit then
      show();
    },
  });
  function show() {
    button.textContent = dark() ? "☀" : "☾";
    button.setAttribute("aria-label", dark() ? "Light colours" : "Dark colours");
    button.title = button.getAttribute("aria-label");
  }
  show();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  return button;
}

function chips(selection) {
  const { report } = selection;
  const buttons = report.keys.map((key) => {
    const variant = report.variants.find((v) => v.key === key);
    return [
      key,
      h(
        "button",
        {
          type: "button",
          class: "chip",
          "data-key": key,
          style: `--colour: ${variant.colour}`,
          title: "Click: on or off. Double click: this one alone.",
          click: () => selection.toggle(key),
          dblclick: () => selection.only(key),
        },
        h("span", { class: "swatch" }),
        key === variant.label ? variant.short : key,
      ),
    ];
  });
  const simulated = report.mixed
    ? h(
        "button",
        {
          type: "button",
          class: "chip simulated",
          title: "Draw simulated variants too, dashed",
          click: () => selection.showSimulated(!selection.simulated),
        },
        h("span", { class: "swatch hollow" }),
        "simulated",
      )
    : null;
  const show = () => {
    for (const [key, button] of buttons)
      button.setAttribute("aria-pressed", String(!selection.hidden.has(key)));
    simulated?.setAttribute("aria-pressed", String(selection.simulated));
  };
  show();
  selection.onChange(show);
  return h(
    "div",
    { class: "chips", role: "group", "aria-label": "Variants shown in the charts" },
    buttons.map(([, button]) => button),
    simulated,
  );
}

const axisChoices = (selection) =>
  selection.report.axes
    .filter((axis) => axis.values?.length > 1)
    .map((axis) =>
      select(
        axis.name,
        [["\0all", "all"], ...axis.values.map((value) => [value, value])],
        selection.axes.get(axis.name) ?? "\0all",
        (value) => selection.choose(axis.name, value === "\0all" ? null : value),
      ),
    );

export function toolbar(selection) {
  return h(
    "div",
    { class: "toolbar" },
    h(
      "div",
      { class: "inner" },
      selection.report.keys.length > 1 ? chips(selection) : h("div", { class: "chips" }),
      axisChoices(selection),
      themeButton(),
    ),
  );
}
