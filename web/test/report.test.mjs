// A whole study's page: everything is drawn, and everything that can be clicked does what it says.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { download, start, stop, variantColumn, withPage } from "./browser.mjs";
import { sampleStudy } from "./sample.mjs";

const MARKS = "path, rect, circle, line";

describe("a study's report", () => {
  before(start);
  after(stop);

  it("draws every section and asks no one for anything", () =>
    withPage(sampleStudy(), {}, async (page) => {
      const ids = await page.$$eval("main > section", (sections) =>
        sections.map((section) => section.id),
      );
      assert.deepEqual(ids, [
        "answer",
        "compare",
        "learning",
        "speed",
        "steps",
        "traffic",
        "resources",
        "consensus",
        "axes",
        "prediction",
        "bench",
        "tuning",
        "runs",
        "reproduce",
      ]);
      const marks = await page.$$eval(
        "figure",
        (figures, selector) =>
          figures.map((figure) => [
            figure.id,
            figure.querySelectorAll(`.plot > svg :is(${selector})`).length,
          ]),
        MARKS,
      );
      assert.ok(marks.length >= 16, `${marks.length} figures`);
      for (const [id, count] of marks) assert.ok(count > 3, `${id} has ${count} marks`);
    }));

  it("says what every figure shows and how to get its data", () =>
    withPage(sampleStudy(), {}, async (page) => {
      const figures = await page.$$eval("figure", (all) =>
        all.map((figure) => ({
          id: figure.id,
          caption: figure.querySelector("figcaption").textContent,
          command: figure.querySelector(".command code").textContent,
          label: figure.querySelector("svg[role=img]")?.getAttribute("aria-label") ?? "",
          buttons: [...figure.querySelectorAll(".tools button")].map((b) => b.textContent),
        })),
      );
      for (const { id, caption, command, label, buttons } of figures) {
        assert.ok(caption.length > 40 && label.includes(caption.slice(0, 30)), id);
        assert.match(command, /^lockstep /, id);
        assert.deepEqual(buttons, ["Copy", "CSV", "SVG"], id);
      }
      const levels = await page.$$eval("h1, h2, h3, h4", (heads) =>
        heads.map((head) => Number(head.tagName[1])),
      );
      levels.forEach((level, i) =>
        assert.ok(level <= (levels[i - 1] ?? 0) + 1, `heading ${i} skips a level`),
      );
    }));

  it("answers first: headline, findings, notes and one picture within the first screen", () =>
    withPage(sampleStudy(), {}, async (page) => {
      const study = sampleStudy();
      assert.equal(await page.textContent(".headline"), study.findings[0]);
      assert.equal((await page.$$(".findings li")).length, study.findings.length - 1);
      assert.match(await page.textContent(".notes"), /1 of 57 runs failed/);
      assert.match(await page.textContent(".size"), /Quick size: 10,000 images/);
      const bottom = await page.$eval(
        ".lead-figure .plot",
        (plot) => plot.getBoundingClientRect().bottom,
      );
      assert.ok(bottom < 900, `the picture ends at ${bottom}`);
    }));

  it("sorts by click and by key, and says so", () =>
    withPage(sampleStudy(), {}, async (page) => {
      const before = await variantColumn(page);
      assert.equal(before.length, 7);
      await page.click(".compare thead th:nth-child(2) button");
      const byScore = await variantColumn(page);
      assert.equal(byScore[0], "ring all-reduce");
      assert.equal(byScore.at(-1), "step-wise token");
      const sortOf = () => page.getAttribute(".compare thead th:nth-child(2)", "aria-sort");
      assert.equal(await sortOf(), "descending");
      await page.focus(".compare thead th:nth-child(2) button");
      await page.keyboard.press("Enter");
      assert.deepEqual(await variantColumn(page), [...byScore].reverse());
      assert.equal(await sortOf(), "ascending");
      assert.equal(await page.getAttribute(".compare thead th:nth-child(1)", "aria-sort"), "none");
    }));

  it("keeps what is missing at the end of either order", () => {
    const study = sampleStudy();
    study.variants.find((v) => v.label === "ring reduce, workers 3").figures.target_seconds = null;
    return withPage(study, {}, async (page) => {
      for (let clicks = 0; clicks < 2; ++clicks) {
        await page.click(".compare thead th:nth-child(3) button");
        assert.equal((await variantColumn(page)).at(-1), "ring reduce");
      }
    });
  });

  it("marks the best and compares with the baseline as the intervals allow", () =>
    withPage(sampleStudy(), {}, async (page) => {
      const row = page.locator(".compare tbody tr", { hasText: "step-wise token" });
      assert.match(
        await row.locator("td").first().textContent(),
        /97\.\d\d\s%± 0\.\d\d−0\.\d\d\spoints/,
      );
      assert.match(await row.locator("td .against").first().getAttribute("class"), /bad/);
      const local = page.locator(".compare tbody tr", { hasText: "local SGD" });
      assert.match(await local.locator("td .against").first().getAttribute("class"), /same/);
      assert.equal(await page.locator(".compare tbody td:nth-child(6) .best").count(), 1);
    }));

  it("switches a variant off in all charts at once, and on again", () =>
    withPage(sampleStudy(), {}, async (page) => {
      const drawn = () =>
        page.$$eval(
          "figure .plot > svg",
          (charts) =>
            charts.filter((chart) => chart.textContent.includes("step-wise token")).length,
        );
      const all = await drawn();
      assert.ok(all >= 8, `named in ${all} charts`);
      await page.click('.chip[data-key="step-wise token"]');
      assert.equal(
        await page.getAttribute('.chip[data-key="step-wise token"]', "aria-pressed"),
        "false",
      );
      assert.equal(await drawn(), 0);
      assert.equal(await page.locator(".compare tr.dimmed").count(), 1);
      await page.click('.chip[data-key="step-wise token"]');
      assert.equal(await drawn(), all);
    }));

  it("says so when nothing is selected", () =>
    withPage(sampleStudy(), {}, async (page) => {
      for (const chip of await page.$$(".chip[data-key]")) await chip.click();
      assert.match(
        await page.textContent("#accuracy-over-epochs .plot"),
        /Nothing of this is selected/,
      );
    }));

  it("shows other values of an axis, and simulated variants dashed", () =>
    withPage(sampleStudy(), {}, async (page) => {
      await page.selectOption(".toolbar select", "2");
      assert.ok(!(await variantColumn(page)).some((name) => name.includes("simulated")));
      await page.selectOption(".toolbar select", "3");
      const dashed = () =>
        page.locator('#accuracy-over-epochs .plot > svg [stroke-dasharray="6 4"]').count();
      assert.equal(await dashed(), 0);
      await page.click(".chip.simulated");
      assert.ok((await dashed()) > 0);
    }));

  it("lets the reader choose cost, scale, figure and run", () =>
    withPage(sampleStudy(), {}, async (page) => {
      const text = (selector) => page.textContent(`${selector} .plot > svg`);
      await page.selectOption(".lead-figure select", "bytes_per_step");
      assert.match(await text(".lead-figure"), /bytes a step, lower is better/);
      const before = await text("#accuracy-over-bytes-sent");
      await page.selectOption("#accuracy-over-bytes-sent select", "log");
      assert.notEqual(await text("#accuracy-over-bytes-sent"), before);
      await page.selectOption("#any-figure-over-workers select", "train_seconds");
      assert.match(await text("#any-figure-over-workers"), /training time, lower is better/);
      const cells = await page.$$eval("#workers-and-variant-together .plot rect", (all) =>
        all.map((cell) => cell.getAttribute("fill-opacity")),
      );
      assert.equal(cells.length, 18);
      assert.ok(new Set(cells).size > 10, "cells differ in shade");
      await page.selectOption("#workers-and-variant-together select", "train_seconds");
      const again = await page.$$eval("#workers-and-variant-together .plot rect", (all) =>
        all.map((cell) => cell.getAttribute("fill-opacity")),
      );
      assert.notDeepEqual(again, cells);
      await page.selectOption("#resources > .controls select", {
        label: "parameter server, workers 3, seed 1",
      });
      assert.match(await text("#cpu-over-time"), /server 3/);
      assert.match(await page.textContent("#cpu-over-time .command code"), /parameter-server/);
    }));

  it("gives as CSV exactly what is drawn", () =>
    withPage(sampleStudy(), {}, async (page) => {
      await page.click('.chip[data-key="ring reduce"]');
      const { name, text } = await download(
        page,
        '#accuracy-over-epochs .tools button:text-is("CSV")',
      );
      assert.equal(name, "a-sample-of-averaging-accuracy-over-epochs.csv");
      const [head, ...rows] = text.trimEnd().split("\r\n");
      assert.equal(head, "variant,epoch,score,low,high,runs");
      assert.equal(rows.length, 5 * 5);
      const curve = sampleStudy().variants.find(
        (v) => v.label === "ring all-reduce, workers 3",
      ).curve;
      assert.equal(
        rows[0],
        `"ring all-reduce, workers 3",1,${curve[0].score},${curve[0].low},${curve[0].high},3`,
      );
      assert.ok(!text.includes("ring reduce"));
    }));

  it("gives as SVG a chart that needs no page", () =>
    withPage(sampleStudy(), { colorScheme: "dark" }, async (page) => {
      const { text } = await download(page, '.lead-figure .tools button:text-is("SVG")');
      assert.ok(!/var\(--|currentColor|class=/.test(text), "styles are resolved");
      const alone = await page.evaluate((svg) => {
        const root = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
        return {
          name: root.tagName,
          width: Number(root.getAttribute("width")),
          text: root.textContent,
          paper: root.querySelector("rect").getAttribute("fill"),
        };
      }, text);
      assert.equal(alone.name, "svg");
      assert.ok(alone.width >= 860);
      assert.equal(alone.paper, "rgb(18, 21, 24)");
      for (const name of ["ring all-reduce", "local SGD, period 2", "accuracy, higher is better"])
        assert.ok(alone.text.includes(name), name);
    }));

  it("follows the system's colours until told otherwise", () =>
    withPage(sampleStudy(), { colorScheme: "dark" }, async (page) => {
      const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      assert.equal(await paper(), "rgb(18, 21, 24)");
      await page.click(".theme");
      assert.equal(await paper(), "rgb(255, 255, 255)");
      await page.click(".theme");
      await page.emulateMedia({ media: "print" });
      assert.equal(await paper(), "rgb(255, 255, 255)");
    }));

  for (const width of [360, 820])
    it(`does not scroll sideways at ${width} px`, () =>
      withPage(sampleStudy(), { width }, async (page) => {
        const beyond = await page.evaluate(
          () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
        );
        assert.equal(beyond, 0);
        const wide = await page.$$eval(
          ".plot > svg",
          (charts) =>
            charts.filter((chart) => chart.getBoundingClientRect().right > innerWidth).length,
        );
        assert.equal(wide, 0);
      }));

  it("prints whole: no chart is cut or wider than the paper, no buttons", () =>
    withPage(sampleStudy(), { width: 690, colorScheme: "dark" }, async (page) => {
      await page.emulateMedia({ media: "print" });
      await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
      const paper = 1000; // px of an A4 page's text
      const figures = await page.$$eval("figure", (all) =>
        all.map((figure) => ({
          id: figure.id,
          height: figure.offsetHeight,
          right: figure.querySelector("svg").getBoundingClientRect().right,
          breaks: getComputedStyle(figure).breakInside,
        })),
      );
      for (const { id, height, right, breaks } of figures)
        assert.ok(
          height < paper && right <= 690 && breaks === "avoid",
          `${id}: ${height} high, to ${right}`,
        );
      assert.equal(await page.locator(".tools button >> visible=true").count(), 0);
      assert.equal(await page.locator("details:not([open])").count(), 0);
      assert.equal(
        (await page.pdf({ preferCSSPageSize: true })).subarray(0, 5).toString(),
        "%PDF-",
      );
    }));

  it("is readable: text has AA contrast in both themes", () =>
    withPage(sampleStudy(), {}, async (page) => {
      for (const theme of ["light", "dark"]) {
        await page.evaluate((name) => (document.documentElement.dataset.theme = name), theme);
        const low = await page.evaluate(() => {
          const style = getComputedStyle(document.documentElement);
          const light = (name) => {
            const value = style.getPropertyValue(name).trim();
            const [r, g, b] = [1, 3, 5]
              .map((i) => parseInt(value.slice(i, i + 2), 16) / 255)
              .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          const contrast = (a, b) =>
            (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
          const text = [
            ["--ink", "--page"],
            ["--muted", "--page"],
            ["--muted", "--surface"],
            ["--accent", "--page"],
            ["--good", "--page"],
            ["--bad", "--page"],
            ["--note", "--note-soft"],
            ["--ink", "--note-soft"],
            ["--ink", "--accent-soft"],
          ].filter(([a, b]) => contrast(a, b) < 4.5);
          const marks = Array.from({ length: 10 }, (_, i) => [`--series-${i}`, "--page"]).filter(
            ([a, b]) => contrast(a, b) < 2.6,
          );
          return [...text, ...marks].map((pair) => [...pair, contrast(...pair)]);
        });
        assert.deepEqual(low, [], theme);
      }
    }));
});
