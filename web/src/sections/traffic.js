// Bytes on the wire: in all, and by rank, where the busiest decides.

import { bars } from "../chart.js";
import { figure } from "../figure.js";
import { bytes, exists } from "../format.js";
import { leading, rankName, ranksOf } from "../ranks.js";
import { rankBars } from "./steps.js";

const TOTAL = {
  key: "bytes_sent_per_step",
  label: "bytes sent a step, all ranks",
  unit: "B",
  better: "low",
};

function known(page) {
  return page.selection
    .shown()
    .map((v) => ({ v, ranks: ranksOf(v).filter((rank) => exists(rank.perStep("bytes_sent"))) }))
    .filter(({ ranks }) => ranks.length);
}

const sum = (ranks) => ranks.reduce((all, rank) => all + rank.perStep("bytes_sent"), 0);

function total(page) {
  return figure(page, {
    title: "Bytes sent a step, all ranks together",
    command: page.report.command,
    caption:
      "Payload of the strategy's own exchange during training steps, counted at the transport; start-up, evaluation and control are not in it.",
    draw: (width) => {
      const rows = known(page).map(({ v, ranks }) => ({
        name: page.selection.title(v),
        label: v.label,
        colour: v.colour,
        faint: v.dashed,
        value: sum(ranks),
      }));
      const svg = bars(rows, { width, column: TOTAL });
      return svg && { svg, rows: rows.map((r) => ({ variant: r.label, [TOTAL.key]: r.value })) };
    },
  }).element;
}

function byRank(page) {
  return figure(page, {
    title: "Bytes sent and received a step, by rank",
    command: page.report.command,
    caption:
      "The longer of a rank's two directions is drawn, since links carry both at once. The busiest rank, in full colour, bounds the speed of the exchange.",
    draw: (width) => {
      const rows = [];
      for (const { v, ranks } of known(page)) {
        const load = (rank) =>
          Math.max(rank.perStep("bytes_sent"), rank.perStep("bytes_received") ?? 0);
        const most = Math.max(...ranks.map(load));
        for (const rank of leading(ranks, load)) {
          const [sent, received] = [rank.perStep("bytes_sent"), rank.perStep("bytes_received")];
          rows.push({
            panel: page.selection.title(v),
            variant: v.label,
            rank: rankName(rank),
            from: 0,
            to: load(rank),
            sent,
            received,
            colour: v.colour,
            opacity: load(rank) >= most * 0.999 ? 0.95 : 0.45,
            label: bytes.one(load(rank)),
            title: `${page.selection.title(v)}, ${rankName(rank)}\nsent ${bytes.one(sent)}, received ${bytes.one(received)} a step`,
          });
        }
      }
      if (!rows.length) return null;
      const svg = rankBars(rows, {
        width,
        fill: "colour",
        labelled: true,
        domain: [0, Math.max(...rows.map((r) => r.to)) || 1],
        x: { label: "bytes a step", tick: bytes.tick },
      });
      return {
        svg,
        rows: rows.map((r) => ({
          variant: r.variant,
          rank: r.rank,
          bytes_sent_per_step: r.sent,
          bytes_received_per_step: r.received,
        })),
      };
    },
  }).element;
}

export function traffic(page) {
  const some = page.report.variants.some((v) =>
    ranksOf(v).some((rank) => rank.perStep("bytes_sent") > 0),
  );
  return some ? { id: "traffic", title: "Traffic", content: [total(page), byRank(page)] } : null;
}
