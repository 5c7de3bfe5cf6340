// Where a step's time goes, worker by worker, and who kept the others waiting.

import * as Plot from "@observablehq/plot";
import { grid, plot, TIP } from "../chart.js";
import { figure } from "../figure.js";
import { exists, percent, seconds } from "../format.js";
import { shorten, textWidth, withLegend } from "../labels.js";
import { leading, MOST_RANKS, rankName, ranksOf } from "../ranks.js";

const PARTS = [
  ["compute", "var(--compute)"],
  ["communicate", "var(--communicate)"],
  ["wait", "var(--wait)"],
];

/**
 * Bars by rank under a heading for each variant; rows: {panel, rank, from, to, opacity?, label?, title}.
 * One band scale for all, so that a variant takes as many rows as it has ranks.
 */
export function rankBars(rows, { width, x, domain, fill, legendRoom = false, labelled = false }) {
  const panels = [...new Set(rows.map((row) => row.panel))];
  const ranksIn = (panel) => [
    ...new Set(rows.filter((row) => row.panel === panel).map((row) => row.rank)),
  ];
  const at = (panel, rank) => JSON.stringify([panel, rank]);
  const places = panels.flatMap((panel) => [
    at(panel, null),
    ...ranksIn(panel).map((rank) => at(panel, rank)),
  ]);
  const left = Math.max(...rows.map((row) => textWidth(row.rank))) + 14;
  const ticks = Math.max(2, Math.min(8, Math.floor((width - left) / 100)));
  return plot({
    width,
    height: places.length * 21 + (legendRoom ? 72 : 52),
    marginLeft: left,
    marginRight: labelled ? 72 : 20,
    marginTop: legendRoom ? 24 : 4,
    x: { label: x.label, labelArrow: "none", tickFormat: x.tick, domain, ticks },
    y: {
      domain: places,
      label: null,
      tickSize: 0,
      padding: 0.22,
      tickFormat: (place) => JSON.parse(place)[1] ?? "",
    },
    marks: [
      grid("x", ticks),
      Plot.barX(rows, {
        x1: "from",
        x2: "to",
        y: (row) => at(row.panel, row.rank),
        fill,
        fillOpacity: (row) => row.opacity ?? 1,
        title: "title",
        tip: TIP,
      }),
      Plot.text(panels, {
        y: (panel) => at(panel, null),
        frameAnchor: "left",
        dx: 2 - left,
        dy: 4,
        text: (panel) => shorten(panel, 60),
        textAnchor: "start",
        fill: "var(--ink)",
        fontWeight: 600,
      }),
      labelled
        ? Plot.text(rows, {
            x: "to",
            y: (row) => at(row.panel, row.rank),
            text: "label",
            textAnchor: "start",
            dx: 6,
            fill: "var(--ink)",
          })
        : null,
    ],
  });
}

const many = (page) =>
  page.report.variants.some((v) => ranksOf(v).length > MOST_RANKS)
    ? ` Where a variant has more than ${MOST_RANKS} ranks, the ${MOST_RANKS} with most of it are shown.`
    : "";

function splitFigure(page) {
  return figure(page, {
    title: "Time of a step, worker by worker",
    command: page.report.command,
    caption:
      "Seconds a step that each rank computed, communicated and waited for others; mean over steps and seeds. Communication hidden behind compute is not counted." +
      many(page),
    draw: (width) => {
      const rows = [];
      for (const v of page.selection.shown()) {
        const whole = (rank) =>
          PARTS.reduce((sum, [part]) => sum + (rank.perStep(`${part}_seconds`) ?? 0), 0);
        for (const rank of leading(ranksOf(v), whole)) {
          let from = 0;
          for (const [part] of PARTS) {
            const value = rank.perStep(`${part}_seconds`);
            if (!exists(value)) continue;
            rows.push({
              panel: page.selection.title(v),
              variant: v.label,
              rank: rankName(rank),
              part,
              from,
              to: from + value,
              title: `${page.selection.title(v)}, ${rankName(rank)}\n${part}: ${seconds.one(value)} a step`,
            });
            from += value;
          }
        }
      }
      if (!rows.length) return null;
      const svg = rankBars(rows, {
        width,
        fill: (row) => `var(--${row.part})`,
        legendRoom: true,
        x: { label: "time a step", tick: seconds.tick },
      });
      return {
        svg: withLegend(svg, PARTS),
        rows: rows.map((r) => ({
          variant: r.variant,
          rank: r.rank,
          part: r.part,
          seconds_per_step: r.to - r.from,
        })),
      };
    },
  }).element;
}

function waitedFor(page) {
  return figure(page, {
    title: "Who was waited for",
    command: page.report.command,
    caption:
      "Share of steps in which a rank was the last to be ready, so that the others waited for it; mean over seeds. Even shares are chance, one long bar is a straggler." +
      many(page),
    draw: (width) => {
      const rows = [];
      for (const v of page.selection.shown()) {
        const ranks = ranksOf(v).filter((rank) => exists(rank.get("waited_for_steps")));
        const value = (rank) => rank.perStep("waited_for_steps") ?? 0;
        const most = Math.max(...ranks.map(value));
        for (const rank of leading(ranks, value)) {
          const cost = rank.get("waited_for_seconds");
          rows.push({
            panel: page.selection.title(v),
            variant: v.label,
            rank: rankName(rank),
            from: 0,
            to: value(rank),
            seconds: cost,
            colour: v.colour,
            opacity: value(rank) === most ? 0.95 : 0.45,
            label: percent.one(value(rank)),
            title: `${rankName(rank)} was last in ${percent.one(value(rank))} of steps${exists(cost) ? `\nthe others waited ${seconds.one(cost)} in all` : ""}`,
          });
        }
      }
      if (!rows.length) return null;
      const svg = rankBars(rows, {
        width,
        fill: "colour",
        labelled: true,
        domain: [0, Math.max(...rows.map((r) => r.to)) || 1],
        x: { label: "share of steps", tick: percent.tick },
      });
      return {
        svg,
        rows: rows.map((r) => ({
          variant: r.variant,
          rank: r.rank,
          share_of_steps: r.to,
          waited_for_seconds: r.seconds,
        })),
      };
    },
  }).element;
}

const someRank = (report, field) =>
  report.variants.some((v) => ranksOf(v).some((rank) => exists(rank.get(field))));

export function steps(page) {
  const content = [
    someRank(page.report, "compute_seconds") ? splitFigure(page) : null,
    someRank(page.report, "waited_for_steps") ? waitedFor(page) : null,
  ].filter(Boolean);
  return content.length ? { id: "steps", title: "Where the time goes", content } : null;
}
