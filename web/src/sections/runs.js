// Tuning, every run, and how to do it all again.

import { h } from "../dom.js";
import { commandLine } from "../figure.js";
import { count, exists, formatOf, seconds } from "../format.js";
import { table } from "../table.js";
import { factText } from "./overview.js";

export function tuning(page) {
  const { report } = page;
  if (!report.tuning.length) return null;
  const format = formatOf(report.score);
  return {
    id: "tuning",
    title: "Tuning",
    content: [
      h(
        "p",
        { class: "lead" },
        "Each variant tried the same values, on a seed that no comparison uses. The best of each was chosen.",
      ),
      table({
        caption: "Values tried",
        className: "dense",
        rows: () => report.tuning,
        rowClass: (row) => (row.chosen ? "chosen" : null),
        columns: [
          { label: "Variant", value: (row) => row.variant },
          {
            label: "Value",
            value: (row) => row.value,
            render: (row) => h("code", {}, String(row.value)),
          },
          {
            label: report.score.label,
            numeric: true,
            descendingFirst: true,
            value: (row) => row.score,
            render: (row) => format.one(row.score),
          },
          { label: "Seed", numeric: true, value: (row) => row.seed },
          {
            label: "Chosen",
            value: (row) => (row.chosen ? 0 : 1),
            render: (row) => (row.chosen ? "✓ chosen" : ""),
          },
        ],
      }).element,
    ],
  };
}

const STATUS = { done: "✓ done", failed: "✗ failed", stopped: "◼ stopped" };

export function runs(page) {
  const { report } = page;
  if (!report.runs.length) return null;
  const ended = (status) => report.runs.filter((run) => run.status === status).length;
  const others = report.runs.length - ended("done");
  const format = formatOf(report.score);
  return {
    id: "runs",
    title: "All runs",
    content: [
      h(
        "p",
        { class: "lead" },
        [
          `${ended("done")} of ${count(report.runs.length, "run")} ended well`,
          ended("failed") ? `${ended("failed")} failed` : null,
          others > ended("failed") ? `${others - ended("failed")} did not finish` : null,
        ]
          .filter(Boolean)
          .join(", ") + ".",
      ),
      table({
        caption: "All runs",
        className: "dense runs",
        rows: () => report.runs,
        rowClass: (run) => (run.status === "done" ? null : "failed"),
        columns: [
          {
            label: "Run",
            value: (run) => run.id,
            render: (run) => h("code", { title: run.folder ?? null }, String(run.id ?? "")),
          },
          { label: "Variant", value: (run) => run.variant },
          { label: "Seed", numeric: true, value: (run) => run.seed },
          {
            label: "Status",
            value: (run) => run.status,
            render: (run) =>
              h(
                "span",
                {},
                STATUS[run.status] ?? String(run.status),
                run.reason ? h("span", { class: "reason" }, run.reason) : null,
              ),
          },
          {
            label: report.score.label,
            numeric: true,
            descendingFirst: true,
            value: (run) => run.result.score ?? null,
            render: (run) => format.one(run.result.score),
          },
          {
            label: "Time",
            numeric: true,
            value: (run) => run.seconds ?? null,
            render: (run) => (exists(run.seconds) ? seconds.one(run.seconds) : "–"),
          },
          {
            label: "Command",
            value: (run) => run.command ?? "",
            render: (run) => (run.command ? commandLine(run.command) : ""),
          },
        ],
      }).element,
    ],
  };
}

/** How to reproduce, and everything known about the machine. */
export function reproduce(page) {
  const { report } = page;
  const facts = Object.entries(report.machine ?? {}).filter(
    ([, value]) => value !== null && value !== undefined,
  );
  const variants = report.variants.filter((v) => v.command);
  return {
    id: "reproduce",
    title: "How to reproduce",
    content: [
      report.command
        ? h(
            "p",
            {},
            report.kind === "run"
              ? "The same run again:"
              : "The whole study; runs that are there already are not run again:",
          )
        : null,
      report.command ? commandLine(report.command) : null,
      variants.length
        ? h(
            "details",
            {},
            h("summary", {}, "One command a variant"),
            h(
              "dl",
              { class: "commands" },
              variants
                .map((v) => [h("dt", {}, v.label), h("dd", {}, commandLine(v.command))])
                .flat(),
            ),
          )
        : null,
      facts.length
        ? h(
            "details",
            {},
            h("summary", {}, "The machine in full"),
            h(
              "dl",
              { class: "facts full" },
              facts.map(([key, value]) =>
                h(
                  "div",
                  {},
                  h("dt", {}, key.replace(/_/g, " ")),
                  h("dd", {}, factText(key, value)),
                ),
              ),
            ),
          )
        : null,
    ].filter(Boolean),
  };
}
