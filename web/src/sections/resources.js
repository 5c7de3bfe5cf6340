// CPU, memory, network and disk over time: one run, one panel a rank.

import * as Plot from "@observablehq/plot";
import { grid, plot, tip } from "../chart.js";
import { h, select } from "../dom.js";
import { figure } from "../figure.js";
import { exists, formatOf } from "../format.js";
import { withLegend } from "../labels.js";
import { rankName } from "../ranks.js";

const CPU = formatOf({ key: "cpu_percent", unit: "%" });
const RATE = formatOf({ unit: "B/s" });
const MEMORY = formatOf({ unit: "B" });

// Parts: [field, name, colour]. Stacked where they add up to something.
const FIGURES = [
  {
    title: "CPU over time",
    stacked: true,
    format: CPU,
    unit: "percent",
    caption: "CPU time of each rank's process; 100 % is one core.",
    parts: [
      ["cpu_user_percent", "user", "var(--compute)"],
      ["cpu_system_percent", "system", "var(--communicate)"],
    ],
    instead: [["cpu_percent", "user and system", "var(--compute)"]],
  },
  {
    title: "Memory over time",
    stacked: true,
    format: MEMORY,
    unit: "bytes",
    caption:
      "Resident memory of each rank's process. Shared pages (buffers that ranks map of each other, libraries) count for every rank that maps them, so they must not be added up over ranks.",
    parts: [
      ["private_bytes", "private", "var(--compute)"],
      ["shared_bytes", "shared", "var(--wait)"],
    ],
  },
  {
    title: "Network over time",
    format: RATE,
    unit: "bytes_per_second",
    caption:
      "Bytes a second of each rank, as counted at the transport; where a rank has a network interface of its own, also what the kernel counted there.",
    parts: [
      ["network_sent_bytes_per_second", "sent", "var(--compute)"],
      ["network_received_bytes_per_second", "received", "var(--communicate)"],
      ["interface_sent_bytes_per_second", "sent, by the interface", "var(--series-2)"],
      ["interface_received_bytes_per_second", "received, by the interface", "var(--series-3)"],
    ],
  },
  {
    title: "Disk over time",
    format: RATE,
    unit: "bytes_per_second",
    caption: "Bytes a second that each rank's process read from and wrote to storage.",
    parts: [
      ["disk_read_bytes_per_second", "read", "var(--compute)"],
      ["disk_written_bytes_per_second", "written", "var(--communicate)"],
    ],
  },
];

const has = (worker, field) => Array.isArray(worker[field]) && worker[field].some(exists);

const partsOf = (run, kind) => {
  const parts = kind.parts.filter(([field]) => run.workers.some((worker) => has(worker, field)));
  return parts.length
    ? parts
    : (kind.instead ?? []).filter(([field]) => run.workers.some((worker) => has(worker, field)));
};

function rowsOf(run, kind) {
  const rows = [];
  for (const worker of run.workers) {
    const below = new Array(worker.t?.length ?? 0).fill(0);
    for (const [field, part, colour] of partsOf(run, kind))
      (worker[field] ?? []).forEach((value, i) => {
        if (!exists(value) || !exists(worker.t?.[i])) return;
        rows.push({
          worker: rankName(worker),
          t: worker.t[i],
          part,
          colour,
          value,
          from: kind.stacked ? below[i] : 0,
          to: (kind.stacked ? below[i] : 0) + value,
        });
        below[i] += value;
      });
  }
  return rows;
}

function draw(run, kind, width) {
  const rows = rowsOf(run, kind);
  if (!rows.length) return null;
  const names = [...new Set(rows.map((row) => row.worker))];
  const columns = Math.max(1, Math.min(names.length, Math.floor(width / 220), 4));
  const place = new Map(
    names.map((name, i) => [name, { fx: i % columns, fy: Math.floor(i / columns) }]),
  );
  const down = Math.ceil(names.length / columns);
  const facet = { fx: (row) => place.get(row.worker).fx, fy: (row) => place.get(row.worker).fy };
  const parts = partsOf(run, kind);
  const panels = names.map((worker) => ({ worker }));
  const svg = plot({
    width,
    height: down * 170 + 64,
    marginTop: 46,
    marginLeft: 66,
    marginRight: 14,
    marginBottom: 40,
    x: {
      label: "seconds since the start",
      labelArrow: "none",
      ticks: Math.max(2, Math.floor(width / columns / 90)),
      grid: false,
    },
    y: {
      label: null,
      tickFormat: kind.format.tick,
      ticks: 4,
      domain: [0, Math.max(...rows.map((row) => row.to)) || 1],
      nice: true,
    },
    fx: { axis: null, padding: 0.1 },
    fy: { axis: null, padding: down > 1 ? 0.22 : 0 },
    marks: [
      grid("y", 4),
      parts.map(([, part, colour]) => {
        const own = rows.filter((row) => row.part === part);
        return kind.stacked
          ? Plot.areaY(own, {
              ...facet,
              x: "t",
              y1: "from",
              y2: "to",
              fill: colour,
              fillOpacity: 0.85,
            })
          : Plot.lineY(own, {
              ...facet,
              x: "t",
              y: "value",
              z: "worker",
              stroke: colour,
              strokeWidth: 1.6,
            });
      }),
      Plot.ruleY(panels, { ...facet, y: 0, stroke: "var(--line)" }),
      Plot.text(panels, {
        ...facet,
        frameAnchor: "top-left",
        dy: -13,
        text: "worker",
        fill: "var(--ink)",
        fontWeight: 600,
      }),
      tip(
        rows,
        {
          ...facet,
          x: "t",
          y: "to",
          title: (row) =>
            `${row.worker}, ${row.t.toFixed(1)} s\n${row.part}: ${kind.format.one(row.value)}`,
        },
        Plot.pointerX,
      ),
    ],
  });
  return {
    svg: withLegend(
      svg,
      parts.map(([, part, colour]) => [part, colour]),
    ),
    rows: rows.map((row) => ({
      run: run.id,
      rank: row.worker,
      seconds: row.t,
      part: row.part,
      [kind.unit]: row.value,
    })),
  };
}

export function resources(page) {
  const sampled = page.report.runs.filter((run) =>
    FIGURES.some((kind) => partsOf(run, kind).length),
  );
  if (!sampled.length) return null;
  let run =
    sampled.find((one) =>
      page.report.variants.some((v) => v.isBaseline && v.label === one.variant),
    ) ?? sampled[0];
  const made = FIGURES.filter((kind) => sampled.some((one) => partsOf(one, kind).length)).map(
    (kind) =>
      figure(page, {
        title: kind.title,
        caption: kind.caption,
        command: run.command ?? page.report.command,
        draw: (width) => draw(run, kind, width),
      }),
  );
  const commands = () =>
    made.forEach(({ element }) => {
      const code = element.querySelector(".command code");
      if (code) code.textContent = run.command;
    });
  const choices = sampled.map((one, i) => [
    String(i),
    `${one.variant}, seed ${one.seed}${one.status === "done" ? "" : ` (${one.status})`}`,
  ]);
  return {
    id: "resources",
    title: "What each worker used",
    content: [
      h(
        "div",
        { class: "controls" },
        select("Run", choices, String(sampled.indexOf(run)), (chosen) => {
          run = sampled[Number(chosen)];
          commands();
          made.forEach(({ redraw }) => redraw());
        }),
      ),
      h(
        "div",
        { class: "pairs" },
        made.map(({ element }) => element),
      ),
    ],
  };
}
