// Score over epochs, time and bytes; and how far apart the replicas were.

import { lines } from "../chart.js";
import { capitalised, select } from "../dom.js";
import { figure } from "../figure.js";
import { exists } from "../format.js";
import { wide } from "../report.js";

const AXES = {
  epoch: { label: "epoch", unit: "" },
  seconds: { label: "training time", unit: "s" },
  bytes: { label: "bytes sent by all ranks", unit: "B" },
};

function curveSeries(page, xKey, yKey, keep = () => true) {
  return page.selection
    .shown()
    .map((v) => ({
      ...v,
      name: page.selection.title(v),
      points: v.curve
        .filter((c) => exists(c[xKey]) && exists(c[yKey]) && keep(c))
        .map((c) => ({
          x: c[xKey],
          y: c[yKey],
          n: c.n,
          ...(yKey === "score" ? { low: c.low, high: c.high } : {}),
        })),
    }))
    .filter((one) => one.points.length);
}

/** Ticks at the epochs themselves, as long as they have room. */
function wholeEpochs(series) {
  const epochs = [...new Set(series.flatMap((one) => one.points.map((p) => p.x)))].sort(
    (a, b) => a - b,
  );
  return epochs.length <= 12 && epochs.every(Number.isInteger) ? epochs : undefined;
}

const rowsOf = (series, xKey, yKey) =>
  series.flatMap((one) =>
    one.points.map((p) => ({
      variant: one.label,
      [xKey]: p.x,
      [yKey]: p.y,
      ...(yKey === "score" ? { low: p.low ?? null, high: p.high ?? null, runs: p.n ?? null } : {}),
    })),
  );

function scoreOver(page, xKey, title, caption) {
  const { report } = page;
  if (!report.variants.some((v) => v.curve.some((c) => exists(c[xKey]) && exists(c.score))))
    return null;
  const all = report.variants.flatMap((v) => v.curve.map((c) => c[xKey]));
  let log = xKey === "bytes" && wide(all, 100);
  const made = figure(page, {
    title,
    caption,
    command: report.command,
    controls:
      xKey === "bytes"
        ? [
            select(
              "Scale",
              [
                ["linear", "linear"],
                ["log", "log"],
              ],
              log ? "log" : "linear",
              (value) => {
                log = value === "log";
                made.redraw();
              },
            ),
          ]
        : [],
    draw: (width) => {
      const series = curveSeries(page, xKey, "score", (c) => !log || c[xKey] > 0);
      const svg = lines(series, {
        width,
        x: AXES[xKey],
        y: report.score,
        logX: log,
        labels: xKey === "epoch" ? "end" : "points",
        xTicks: xKey === "epoch" ? wholeEpochs(series) : undefined,
      });
      return svg && { svg, rows: rowsOf(series, xKey, "score") };
    },
  });
  return made.element;
}

export function learning(page) {
  const { label } = page.report.score;
  const repeated = page.report.variants.some((v) => v.curve.some((c) => exists(c.low)));
  const band = repeated ? "The band is the 95 % interval over seeds." : "";
  const content = [
    scoreOver(
      page,
      "epoch",
      `${capitalised(label)} over epochs`,
      `What the same number of passes over the data bought: test ${label} after each epoch. ${band}`.trim(),
    ),
    scoreOver(
      page,
      "seconds",
      `${capitalised(label)} over training time`,
      `What the same time bought: test ${label} over seconds of training, evaluation not counted. ${band}`.trim(),
    ),
    scoreOver(
      page,
      "bytes",
      `${capitalised(label)} over bytes sent`,
      `What the same traffic bought: test ${label} over bytes that all ranks together had sent for the exchange. ${band}`.trim(),
    ),
  ].filter(Boolean);
  return content.length ? { id: "learning", title: "How it learned", content } : null;
}

export function consensus(page) {
  const { report } = page;
  const values = report.variants
    .flatMap((v) => v.curve.map((c) => c.consensus_distance))
    .filter(exists);
  if (!values.some((value) => value > 0)) return null;
  const log = wide(values.filter((value) => value > 0));
  const made = figure(page, {
    title: "Consensus distance over epochs",
    command: report.command,
    caption:
      "Mean over workers of the squared distance between a worker's own weights and the model that was scored; it has no unit. Zero means that all ranks held the same model" +
      (log ? "; zeros are left out of the log scale." : "."),
    draw: (width) => {
      const series = curveSeries(
        page,
        "epoch",
        "consensus_distance",
        (c) => !log || c.consensus_distance > 0,
      );
      const svg = lines(series, {
        width,
        x: AXES.epoch,
        y: { label: "consensus distance", better: "low" },
        logY: log,
        xTicks: wholeEpochs(series),
      });
      return svg && { svg, rows: rowsOf(series, "epoch", "consensus_distance") };
    },
  });
  return { id: "consensus", title: "How far apart the replicas were", content: [made.element] };
}
