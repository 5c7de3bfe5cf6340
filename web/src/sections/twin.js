// Simulated time of a step beside the measured one.

import * as Plot from "@observablehq/plot";
import { axisFor, grid, plot, TIP } from "../chart.js";
import { figure } from "../figure.js";
import { exists, formatOf, seconds } from "../format.js";
import { shorten, textWidth, withLegend } from "../labels.js";
import { mean } from "../report.js";

const STEP = { key: "seconds_per_step", label: "time a step", unit: "s" };

/** The study's own figure of it, or training seconds over steps. */
function stepTime(variant) {
  const own = Object.entries(variant.figures).find(
    ([key, figure]) => /^(seconds_per_step|step_seconds)$/.test(key) && exists(figure?.mean),
  );
  if (own) return own[1];
  const value = mean(
    variant.done.map(({ result }) =>
      result.steps > 0 && exists(result.train_seconds) ? result.train_seconds / result.steps : null,
    ),
  );
  return exists(value) ? { mean: value } : null;
}

function pairs(page, variants) {
  const byLabel = new Map(page.report.variants.map((v) => [v.label, v]));
  return variants
    .filter((v) => v.twin && v.predicted !== false && byLabel.has(v.twin))
    .map((v) => ({
      v,
      name: v.label,
      measured: stepTime(v),
      simulated: stepTime(byLabel.get(v.twin)),
    }))
    .filter((pair) => pair.measured && pair.simulated);
}

export function twin(page) {
  if (!pairs(page, page.report.variants).length) return null;
  const made = figure(page, {
    title: "Time of a step, measured and simulated",
    command: page.report.command,
    caption:
      "Time of a training step as measured (filled, with its 95 % interval) and as the simulation predicted it (hollow). The percentage is the prediction's error.",
    draw: (width) => {
      const free = page.report.axes.map((axis) => axis.name);
      const rows = pairs(page, page.selection.shown({ free })).map((pair) => ({
        ...pair,
        error: pair.simulated.mean / pair.measured.mean - 1,
      }));
      if (!rows.length) return null;
      const left = Math.min(
        width * 0.36,
        Math.max(...rows.map((row) => textWidth(shorten(row.name)))) + 14,
      );
      const most = Math.max(
        ...rows.flatMap((row) => [row.measured.high ?? row.measured.mean, row.simulated.mean]),
      );
      const ticks = width < 560 ? 3 : 6;
      const error = formatOf({ unit: "%", digits: 1 });
      const svg = plot({
        width,
        height: rows.length * 34 + 84,
        marginLeft: left,
        marginRight: 78,
        marginTop: 34,
        x: { ...axisFor(STEP), domain: [0, most], nice: true, ticks },
        y: {
          domain: rows.map((row) => row.name),
          label: null,
          tickSize: 0,
          tickFormat: (name) => shorten(name, Math.max(8, Math.floor(left / 6.6))),
        },
        marks: [
          grid("x", ticks),
          Plot.link(rows, {
            x1: (r) => r.measured.mean,
            x2: (r) => r.simulated.mean,
            y1: "name",
            y2: "name",
            stroke: (r) => r.v.colour,
            strokeDasharray: "3 3",
          }),
          Plot.ruleY(
            rows.filter((r) => exists(r.measured.low)),
            {
              y: "name",
              x1: (r) => r.measured.low,
              x2: (r) => r.measured.high,
              stroke: (r) => r.v.colour,
              strokeWidth: 1.6,
            },
          ),
          Plot.dot(rows, { x: (r) => r.measured.mean, y: "name", r: 6, fill: (r) => r.v.colour }),
          Plot.dot(rows, {
            x: (r) => r.simulated.mean,
            y: "name",
            r: 6,
            fill: "var(--page)",
            stroke: (r) => r.v.colour,
            strokeWidth: 2,
            title: (r) =>
              `${r.name}\nmeasured ${seconds.one(r.measured.mean)}\nsimulated ${seconds.one(r.simulated.mean)}`,
            tip: TIP,
          }),
          Plot.text(rows, {
            y: "name",
            frameAnchor: "right",
            dx: 68,
            textAnchor: "end",
            text: (r) => (r.error > 0 ? "+" : "") + error.one(r.error),
            fill: "var(--ink)",
          }),
        ],
      });
      return {
        svg: withLegend(svg, [
          ["measured", "var(--muted)"],
          ["simulated", "var(--muted)", true],
        ]),
        rows: rows.map((r) => ({
          variant: r.name,
          measured_seconds_per_step: r.measured.mean,
          measured_low: r.measured.low ?? null,
          measured_high: r.measured.high ?? null,
          simulated_seconds_per_step: r.simulated.mean,
          error: r.error,
        })),
      };
    },
  });
  return { id: "prediction", title: "Prediction beside measurement", content: [made.element] };
}
