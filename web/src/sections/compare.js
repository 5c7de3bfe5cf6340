// The table of variants over the study's figures.

import { h, slug } from "../dom.js";
import { exists, formatOf, ratio } from "../format.js";
import { commandLine } from "../figure.js";
import { csv, save } from "../download.js";
import { table } from "../table.js";

/** The variants with the best mean of a column, measured and simulated apart. */
function bestOf(variants, column) {
  const best = new Set();
  for (const simulated of [false, true]) {
    const known = variants.filter(
      (v) => !!v.simulated === simulated && exists(v.figures[column.key]?.mean),
    );
    if (known.length < 2 || !column.better) continue;
    const worth = (v) => v.figures[column.key].mean * (column.better === "high" ? 1 : -1);
    const top = Math.max(...known.map(worth));
    const winners = known.filter((v) => worth(v) === top);
    if (winners.length < known.length) winners.forEach((v) => best.add(v));
  }
  return best;
}

/** "+0.10 points" or "× 1.20", and whether the interval leaves room for no difference. */
function againstBaseline(column, against) {
  if (!against) return null;
  const isRatio = exists(against.ratio);
  const value = isRatio ? against.ratio : against.difference;
  if (!exists(value)) return null;
  const none = isRatio ? 1 : 0;
  const shown =
    exists(against.low) && exists(against.high) && (against.low > none || against.high < none);
  const good = shown && column.better && value > none === (column.better === "high");
  const text = isRatio ? ratio(value) : formatOf(column).difference(value);
  const range = exists(against.low)
    ? [against.low, against.high]
        .map((v) => (isRatio ? ratio(v) : formatOf(column).difference(v)))
        .join(" to ")
    : "";
  return h(
    "span",
    {
      class: `against ${shown && column.better ? (good ? "good" : "bad") : "same"}`,
      title: range
        ? `95 % interval: ${range}${shown ? "" : ", so no difference is shown"}`
        : "one run: no interval",
    },
    text,
  );
}

function cell(column, rows) {
  const format = formatOf(column);
  return (variant) => {
    const figure = variant.figures[column.key];
    if (!exists(figure?.mean)) return h("span", { class: "missing" }, "–");
    const { mean, interval } = format.withInterval(figure);
    const isBest = bestOf(rows(), column).has(variant);
    return h(
      "div",
      { class: "cell" },
      h(
        "span",
        {
          class: isBest ? "value best" : "value",
          title: isBest ? "best mean of this column" : null,
        },
        mean,
        isBest ? h("span", { class: "unseen" }, " (best)") : null,
      ),
      h("span", { class: "interval" }, interval || (figure.n === 1 ? "one run" : "")),
      againstBaseline(column, variant.against_baseline?.[column.key]),
    );
  };
}

const badge = (text, title) => h("span", { class: "badge", title }, text);

function variantCell({ report, selection }) {
  return (variant) =>
    h(
      "div",
      { class: "variant" },
      h("span", {
        class: variant.dashed ? "swatch hollow" : "swatch",
        style: `--colour: ${variant.colour}`,
      }),
      h(
        "span",
        {},
        selection.title(variant),
        " ",
        variant.isBaseline ? badge("baseline", "the others are compared with it") : null,
        variant.simulated ? badge("simulated", "virtual time, not measured") : null,
        variant.oversubscribed
          ? badge(
              "oversubscribed",
              "more workers × threads than cores: its wall time is contention",
            )
          : null,
        variant.tuned
          ? badge(
              "tuned",
              Object.entries(variant.tuned)
                .map(([key, value]) => `${key} ${value}`)
                .join(", "),
            )
          : null,
      ),
    );
}

function csvRows(report, variants) {
  const columnsOf = (key, figure) => ({
    [key]: figure?.mean,
    [`${key}_low`]: figure?.low,
    [`${key}_high`]: figure?.high,
    [`${key}_runs`]: figure?.n,
  });
  return variants.map((v) =>
    Object.assign(
      { variant: v.label, simulated: !!v.simulated },
      ...report.columns.map(({ key }) => columnsOf(key, v.figures[key])),
    ),
  );
}

// What to show before all is asked for; a study has some twenty figures.
const FIRST = [
  "score",
  "target_seconds",
  "train_seconds",
  "samples_per_second",
  "steady_samples_per_second",
  "step_seconds",
  "seconds_per_step",
  "bytes_per_step",
  "busiest_bytes_per_step",
];
const MOST = 8;

function chosenColumns(report, all) {
  if (all || report.columns.length <= MOST) return report.columns;
  const first = report.columns.filter(({ key }) => FIRST.includes(key));
  return first.length > 2 ? first : report.columns.slice(0, MOST);
}

export function compare(page) {
  const { report, selection } = page;
  if (!report.variants.length || !report.columns.length) return null;
  // All of the chosen axis values, so that like is compared with like; what is off in charts is dimmed.
  const rows = () => selection.shown({ kinds: true, off: true });
  const make = (all) =>
    table({
      caption: "Variants and their figures",
      className: "compare",
      rows,
      rowClass: (v) => (selection.hidden.has(v.key) ? "dimmed" : null),
      columns: [
        { label: "Variant", value: (v) => v.label, render: variantCell(page) },
        ...chosenColumns(report, all).map((column) => ({
          label: column.label,
          numeric: true,
          descendingFirst: column.better === "high",
          title: column.better
            ? `${column.better === "high" ? "higher" : "lower"} is better`
            : null,
          value: (v) => v.figures[column.key]?.mean ?? null,
          render: cell(column, rows),
        })),
      ],
    });
  let shown = make(false);
  selection.onChange(() => shown.refresh());
  const place = h("div", {}, shown.element);
  const few = chosenColumns(report, false).length;
  const every =
    few === report.columns.length
      ? null
      : h(
          "label",
          { class: "select" },
          h("input", {
            type: "checkbox",
            change: (event) => {
              shown = make(event.target.checked);
              place.replaceChildren(shown.element);
            },
          }),
          h("span", {}, `All ${report.columns.length} figures`),
        );
  const single = report.variants.length === 1;
  return {
    id: "compare",
    title: single ? "In figures" : "All figures, side by side",
    content: [
      single
        ? null
        : h(
            "p",
            { class: "lead" },
            "Mean over seeds ± half of the 95 % interval. ",
            report.variants.some((v) => v.isBaseline)
              ? `Below it, the paired difference to ${report.baseline}: in colour where the interval excludes “no difference”, grey where it does not. `
              : "",
            "The best mean of a column is marked. A heading sorts.",
          ),
      every,
      place,
      h(
        "div",
        { class: "tools" },
        report.command ? commandLine(report.command) : null,
        h(
          "button",
          {
            type: "button",
            class: "small",
            "aria-label": "The table as CSV",
            click: () =>
              save(
                `${slug(report.title ?? "report")}-variants.csv`,
                "text/csv",
                csv(csvRows(report, rows())),
              ),
          },
          "CSV",
        ),
      ),
    ],
  };
}
