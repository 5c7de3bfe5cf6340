// Samples a second, and how much of it more workers keep.

import * as Plot from "@observablehq/plot";
import { bars } from "../chart.js";
import { figure } from "../figure.js";
import { exists } from "../format.js";
import { mean } from "../report.js";
import { chartOver } from "./axes.js";

const RATE = { key: "samples_per_second", label: "samples a second", unit: "/s", better: "high" };
const STEADY = {
  key: "steady_samples_per_second",
  label: "steady samples a second",
  unit: "/s",
  better: "high",
};
const EFFICIENCY = {
  key: "scaling_efficiency",
  label: "scaling efficiency",
  unit: "%",
  digits: 1,
  better: "high",
};
const COMPUTING = {
  key: "compute_share",
  label: "share of time computing",
  unit: "%",
  digits: 1,
  better: "high",
};

const rate = (v) => v.figures.samples_per_second ?? null;
const steady = (v) => v.figures.steady_samples_per_second ?? null;

/**
 * Samples/s a worker, over that of the fewest workers of the same variant: 100 % is perfect. Of means,
 * so without an interval; null for a variant that has one number of workers only.
 */
function efficiency(page, axis) {
  const family = (v) =>
    page.report.variants
      .filter(
        (other) =>
          other.name === v.name &&
          !!other.simulated === !!v.simulated &&
          exists(rate(other)?.mean) &&
          Object.keys(v.group).every(
            (name) => name === axis.name || other.group[name] === v.group[name],
          ),
      )
      .sort((a, b) => Number(a.group[axis.name]) - Number(b.group[axis.name]));
  return (v) => {
    const [from] = family(v);
    if (!exists(rate(v)?.mean) || family(v).length < 2) return null;
    return {
      mean:
        rate(v).mean /
        Number(v.group[axis.name]) /
        (rate(from).mean / Number(from.group[axis.name])),
    };
  };
}

function perVariant(page, title, caption, column, valueOf) {
  if (!page.report.variants.some((v) => exists(valueOf(v)?.mean))) return null;
  return figure(page, {
    title,
    caption,
    command: page.report.command,
    draw: (width) => {
      const rows = page.selection
        .shown()
        .filter((v) => exists(valueOf(v)?.mean))
        .map((v) => ({
          name: page.selection.title(v),
          label: v.label,
          colour: v.colour,
          faint: v.dashed,
          value: valueOf(v).mean,
          low: valueOf(v).low,
          high: valueOf(v).high,
        }));
      const svg = bars(rows, { width, column });
      return (
        svg && {
          svg,
          rows: rows.map((r) => ({
            variant: r.label,
            [column.key]: r.value,
            low: r.low ?? null,
            high: r.high ?? null,
          })),
        }
      );
    },
  }).element;
}

function overWorkers(page, axis) {
  const ideal = Plot.ruleY([1], { stroke: "var(--muted)", strokeDasharray: "2 4" });
  return [
    figure(page, {
      title: "Samples a second over workers",
      command: page.report.command,
      caption:
        "All samples over the training time of the worker that took longest, with 95 % intervals over seeds." +
        (page.report.mixed ? " Dashed lines with hollow marks are simulated." : ""),
      draw: (width) => chartOver(page, axis, RATE, rate, width),
    }).element,
    figure(page, {
      title: "Scaling efficiency",
      command: page.report.command,
      caption:
        "Samples a second per worker, relative to the same variant with the fewest workers. 100 % (dotted) would be perfect scaling; beyond the machine's cores it can only fall.",
      draw: (width) =>
        chartOver(page, axis, EFFICIENCY, efficiency(page, axis), width, { marks: [ideal] }),
    }).element,
  ];
}

function computeShare(v) {
  const shares = v.done.flatMap((run) =>
    (run.result.workers_detail ?? [])
      .filter((w) => w.role !== "server")
      .map((w) => {
        const all = (w.compute_seconds ?? 0) + (w.communicate_seconds ?? 0) + (w.wait_seconds ?? 0);
        return all > 0 && exists(w.compute_seconds) ? w.compute_seconds / all : null;
      }),
  );
  return { mean: mean(shares) };
}

export function speed(page) {
  const axis = page.report.axes.find((one) => one.name === "workers" && one.values?.length > 1);
  const content = [
    perVariant(
      page,
      "Samples a second",
      "All samples over the training time of the worker that took longest; lines are 95 % intervals over seeds.",
      RATE,
      rate,
    ),
    perVariant(
      page,
      "Samples a second without start and tail",
      "From when the last worker had finished the first tenth of its steps until the first worker finished its last; lines are 95 % intervals over seeds.",
      STEADY,
      steady,
    ),
    ...(axis && page.report.variants.some((v) => exists(rate(v)?.mean))
      ? overWorkers(page, axis)
      : [
          perVariant(
            page,
            "Share of time spent computing",
            "Compute time over training time, mean over workers and seeds. What is missing to 100 % went into communication and waiting.",
            COMPUTING,
            computeShare,
          ),
        ]),
  ].filter(Boolean);
  return content.length ? { id: "speed", title: "Speed and scaling", content } : null;
}
