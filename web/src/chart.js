// How all charts look, and the two forms that most sections use: lines and bars.

import * as Plot from "@observablehq/plot";
import { exists, formatOf } from "./format.js";
import {
  endLabels,
  labelRoom,
  legendHeight,
  pointLabels,
  shorten,
  textWidth,
  withLegend,
} from "./labels.js";
import { wide } from "./report.js";

/** Plot.plot in this page's clothes. Colours are CSS variables, so themes need no new drawing. */
export const plot = ({ marks, ...options }) =>
  Plot.plot({
    style: {
      color: "var(--muted)",
      background: "none",
      fontFamily: "inherit",
      fontSize: "12px",
      overflow: "visible",
    },
    marginTop: 30,
    marginBottom: 42,
    marginLeft: 62,
    insetTop: 4,
    ...options,
    marks: marks.flat().filter(Boolean),
  });

/** An axis for a column {label, unit, better}: its title says which way is good. */
export function axisFor(column, extra = {}) {
  const format = formatOf(column);
  const good = column.better
    ? column.better === "high"
      ? ", higher is better"
      : ", lower is better"
    : "";
  return { label: column.label + good, labelArrow: "none", tickFormat: format.tick, ...extra };
}

const frame = (width) => (width < 560 ? 270 : width < 800 ? 320 : 370);

/** Lines behind the marks, at the same ticks as the axis has. */
export const grid = (axis, ticks) =>
  (axis === "y" ? Plot.gridY : Plot.gridX)({ stroke: "var(--grid)", strokeOpacity: 1, ticks });

/** How the pointer's box looks; for `tip` of a mark. */
export const TIP = {
  fill: "var(--surface)",
  stroke: "var(--line)",
  textPadding: 9,
  lineHeight: 1.4,
};

/** A box at the row nearest to the pointer. */
export const tip = (rows, options, pointer = Plot.pointer) =>
  Plot.tip(rows, pointer({ ...options, ...TIP }));

/** What the pointer shows for a point: name and value, with its interval. */
export function describe(name, column, point) {
  const text = formatOf(column).withInterval(point);
  const runs = point.n === 1 ? " (one run)" : exists(point.n) ? ` (${point.n} runs)` : "";
  return `${name}\n${column.label}: ${text.mean} ${text.interval}${runs}`;
}

/**
 * One line a series: [{name, colour, symbol, dashed, points: [{x, y, low?, high?, text?}]}].
 * `x` and `y` are columns {label, unit}. Labels stand at the line ends where there is room.
 */
export function lines(series, { width, x, y, logX, logY, marks = [], labels = "end", xTicks }) {
  const drawn = series.filter((one) => one.points.length);
  if (!drawn.length) return null;
  const points = drawn.flatMap((one) => one.points.map((point) => ({ ...point, one })));
  const named = width >= 560 && drawn.length > 1;
  const key =
    named || drawn.length < 2 ? null : drawn.map((one) => [one.name, one.colour, one.dashed]);
  const above = key ? legendHeight(key, width) : 0;
  // A single mark beside a line of its own colour needs no name: the line has it.
  const known = (one) =>
    one.points.length === 1 &&
    drawn.some((other) => other.colour === one.colour && other.points.length > 1);
  const ends = drawn
    .filter((one) => !known(one))
    .map((one) => ({ ...one.points.at(-1), text: one.name, colour: one.colour }));
  const ordinal = typeof points[0].x === "string";
  const last = Math.max(...points.map((point) => (ordinal ? xTicks.indexOf(point.x) : point.x)));
  const atEdge = (end) => labels === "end" && (ordinal ? xTicks.indexOf(end.x) : end.x) === last;
  const scaleY = scaleOf(
    points.flatMap((p) => [p.y, p.low, p.high]),
    logY,
    { ticks: 6, nice: true },
  );
  const svg = plot({
    width,
    height: frame(width) + above,
    marginTop: 30 + above,
    marginRight:
      named && labels === "end" ? labelRoom(ends.filter(atEdge).map((end) => end.text)) : 24,
    x: {
      ...axisFor(x),
      ...(ordinal
        ? { type: "point", domain: xTicks, padding: 0.3, tickFormat: undefined }
        : scaleOf(
            points.map((p) => p.x),
            logX,
            { ticks: xTicks ?? Math.max(3, Math.floor(width / 110)), nice: !xTicks },
          )),
    },
    y: { ...axisFor(y), ...scaleY },
    marks: [
      grid("y", scaleY.ticks),
      marks,
      drawn.map((one) => [
        Plot.areaY(
          one.points.filter((p) => exists(p.low) && exists(p.high)),
          { x: "x", y1: "low", y2: "high", fill: one.colour, fillOpacity: 0.14 },
        ),
        Plot.lineY(one.points, {
          x: "x",
          y: "y",
          stroke: one.colour,
          strokeWidth: 2.2,
          strokeLinejoin: "round",
          strokeDasharray: one.dashed ? "6 4" : undefined,
        }),
        one.points.length <= 24
          ? Plot.dot(one.points, {
              x: "x",
              y: "y",
              r: 3.6,
              symbol: one.symbol ?? "circle",
              fill: one.dashed ? "var(--page)" : one.colour,
              stroke: one.colour,
            })
          : null,
      ]),
      named ? endLabels(ends.filter(atEdge)) : null,
      named
        ? pointLabels(
            ends.filter((end) => !atEdge(end)),
            drawn.map((one) => one.points),
          )
        : null,
      tip(points, {
        x: "x",
        y: "y",
        title: (p) =>
          p.text ?? describe(p.one.name, y, { mean: p.y, low: p.low, high: p.high, n: p.n }),
      }),
    ],
  });
  return key ? withLegend(svg, key, 29) : svg;
}

