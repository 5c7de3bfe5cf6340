// The first screen's one picture, whatever the study was of.

import * as Plot from "@observablehq/plot";
import { axisFor, bars, describe, grid, lines, plot, tip } from "../chart.js";
import { select } from "../dom.js";
import { figure } from "../figure.js";
import { exists, formatOf } from "../format.js";
import { legendHeight, pointLabels, withLegend } from "../labels.js";
import { wide } from "../report.js";
import { timeBySize } from "./bench.js";

const COSTS = [
  /^target_seconds$/,
  /^train_seconds$/,
  /seconds/,
  /^bytes_per_step$/,
  /bytes/,
  /samples_per_second/,
];

const reach = (figure) => [figure.low ?? figure.mean, figure.high ?? figure.mean];

/** Do the intervals of two variants of one kind lie apart? */
function setsApart(variants, column) {
  const reaches = variants
    .filter((v) => !v.simulated && exists(v.figures[column.key]?.mean))
    .map((v) => reach(v.figures[column.key]));
  return (
    Math.max(...reaches.map(([low]) => low)) > Math.min(...reaches.map(([, high]) => high))
  );
}

/** Columns that can stand as a cost beside the score, the most telling first. */
function costs(report) {
  const scored = report.variants.filter((v) => exists(v.figures.score?.mean));
  const known = (column) => scored.filter((v) => exists(v.figures[column.key]?.mean)).length;
  const rank = (column) => {
    const place = COSTS.findIndex((pattern) => pattern.test(column.key));
    // What most variants lack (a target never reached), or what sets none of them apart, is no
    // first choice.
    return (
      (place < 0 ? COSTS.length : place) +
      (known(column) * 2 < scored.length ? 100 : 0) +
      (setsApart(scored, column) ? 0 : 50)
    );
  };
  return report.columns
    .filter((column) => column.key !== "score" && known(column))
    .sort((a, b) => rank(a) - rank(b));
}

function tradeOff(page, cost, width) {
  const { report, selection } = page;
  const { score } = report;
  const shown = selection
    .shown()
    .filter((v) => exists(v.figures.score?.mean) && exists(v.figures[cost.key]?.mean));
  if (!shown.length) return null;
  const points = shown.map((variant) => ({
    variant,
    name: selection.title(variant),
    x: variant.figures[cost.key],
    y: variant.figures.score,
  }));
  const logX = wide(points.map((p) => p.x.mean));
  const label = (p) => ({
    x: p.x.mean,
    y: p.y.mean,
    text: p.name,
    colour: p.variant.colour,
    xs: reach(p.x),
    ys: reach(p.y),
  });
  const narrow = width < 460;
  const ticks = narrow ? 4 : 6;
  // On a phone names would lie far from their marks.
  const key =
    narrow && points.length > 1
      ? points.map((p) => [p.name, p.variant.colour, p.variant.dashed])
      : null;
  const above = key ? legendHeight(key, width) : 0;
  const svg = plot({
    width,
    height: (narrow ? 310 : 400) + above,
    marginTop: 30 + above,
    marginRight: 24,
    insetLeft: 28,
    insetRight: narrow ? 20 : 60,
    insetTop: 18,
    insetBottom: 18,
    x: { ...axisFor(cost), type: logX ? "log" : "linear", nice: !logX, ticks },
    y: { ...axisFor(score), ticks },
    marks: [
      grid("y", ticks),
      grid("x", ticks),
      exists(report.target) &&
      score.unit === "%" &&
      points.some((p) => p.y.mean < report.target * 1.02)
        ? target(report)
        : null,
      Plot.ruleX(
        points.filter((p) => exists(p.y.low)),
        {
          x: (p) => p.x.mean,
          y1: (p) => p.y.low,
          y2: (p) => p.y.high,
          stroke: (p) => p.variant.colour,
          strokeWidth: 1.6,
          strokeOpacity: 0.75,
        },
      ),
      Plot.ruleY(
        points.filter((p) => exists(p.x.low) && (!logX || p.x.low > 0)),
        {
          y: (p) => p.y.mean,
          x1: (p) => Math.max(p.x.low, 0), // no cost is negative, whatever Student's t says
          x2: (p) => p.x.high,
          stroke: (p) => p.variant.colour,
          strokeWidth: 1.6,
          strokeOpacity: 0.75,
        },
      ),
      Plot.dot(points, {
        x: (p) => p.x.mean,
        y: (p) => p.y.mean,
        r: 6.5,
        symbol: (p) => p.variant.symbol,
        strokeWidth: 2,
        fill: (p) => (p.variant.dashed ? "var(--page)" : p.variant.colour),
        stroke: (p) => p.variant.colour,
      }),
      key ? null : pointLabels(points.map(label)),
      tip(points, {
        x: (p) => p.x.mean,
        y: (p) => p.y.mean,
        title: (p) => describe(p.name, score, p.y) + describe("", cost, p.x),
      }),
    ],
    symbol: { type: "identity" },
  });
  return {
    svg: key ? withLegend(svg, key, 29) : svg,
    rows: points.map((p) => ({
      variant: p.variant.label,
      simulated: !!p.variant.simulated,
      ...columnsOf("score", p.y),
      ...columnsOf(cost.key, p.x),
    })),
  };
}

