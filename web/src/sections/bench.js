// All-reduce benchmarks: time and bus bandwidth by size, and bytes against the formula.

import { lines } from "../chart.js";
import { h, select } from "../dom.js";
import { figure } from "../figure.js";
import { bytes, exists } from "../format.js";
import { appearance } from "../report.js";
import { table } from "../table.js";

const TIME = { key: "time_us", label: "time", unit: "us", better: "low" };
const BANDWIDTH = { key: "busbw_GBps", label: "bus bandwidth", unit: "GB/s", better: "high" };

const nameOf = (row) =>
  row.engine && row.engine !== "lockstep"
    ? `${row.engine} ${row.collective ?? ""}`.trim()
    : (row.collective ?? row.variant);

/** What rows of one chart share: ranks, transport, type; and the variant, where several have one. */
function settings(bench) {
  const plain = (row) =>
    [exists(row.ranks) ? `${row.ranks} ranks` : null, row.transport, row.type]
      .filter(Boolean)
      .join(", ");
  const point = (row) => JSON.stringify([plain(row), nameOf(row), row.bytes]);
  const seen = new Map();
  for (const row of bench)
    seen.set(point(row), new Set([...(seen.get(point(row)) ?? []), row.variant]));
  const several = [...seen.values()].some((variants) => variants.size > 1);
  return (row) => (several ? `${row.variant}, ${plain(row)}` : plain(row));
}

function bySize(page, column, title, caption, leading) {
  const { bench, command } = page.report;
  const settingOf = settings(bench);
  const known = [...new Set(bench.map(settingOf))];
  const names = [...new Set(bench.map(nameOf))];
  let setting = known.at(-1);
  const made = figure(page, {
    title,
    caption,
    command,
    leading,
    controls:
      known.length > 1
        ? [
            select(
              "Setting",
              known.map((one) => [one, one]),
              setting,
              (value) => {
                setting = value;
                made.redraw();
              },
            ),
          ]
        : [],
    draw: (width) => {
      const rows = bench.filter(
        (row) =>
          settingOf(row) === setting &&
          exists(row[column.key]?.mean) &&
          row.bytes > 0 &&
          !page.selection.hidden.has(keyOf(page, row)),
      );
      const series = names.map((name, i) => ({
        name,
        ...appearance(i),
        points: rows
          .filter((row) => nameOf(row) === name)
          .sort((a, b) => a.bytes - b.bytes)
          .map((row) => ({
            x: row.bytes,
            y: row[column.key].mean,
            low: row[column.key].low,
            high: row[column.key].high,
            n: row[column.key].n,
          })),
      }));
      const svg = lines(series, {
        width,
        x: { label: "size of the buffer", unit: "B" },
        y: column,
        logX: true,
        logY: true,
      });
      return (
        svg && {
          svg,
          note: `Shown: ${setting}.`,
          rows: series.flatMap((one) =>
            one.points.map((p) => ({
              setting,
              collective: one.name,
              bytes: p.x,
              [column.key]: p.y,
              low: p.low ?? null,
              high: p.high ?? null,
              runs: p.n ?? null,
            })),
          ),
        }
      );
    },
  });
  return made.element;
}

const keyOf = (page, row) => page.report.variants.find((v) => v.label === row.variant)?.key;

export const timeBySize = (page, leading) =>
  bySize(
    page,
    TIME,
    "Time of an all-reduce by size",
    "Time of one all-reduce, the slowest rank's; both scales are logarithmic. The band is the 95 % interval.",
    leading,
  );

function formulaTable(page) {
  const counted = page.report.bench.filter(
    (row) => exists(row.bytes_sent_total) && exists(row.formula_total),
  );
  if (!counted.length) return null;
  const right = (row) =>
    row.bytes_sent_total === row.formula_total &&
    (!exists(row.formula_busiest) || row.bytes_sent_busiest === row.formula_busiest);
  const wrong = counted.filter((row) => !right(row)).length;
  const column = (label, key) => ({
    label,
    numeric: true,
    value: (row) => row[key] ?? null,
    render: (row) =>
      h("span", { title: exists(row[key]) ? `${row[key]} bytes` : null }, bytes.one(row[key])),
  });
  return [
    h("h3", {}, "Bytes against the formula"),
    h(
      "p",
      { class: "lead" },
      wrong
        ? `${wrong} of ${counted.length} rows differ from the formula.`
        : `All ${counted.length} counts equal the formula, byte for byte.`,
    ),
    table({
      caption: "Measured bytes against the formula",
      className: "dense",
      rows: () => counted,
      rowClass: (row) => (right(row) ? null : "failed"),
      columns: [
        { label: "Collective", value: nameOf },
        { label: "Transport", value: (row) => row.transport },
        { label: "Ranks", numeric: true, value: (row) => row.ranks },
        column("Size", "bytes"),
        column("Sent, all ranks", "bytes_sent_total"),
        column("Formula", "formula_total"),
        column("Sent, busiest", "bytes_sent_busiest"),
        column("Formula, busiest", "formula_busiest"),
        {
          label: "Equal",
          value: (row) => (right(row) ? 1 : 0),
          render: (row) => (right(row) ? "✓ yes" : "✗ no"),
        },
        { label: "Wrong values", numeric: true, value: (row) => row.wrong ?? null },
      ],
    }).element,
  ];
}

export function bench(page) {
  if (!page.report.bench.length) return null;
  return {
    id: "bench",
    title: "Collectives by size",
    content: [
      timeBySize(page),
      page.report.bench.some((row) => exists(row.busbw_GBps?.mean))
        ? bySize(
            page,
            BANDWIDTH,
            "Bus bandwidth by size",
            "Bus bandwidth: bytes that a rank must move at least, over time; comparable over ranks and collectives.",
          )
        : null,
      ...(formulaTable(page) ?? []),
    ].filter(Boolean),
  };
}
