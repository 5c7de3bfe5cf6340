// A figure over an axis of the study: one line a variant.

import { lines, valuesOf } from "../chart.js";
import { select } from "../dom.js";
import { figure } from "../figure.js";
import { exists } from "../format.js";
import { heatMap } from "./heat_map.js";

/** Lines over `axis`: measured and simulated apart, other axes as chosen. */
export function seriesOver(page, axis, valueOf) {
  const scale = valuesOf(axis);
  const one = new Set(page.report.variants.map((v) => v.name)).size === 1;
  const grouped = new Map();
  for (const v of page.selection.shown({ free: [axis.name], kinds: true })) {
    if (v.group[axis.name] === undefined) continue;
    const figure = valueOf(v);
    if (!exists(figure?.mean)) continue;
    const others = [...page.selection.axes]
      .filter(([name, value]) => name !== axis.name && value === null && name in v.group)
      .map(([name]) => `${name} ${v.group[name]}`);
    const name =
      (one && others.length ? others : [v.predicts?.name ?? v.name, ...others]).join(", ") +
      (v.dashed && !/simulat/i.test(v.name) ? " (simulated)" : "");
    if (!grouped.has(name))
      grouped.set(name, { name, colour: v.colour, symbol: v.symbol, dashed: v.dashed, points: [] });
    grouped.get(name).points.push({
      x: scale.of(v.group[axis.name]),
      y: figure.mean,
      low: figure.low,
      high: figure.high,
      n: figure.n,
    });
  }
  const place = (point) => scale.ticks.indexOf(point.x);
  for (const one of grouped.values()) one.points.sort((a, b) => place(a) - place(b));
  return [...grouped.values()];
}

export function chartOver(page, axis, column, valueOf, width, extra = {}) {
  const scale = valuesOf(axis);
  const series = seriesOver(page, axis, valueOf);
  const svg = lines(series, {
    width,
    x: { label: axis.name },
    y: column,
    logX: scale.log,
    xTicks: scale.ticks,
    ...extra,
  });
  return (
    svg && {
      svg,
      rows: series.flatMap((one) =>
        one.points.map((p) => ({
          variant: one.name,
          [axis.name]: p.x,
          [column.key]: p.y,
          low: p.low ?? null,
          high: p.high ?? null,
          runs: p.n ?? null,
        })),
      ),
    }
  );
}

/** The first figure that is known at most values of the axis. */
function firstColumn(report, axis) {
  const known = ({ key }) =>
    new Set(
      report.variants.filter((v) => exists(v.figures[key]?.mean)).map((v) => v.group[axis.name]),
    ).size;
  const most = Math.max(...report.columns.map(known));
  return report.columns.find((column) => known(column) === most);
}

function overAxis(page, axis) {
  const { report } = page;
  let column = firstColumn(report, axis);
  const made = figure(page, {
    title: `Any figure over ${axis.name}`,
    command: report.command,
    caption:
      `The chosen figure at each value of ${axis.name}, one line a variant, with 95 % intervals over seeds.` +
      (report.mixed ? " Dashed lines with hollow marks are simulated." : ""),
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
    draw: (width) => chartOver(page, axis, column, (v) => v.figures[column.key], width),
  });
  return made.element;
}

export function axes(page) {
  const { report } = page;
  const used = report.axes.filter((axis) => axis.values?.length > 1);
  if (!used.length || !report.columns.length) return null;
  const numeric = used.filter((axis) => valuesOf(axis).numeric);
  const names = [...new Set(report.variants.filter((v) => !v.predicts).map((v) => v.name))];
  const long = numeric.find((axis) => axis.values.length > 2);
  return {
    id: "axes",
    title: "Along the axes",
    content: [
      ...used.map((axis) => overAxis(page, axis)),
      numeric.length > 1 ? heatMap(page, numeric[0], numeric[1]) : null,
      long && names.length > 2 ? heatMap(page, long, { name: "variant", values: names }) : null,
    ].filter(Boolean),
  };
}