const columnsOf = (key, figure) => ({
  [key]: figure.mean,
  [`${key}_low`]: figure.low ?? null,
  [`${key}_high`]: figure.high ?? null,
  [`${key}_runs`]: figure.n ?? null,
});

const target = (report) => [
  Plot.ruleY([report.target], { stroke: "var(--muted)", strokeDasharray: "2 4" }),
  Plot.text([report.target], {
    y: (d) => d,
    frameAnchor: "right",
    dy: -8,
    text: (d) => `target ${formatOf(report.score).tick(d)}`,
    fill: "var(--muted)",
  }),
];

function tradeOffFigure(page, choices) {
  let cost = choices[0];
  const chosen = (key) => {
    cost = choices.find((column) => column.key === key);
    made.redraw();
  };
  const made = figure(page, {
    title: "What each reaches, and what it costs",
    command: page.report.command,
    leading: true,
    caption: `Mean ${page.report.score.label} against cost, one mark a variant; bars are 95 % intervals over seeds where there is more than one run.`,
    controls:
      choices.length > 1
        ? [
            select(
              "Cost",
              choices.map((c) => [c.key, c.label]),
              cost.key,
              chosen,
            ),
          ]
        : [],
    draw: (width) => tradeOff(page, cost, width),
  });
  return made.element;
}

function oneRun(page) {
  const { report, selection } = page;
  return figure(page, {
    title: `How ${report.score.label} grew`,
    command: report.command,
    leading: true,
    caption: `Test ${report.score.label} over seconds of training, evaluation not counted.`,
    draw: (width) => {
      const series = selection.shown().map((v) => ({
        ...v,
        name: v.label,
        points: v.curve
          .filter((c) => exists(c.score) && exists(c.seconds))
          .map((c) => ({ x: c.seconds, y: c.score, low: c.low, high: c.high, n: c.n })),
      }));
      const svg = lines(series, {
        width,
        x: { label: "training time", unit: "s" },
        y: report.score,
      });
      return (
        svg && {
          svg,
          rows: series.flatMap((one) =>
            one.points.map((p) => ({ variant: one.label, seconds: p.x, score: p.y })),
          ),
        }
      );
    },
  }).element;
}

function oneFigure(page, column) {
  return figure(page, {
    title: column.label,
    command: page.report.command,
    leading: true,
    caption: `Mean ${column.label} of each variant; lines are 95 % intervals over seeds.`,
    draw: (width) => {
      const rows = page.selection
        .shown()
        .filter((v) => exists(v.figures[column.key]?.mean))
        .map((v) => ({
          name: page.selection.title(v),
          colour: v.colour,
          faint: v.dashed,
          value: v.figures[column.key].mean,
          low: v.figures[column.key].low,
          high: v.figures[column.key].high,
        }));
      const svg = bars(rows, { width, column });
      return (
        svg && {
          svg,
          rows: rows.map((r) => ({
            variant: r.name,
            [column.key]: r.value,
            low: r.low,
            high: r.high,
          })),
        }
      );
    },
  }).element;
}

/** Its element, or null where there is nothing to draw. */
export function picture(page) {
  const { report } = page;
  const scored = report.variants.filter((v) => exists(v.figures.score?.mean));
  const choices = costs(report);
  if (scored.length > 1 && choices.length) return tradeOffFigure(page, choices);
  if (report.variants.some((v) => v.curve.length > 1)) return oneRun(page);
  if (report.bench.length) return timeBySize(page, true);
  return report.columns.length ? oneFigure(page, report.columns[0]) : null;
}
