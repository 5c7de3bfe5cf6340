// Reports in headless Chromium. REPORT_TEMPLATE: a template that is built already; without it one is
// built. CHROMIUM: another browser than Debian's. Run tests in the folder that holds node_modules.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const { chromium } = createRequire(join(process.cwd(), "here"))("playwright-core");
const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"];

let folder, browser, template;

export async function start() {
  folder = mkdtempSync(join(tmpdir(), "report-test-"));
  template = process.env.REPORT_TEMPLATE ?? join(folder, "template.html");
  if (!process.env.REPORT_TEMPLATE)
    execFileSync(process.execPath, [
      fileURLToPath(new URL("../build.mjs", import.meta.url)),
      template,
    ]);
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: FLAGS,
  });
}

export async function stop() {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
}

let files = 0;

/** Opens a report in a window; what it logged and asked for is in `page.complaints`. */
async function open(data, { width = 1280, colorScheme = "light" } = {}) {
  const file = join(folder, `report-${++files}.html`);
  const json = JSON.stringify(data).replaceAll("<", "\\u003c"); // as render_report() does
  writeFileSync(
    file,
    readFileSync(template, "utf8").replace("/*DATA*/", () => json),
  );
  const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
  page.complaints = [];
  page.on(
    "console",
    (message) =>
      ["error", "warning"].includes(message.type()) && page.complaints.push(message.text()),
  );
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  page.on(
    "request",
    (request) =>
      request.url() !== pathToFileURL(file).href &&
      !request.url().startsWith("blob:") &&
      page.complaints.push(request.url()),
  );
  await page.goto(pathToFileURL(file).href);
  await page.waitForSelector("footer");
  return page;
}

/** Runs `check` on the page, and then insists that nothing was logged or asked for. */
export async function withPage(data, options, check) {
  const page = await open(data, options);
  try {
    await check(page);
    assert.deepEqual(page.complaints, []);
  } finally {
    await page.close();
  }
}

/** Clicks, and returns the file that this gave. */
export async function download(page, selector) {
  const [file] = await Promise.all([page.waitForEvent("download"), page.click(selector)]);
  return { name: file.suggestedFilename(), text: readFileSync(await file.path(), "utf8") };
}

/** Names in the table, in its order. */
export const variantColumn = (page) =>
  page.$$eval(".compare tbody th .variant > span:last-child", (cells) =>
    cells.map((cell) => cell.firstChild.textContent),
  );

/** The page as it is built, without data. */
export async function withTemplate(check) {
  const page = await browser.newPage();
  await page.goto(pathToFileURL(template).href);
  await check(page);
  await page.close();
}
