// The first screen: which strategy, and what does it cost? In words and one picture.

import { h } from "../dom.js";
import { exists, formatOf } from "../format.js";
import { picture } from "./picture.js";

/** As many findings as fit beside the picture; the others are a click away. */
const FIRST = 3;

export function overview(page) {
  const { report } = page;
  const [headline, ...further] = report.findings;
  const paragraphs = (report.about ?? "")
    .split(/\n\s*\n/)
    .map((text) => text.trim())
    .filter(Boolean);
  const words = h(
    "div",
    { class: "words" },
    report.question ? h("p", { class: "question" }, report.question) : null,
    headline ? h("p", { class: "headline" }, headline) : null,
    findings(further.slice(0, FIRST)),
    further.length > FIRST
      ? h(
          "details",
          { class: "more" },
          h("summary", {}, `${further.length - FIRST} more findings`),
          findings(further.slice(FIRST)),
        )
      : null,
    report.variants.length === 1 ? mainFigures(report) : null,
    report.kind !== "run" && (report.size_note || report.size === "quick")
      ? h(
          "p",
          { class: "size" },
          h("strong", {}, report.size === "quick" ? "Quick size" : "Full size"),
          report.size_note ? `: ${report.size_note}` : "",
          report.size === "quick"
            ? ". A small version of this study: take its figures as a first look."
            : "",
        )
      : null,
  );
  return h(
    "section",
    { id: "answer", class: "overview" },
    h("div", { class: "split" }, words, picture(page)),
    report.notes.length
      ? h(
          "div",
          { class: "notes", role: "note", "aria-label": "Notes" },
          h("h2", { class: "small-heading" }, "Keep in mind"),
          h(
            "ul",
            {},
            report.notes.map((text) => h("li", {}, text)),
          ),
        )
      : null,
    machineFacts(report.machine),
    paragraphs.length
      ? h(
          "details",
          { class: "about" },
          h("summary", {}, report.kind === "run" ? "About this run" : "About this study"),
          paragraphs.map((text) => h("p", {}, text)),
        )
      : null,
  );
}

const findings = (sentences) =>
  sentences.length
    ? h(
        "ul",
        { class: "findings" },
        sentences.map((text) => h("li", {}, text)),
      )
    : null;

/** Of a single variant there is nothing to compare: its figures are the answer. */
function mainFigures(report) {
  const [variant] = report.variants;
  return h(
    "dl",
    { class: "main-figures" },
    report.columns
      .slice(0, 6)
      .filter((column) => exists(variant.figures[column.key]?.mean))
      .map((column) => {
        const { mean, interval } = formatOf(column).withInterval(variant.figures[column.key]);
        return h(
          "div",
          {},
          h("dt", {}, column.label),
          h("dd", {}, mean, interval ? h("span", { class: "interval" }, ` ${interval}`) : null),
        );
      }),
  );
}

const FACTS = [
  ["cpu", "Processor"],
  ["cores", "Cores"],
  ["memory_bytes", "Memory"],
  ["os", "System"],
  ["host", "Host"],
];

function machineFacts(machine) {
  const facts = FACTS.filter(([key]) => machine?.[key] !== undefined && machine[key] !== null);
  if (!facts.length) return null;
  return h(
    "dl",
    { class: "facts" },
    facts.map(([key, label]) =>
      h("div", {}, h("dt", {}, label), h("dd", {}, factText(key, machine[key]))),
    ),
  );
}

export const factText = (key, value) =>
  key.endsWith("bytes") && exists(value)
    ? formatOf({ unit: "B" }).one(value)
    : typeof value === "object" && value !== null
      ? JSON.stringify(value)
      : String(value);
