// A figure at each pair of values of two axes; the variants themselves may be the second.

import * as Plot from "@observablehq/plot";
import { plot } from "../chart.js";
import { capitalised, select } from "../dom.js";
import { figure } from "../figure.js";
import { exists, formatOf } from "../format.js";
import { shorten, textWidth } from "../labels.js";

const ROW = 34; // px

/** One panel a variant, or one panel whose rows are variants where `up` is {name: "variant", values}. */
export function heatMap(page, across, up) {
  const { report, selection } = page;
  const ofVariants = up.name === "variant";
  let column = report.columns[0];

  const cellsOf = () =>
    selection
      .shown({ free: [across.name, up.name] })
      .filter((v) => exists(v.figures[column.key]?.mean) && !v.predicts)
      .map((v) => ({
        panel: ofVariants ? "" : v.name,
        x: v.group[across.name],
        y: ofVariants ? v.name : v.group[up.name],
        value: v.figures[column.key].mean,
      }));

  function draw(width) {
    const format = formatOf(column);
    const cells = cellsOf();
    if (!cells.length) return null;
    const panels = [...new Set(cells.map((cell) => cell.panel))];
    const rows = up.values.filter((value) => cells.some((cell) => cell.y === value));
    const [low, high] = [Math.min, Math.max].map((pick) => pick(...cells.map((c) => c.value)));
    const good = (value) => {
      const share = high > low ? (value - low) / (high - low) : 0.5;
      return column.better === "low" ? 1 - share : share;
    };
    const room = Math.max(...rows.map((row) => textWidth(shorten(row)))) + 24;
    const left = Math.min(width * 0.36, Math.max(90, room));
    const svg = plot({
      width,
      height: panels.length * (rows.length * ROW + 26) + 60,
      marginLeft: left,
      marginTop: panels.length > 1 ? 34 : 8,
      x: { domain: across.values, label: across.name, labelArrow: "none", padding: 0.04 },
      y: {
        domain: ofVariants ? rows : rows.reverse(),
        label: ofVariants ? null : up.name,
        labelArrow: "none",
        tickSize: 0,
        tickFormat: (value) => shorten(value, Math.max(8, Math.floor(left / 6.6))),
      },
      fy: { domain: panels, label: null, axis: null, padding: panels.length > 1 ? 0.18 : 0 },
      marks: [
        Plot.cell(cells, {
          x: "x",
          y: "y",
          fy: "panel",
          fill: "var(--series-0)",
          fillOpacity: (c) => 0.08 + 0.5 * good(c.value),
          inset: 1,
          rx: 3,
        }),
        Plot.text(cells, {
          x: "x",
          y: "y",
          fy: "panel",
          text: (c) => format.one(c.value),
          fill: "var(--ink)",
        }),
        panels.length > 1
          ? Plot.text(panels, {
              fy: (d) => d,
              frameAnchor: "top-left",
              dy: -14,
              text: (d) => shorten(d),
              fill: "var(--ink)",
              fontWeight: 600,
            })
          : null,
      ],
    });
    return {
      svg,
      rows: cells.map((c) => ({
        ...(ofVariants ? {} : { variant: c.panel }),
        [across.name]: c.x,
        [up.name]: c.y,
        [column.key]: c.value,
      })),
    };
  }

  const made = figure(page, {
    title: capitalised(`${across.name} and ${up.name} together`),
    command: report.command,
    caption: `Mean of the chosen figure at each pair of ${across.name} and ${up.name}${ofVariants ? "" : ", one panel a variant"}.${column.better ? " Darker is better." : ""}`,
    controls: [
      select(
        "Figure",
        report.columns.map((c) => [c.key, c.label]),
        column.key,
        (key) => {
          column = report.columns.find((c) => c.key === key);
          made.redraw();
        },
      ),
    ],
    draw,
  });
  return made.element;
}
