// Figures of single ranks, averaged over the runs of a variant.

import { exists } from "./format.js";
import { mean } from "./report.js";

export const MOST_RANKS = 12; // bars a variant; more would be a wall

/** [{rank, role, get(field), perStep(field)}] of a variant: means over its runs that ended well. */
export function ranksOf(variant) {
  const byRank = new Map();
  for (const run of variant.done)
    for (const worker of run.result.workers_detail ?? []) {
      if (!byRank.has(worker.rank)) byRank.set(worker.rank, []);
      byRank.get(worker.rank).push({ worker, steps: run.result.steps });
    }
  return [...byRank]
    .sort(([a], [b]) => a - b)
    .map(([rank, seen]) => ({
      rank,
      role: seen[0].worker.role ?? "worker",
      get: (field) => mean(seen.map(({ worker }) => worker[field])),
      perStep: (field) =>
        mean(
          seen.map(({ worker, steps }) =>
            exists(worker[field]) && steps > 0 ? worker[field] / steps : null,
          ),
        ),
    }));
}

export const rankName = ({ rank, role }) => (role === "server" ? `server ${rank}` : `rank ${rank}`);

/** The ranks to draw: all, or those that lead in `value`; and what to say about it. */
export function leading(ranks, value) {
  if (ranks.length <= MOST_RANKS) return ranks;
  const chosen = new Set([...ranks].sort((a, b) => value(b) - value(a)).slice(0, MOST_RANKS));
  return ranks.filter((rank) => chosen.has(rank));
}