// Log scales get ticks at whole powers of ten, and between them where there are few.
function scaleOf(values, log, linear) {
  if (!log) return { type: "linear", ...linear };
  if (Array.isArray(linear.ticks)) return { type: "log", ticks: linear.ticks };
  const known = values.filter((value) => exists(value) && value > 0);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const ticks = [];
  const between = high / low < 50 ? [1, 2, 5] : high / low < 2000 ? [1, 3] : [1];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); ++power)
    ticks.push(
      ...between.map((times) => times * 10 ** power).filter((tick) => tick >= low && tick <= high),
    );
  return { type: "log", ticks };
}

/** Horizontal bars with values and intervals: [{name, colour, value, low?, high?, faint?}]. */
export function bars(rows, { width, column, marks = [] }) {
  if (!rows.length) return null;
  const format = formatOf(column);
  const names = rows.map((row) => row.name);
  const left = Math.min(
    width * 0.36,
    Math.max(...names.map((name) => textWidth(shorten(name)))) + 14,
  );
  const ticks = Math.max(2, Math.min(7, Math.floor((width - left - 76) / 110)));
  const most = Math.max(...rows.map((row) => row.high ?? row.value), 0);
  return plot({
    width,
    height: rows.length * 30 + 62,
    marginLeft: left,
    marginRight: 76,
    marginTop: 12,
    x: { ...axisFor(column), domain: [0, most || 1], ticks },
    y: {
      domain: names,
      label: null,
      tickSize: 0,
      padding: 0.28,
      tickFormat: (name) => shorten(name, Math.max(8, Math.floor(left / 6.6))),
    },
    marks: [
      grid("x", ticks),
      marks,
      Plot.barX(rows, {
        x: "value",
        y: "name",
        fill: "colour",
        fillOpacity: (row) => (row.faint ? 0.45 : 0.9),
      }),
      Plot.ruleY(
        rows.filter((row) => exists(row.low)),
        { x1: "low", x2: "high", y: "name", stroke: "var(--ink)", strokeWidth: 1.4 },
      ),
      Plot.text(rows, {
        x: (row) => row.high ?? row.value,
        y: "name",
        text: (row) => format.one(row.value),
        textAnchor: "start",
        dx: 7,
        fill: "var(--ink)",
        fontVariant: "tabular-nums",
      }),
    ],
  });
}

/** A scale for an axis of a study: numbers where all values are, log where they lie far apart. */
export function valuesOf(axis) {
  const numbers = axis.values.map(Number);
  const numeric =
    axis.values.every((value) => value !== "" && value !== null) && numbers.every(Number.isFinite);
  return {
    numeric,
    of: (value) => (numeric ? Number(value) : String(value)),
    log: numeric && wide(numbers),
    ticks: numeric ? numbers : axis.values.map(String),
  };
}
