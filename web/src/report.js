// The document as the page uses it: every list present, every variant with its colour and runs.

import { exists } from "./format.js";

export const COLOURS = 10;
const SYMBOLS = [
  "circle",
  "square",
  "triangle",
  "diamond",
  "star",
  "cross",
  "wye",
  "times",
  "asterisk",
  "plus",
];

const list = (value) => (Array.isArray(value) ? value : []);
const unique = (values) => [...new Set(values)];

/**
 * Reads what report.html carries. Variants gain:
 * - `key`: what a chip switches and a colour stands for. With several names it is the name, so that
 *   one strategy has one colour at every number of workers; with one name it is the label. A
 *   simulated twin shares the key of what it predicts.
 * - `short`: the label, without a name that all variants share;
 * - `colour`, `symbol`, `dashed` (simulated, where there is measured beside it), `done` (its runs
 *   that ended well), `isBaseline`, `predicts` (the variant whose twin it is, or null).
 */
export function readReport(document) {
  const report = { ...document };
  for (const name of [
    "findings",
    "notes",
    "axes",
    "columns",
    "variants",
    "runs",
    "bench",
    "tuning",
  ])
    report[name] = list(document[name]);
  report.runs = report.runs.map((run) => ({
    ...run,
    result: run.result ?? {},
    curve: list(run.curve),
    workers: list(run.workers),
  }));
  report.variants = report.variants.map((variant) => ({
    ...variant,
    name: variant.name ?? variant.label,
    group: variant.group ?? {},
    figures: variant.figures ?? {},
    curve: list(variant.curve),
  }));
  report.columns = report.columns.filter((column) =>
    report.variants.some((variant) => exists(variant.figures[column.key]?.mean)),
  );
  report.score = report.columns.find((column) => column.key === "score") ?? {
    key: "score",
    label: report.metric ?? "score",
    unit: report.metric === "accuracy" ? "%" : "",
    better: "high",
  };
  noteTuning(report);
  report.mixed = unique(report.variants.map((variant) => !!variant.simulated)).length > 1;
  decorate(report);
  return report;
}

function decorate(report) {
  const { variants } = report;
  const predicted = new Map(variants.filter((v) => v.twin).map((v) => [v.twin, v]));
  const home = (variant) => predicted.get(variant.label) ?? variant;
  const byName = unique(variants.map((v) => home(v).name)).length > 1;
  const keyOf = (variant) => (byName ? home(variant).name : home(variant).label);
  report.keys = unique(variants.map(keyOf));
  const byId = new Map(report.runs.map((run) => [run.id, run]));
  for (const variant of variants) {
    variant.key = keyOf(variant);
    const shared = byName ? "" : `${variant.name}, `;
    variant.short = variant.label.startsWith(shared)
      ? variant.label.slice(shared.length)
      : variant.label;
    Object.assign(variant, appearance(report.keys.indexOf(variant.key)));
    variant.dashed = report.mixed && !!variant.simulated;
    variant.predicts = predicted.get(variant.label) ?? null;
    // By id: one run may serve two variants, and trials of tuning carry a variant's label too.
    variant.done = list(variant.runs)
      .map((id) => byId.get(id))
      .filter((run) => run?.status === "done");
    variant.isBaseline =
      report.baseline !== null &&
      !variant.simulated &&
      [variant.label, variant.name].includes(report.baseline);
  }
}

/** Where variants come both as given and tuned, that is one more axis of theirs. */
function noteTuning(report) {
  const measured = report.variants.filter((variant) => !variant.simulated);
  if (!measured.some((v) => v.tuned) || measured.every((v) => v.tuned)) return;
  const pairs = new Set(measured.filter((v) => v.tuned).map((v) => v.name));
  if (!measured.some((v) => !v.tuned && pairs.has(v.name))) return;
  report.axes = [...report.axes, { name: "tuning", values: ["as given", "tuned"] }];
  for (const v of measured) v.group = { ...v.group, tuning: v.tuned ? "tuned" : "as given" };
}

/** Of the series of that number; from the eleventh on colours come again with other symbols. */
export function appearance(index) {
  const round = Math.floor(index / COLOURS);
  return {
    colour: `var(--series-${index % COLOURS})`,
    symbol: SYMBOLS[(index + round) % SYMBOLS.length],
  };
}

/** Mean over those that exist, or null. */
export function mean(values) {
  const known = values.filter(exists);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}

/** Do values differ so much that a log scale shows more? */
export function wide(values, times = 20) {
  const positive = values.filter(exists);
  return (
    positive.length > 1 &&
    positive.every((value) => value > 0) &&
    Math.max(...positive) > times * Math.min(...positive)
  );
}
