// Documents of other shapes: hostile, empty, failed, one run, benchmarks alone, tuned and simulated.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { start, stop, variantColumn, withPage, withTemplate } from "./browser.mjs";
import { sampleCompressed, sampleRun, sampleStudy, sampleTunedAndSimulated } from "./sample.mjs";

describe("other reports", () => {
  before(start);
  after(stop);

  it("takes hostile strings as text", () => {
    const evil =
      "</script><img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script><!--";
    const study = sampleStudy();
    study.title = study.question = study.command = evil;
    study.findings = study.notes = [evil];
    study.machine.cpu = evil;
    study.columns[1].label = evil;
    study.runs.forEach((run) =>
      Object.assign(run, {
        reason: evil,
        command: evil,
        variant: run.variant.replace("ring reduce", evil),
      }),
    );
    study.variants.forEach((v) =>
      ["name", "label"].forEach((key) => (v[key] = v[key].replace("ring reduce", evil))),
    );
    return withPage(study, {}, async (page) => {
      assert.equal(await page.title(), evil.trim());
      assert.equal(await page.locator("img").count(), 0);
      assert.equal(await page.locator("script").count(), 2);
      assert.equal(await page.textContent("h1"), evil);
    });
  });

  it("renders one run of one variant, without charts that compare", () =>
    withPage(sampleRun(), {}, async (page) => {
      assert.equal(await page.locator(".chip").count(), 0);
      assert.ok((await page.locator(".lead-figure .plot > svg path").count()) > 0);
      assert.match(await page.textContent(".compare"), /one run/);
      assert.equal(await page.locator("#bench, #tuning, #axes, #prediction").count(), 0);
    }));

  it("says what compression and overlap cost and saved, and whether that paid", () =>
    withPage(sampleCompressed(), {}, async (page) => {
      const rows = await page.$$eval("table.compression tbody tr", (all) =>
        all.map((row) => [...row.children].map((cell) => cell.textContent)),
      );
      const ring = rows.find(([name]) => name.startsWith("ring all-reduce"));
      assert.deepEqual(
        ring.slice(1).map((text) => text.replace(/\s/g, " ")),
        ["200 kB", "100 kB", "2.00 ms", "1.00 ms", "4.00 ms", "267 Mbit/s", "100 Mbit/s", "yes"],
      );
      const local = rows.find(([name]) => name.startsWith("local SGD"));
      assert.equal(local[5], "–", "nothing overlaps");
      assert.equal(local.at(-1), "no: its link is faster");
      assert.ok(!rows.some(([name]) => name.startsWith("ring reduce")), "it does not compress");
      const bars = await page.textContent("#encode-exchange-and-decode-bucket-by-bucket svg");
      assert.match(bars, /bucket 1.*bucket 2/s);
      assert.match(bars, /4\.00\sms hidden/);
    }));

  it("has no section of compression where nothing is compressed or overlaps", () =>
    withPage(sampleStudy(), {}, async (page) =>
      assert.equal(await page.locator("#compression").count(), 0),
    ));

  it("tells tuned from given and simulated from measured, with the baseline by name", () =>
    withPage(sampleTunedAndSimulated(), {}, async (page) => {
      const [workers, tuning] = await page.$$(".toolbar select");
      assert.equal(await workers.evaluate((one) => one.value), "3");
      assert.equal(await tuning.evaluate((one) => one.value), "tuned");
      assert.equal((await variantColumn(page)).length, 12); // 6 tuned, 6 simulated
      assert.match(await page.textContent(".compare tbody tr:first-child"), /baseline/);
      const names = async () =>
        page.$$eval('#samples-a-second svg [aria-label="y-axis tick label"] text', (all) =>
          all.map((one) => one.textContent),
        );
      assert.equal((await names()).length, 6);
      await tuning.selectOption({ label: "all" });
      assert.equal(new Set(await names()).size, 12);
      assert.match(await page.textContent("#any-figure-over-workers svg"), /24/);
      assert.ok(
        (await page.locator('#samples-a-second-over-workers [stroke-dasharray="6 4"]').count()) >=
          6,
      );
      assert.equal(await page.locator(".compare thead th").count(), 7);
      await page.click("#compare input[type=checkbox]");
      assert.equal(await page.locator(".compare thead th").count(), 13);
    }));

  it("renders a study in which nothing ended well", () => {
    const study = sampleStudy();
    study.runs.forEach((run) =>
      Object.assign(run, {
        status: "failed",
        reason: "killed",
        result: null,
        curve: null,
        workers: null,
      }),
    );
    study.variants.forEach((v) =>
      Object.assign(v, { figures: {}, curve: [], against_baseline: null }),
    );
    study.bench = [];
    return withPage(study, {}, async (page) => {
      assert.equal(await page.locator("figure").count(), 0);
      assert.match(await page.textContent("#runs"), /0 of 57 runs ended well, 57 failed/);
    });
  });

  it("renders a study of benchmarks alone", () =>
    withPage(
      { ...sampleStudy(), variants: [], runs: [], columns: [], axes: [], tuning: [] },
      {},
      async (page) => {
        assert.match(await page.textContent(".lead-figure h2"), /Time of an all-reduce by size/);
        assert.match(await page.textContent("#bench"), /All 64 counts equal the formula/);
      },
    ));

  it("renders an empty document and says when there is none", async () => {
    await withPage({}, {}, async (page) => assert.equal(await page.textContent("h1"), "Report"));
    await withTemplate(async (page) =>
      assert.match(await page.textContent("main"), /carries no report/),
    );
  });

  it("draws two numeric axes as a heat map, and wide ones on a log scale", () => {
    const study = sampleStudy();
    const base = study.variants.find((v) => v.label === study.baseline);
    const [periods, rates] = [
      ["1", "4", "16", "64"],
      ["10", "100"],
    ];
    study.axes = [
      { name: "period", values: periods },
      { name: "rate", values: rates },
    ];
    study.variants = periods.flatMap((period) =>
      rates.map((rate) => ({
        ...base,
        twin: null,
        name: "local SGD",
        label: `period ${period}, rate ${rate}`,
        group: { period, rate },
      })),
    );
    return withPage(study, {}, async (page) => {
      assert.equal(await page.locator("#period-and-rate-together .plot > svg rect").count(), 8);
      const ticks = await page.$$eval(
        '#any-figure-over-period svg [aria-label="x-axis tick label"] text',
        (all) => all.map((one) => [Number(one.textContent), one.getAttribute("transform")]),
      );
      assert.deepEqual(
        ticks.map(([value]) => value),
        [1, 4, 16, 64],
      );
    });
  });

  it("stays readable with 24 ranks and 30 variants", () => {
    const study = sampleStudy();
    const base = study.variants.find((v) => v.label === study.baseline);
    const run = study.runs.find((one) => one.variant === base.label);
    run.result.workers_detail = Array.from({ length: 24 }, (_, rank) => ({
      ...run.result.workers_detail[0],
      rank,
    }));
    study.variants.push(
      ...Array.from({ length: 30 }, (_, i) => ({
        ...base,
        twin: null,
        name: `variant ${i}`,
        label: `variant ${i}`,
      })),
    );
    return withPage(study, { width: 820 }, async (page) => {
      assert.match(
        await page.textContent("#time-of-a-step-worker-by-worker figcaption"),
        /more than 12 ranks/,
      );
    });
  });
});
