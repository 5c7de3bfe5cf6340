// Puts the page together from the document that report.html carries.

import { h } from "./dom.js";
import { Page } from "./page.js";
import { readReport } from "./report.js";
import { Selection } from "./selection.js";
import { toolbar } from "./toolbar.js";
import { axes } from "./sections/axes.js";
import { bench } from "./sections/bench.js";
import { compare } from "./sections/compare.js";
import { compression } from "./sections/compression.js";
import { consensus, learning } from "./sections/learning.js";
import { overview } from "./sections/overview.js";
import { resources } from "./sections/resources.js";
import { reproduce, runs, tuning } from "./sections/runs.js";
import { speed } from "./sections/speed.js";
import { steps } from "./sections/steps.js";
import { traffic } from "./sections/traffic.js";
import { twin } from "./sections/twin.js";

const SECTIONS = [
  compare,
  learning,
  speed,
  steps,
  traffic,
  compression,
  resources,
  consensus,
  axes,
  twin,
  bench,
  tuning,
  runs,
  reproduce,
];
const SCHEMA = 1;

function header(report) {
  const made = report.made_at ? new Date(report.made_at) : null;
  const date =
    made && !Number.isNaN(made.getTime())
      ? made.toLocaleDateString("en-GB", {
          day: "numeric",
          month: "long",
          year: "numeric",
          timeZone: "UTC",
        })
      : null;
  return h(
    "header",
    {},
    h(
      "p",
      { class: "kicker" },
      ["Lockstep", report.kind === "run" ? "run" : "study", date].filter(Boolean).join(" · "),
    ),
    h("h1", {}, report.title ?? "Report"),
  );
}

function build(document_) {
  const report = readReport(document_);
  const selection = new Selection(report);
  const page = new Page(report, selection);
  document.title = report.title ?? "Report";
  const first = overview(page);
  const sections = SECTIONS.map((section) => section(page)).filter(Boolean);
  document.body.append(
    h("a", { class: "skip", href: "#answer" }, "To the answer"),
    toolbar(selection),
    h(
      "main",
      {},
      header(report),
      first,
      h(
        "nav",
        { "aria-label": "Sections" },
        sections.map(({ id, title }) => h("a", { href: `#${id}` }, title)),
      ),
      sections.map(({ id, title, content }) => h("section", { id }, h("h2", {}, title), content)),
    ),
    h(
      "footer",
      {},
      `Made by Lockstep${report.version ? ` ${report.version}` : ""}. One file, no network: keep it, send it, print it.`,
    ),
  );
  page.resized();
  addEventListener("beforeprint", () =>
    document.querySelectorAll("details").forEach((element) => (element.open = true)),
  );
}

function start() {
  let data;
  try {
    data = JSON.parse(document.getElementById("data").textContent);
  } catch {
    document.body.append(
      h(
        "main",
        {},
        h("h1", {}, "No data"),
        h("p", {}, "This page carries no report. `lockstep report DIR` writes one that does."),
      ),
    );
    return;
  }
  if (data.schema_version > SCHEMA)
    data.notes = [
      ...(data.notes ?? []),
      `This page reads version ${SCHEMA} of the report's data and was given version ${data.schema_version}: render it with the newer lockstep.`,
    ];
  build(data);
}

start();
