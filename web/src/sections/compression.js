// What compression and overlap cost and save: in all, and bucket by bucket.

import { h } from "../dom.js";
import { figure } from "../figure.js";
import { bytes, exists, formatOf, seconds } from "../format.js";
import { withLegend } from "../labels.js";
import { leading } from "../ranks.js";
import { mean } from "../report.js";
import { table } from "../table.js";
import { rankBars } from "./steps.js";

const bandwidth = formatOf({ unit: "bit/s" });
const PARTS = [
  ["encode", "var(--compute)"],
  ["exchange", "var(--communicate)"],
  ["decode", "var(--wait)"],
];

const perStep = (variant, read) =>
  mean(
    variant.done.map(({ result }) => {
      const value = read(result);
      return exists(value) && result.steps > 0 ? value / result.steps : null;
    }),
  );
const ofRuns = (variant, read) => mean(variant.done.map(({ result }) => read(result) ?? null));

/** A variant's figures; those of a step are of all ranks together. */
function account(variant) {
  const coding = (key) => perStep(variant, (result) => result.compression?.[key]);
  const even = ofRuns(variant, (result) => result.compression?.break_even_bits_per_second);
  const link = ofRuns(variant, (result) => result.compression?.link_bits_per_second);
  const measured = variant.done.some(({ result }) => result.compression?.link_is_measured);
  return {
    variant,
    before: coding("bytes_before"),
    after: coding("bytes_after"),
    encode: coding("encode_seconds"),
    decode: coding("decode_seconds"),
    hidden: perStep(variant, (result) => result.overlap?.hidden_seconds),
    even,
    link,
    measured,
  };
}

function verdict({ even, link, measured, before, after }) {
  if (exists(before) && after >= before) return "never: it saved nothing";
  if (!exists(even) || !exists(link)) return "–";
  if (link >= even) return "no: its link is faster";
  return measured ? "it seems so" : "yes";
}

const column = (label, key, format, title) => ({
  label,
  numeric: true,
  title,
  value: (row) => row[key],
  render: (row) => format.one(row[key]),
});

function figures(page) {
  const shown = table({
    caption: "What compression and overlap cost and saved",
    className: "compression dense",
    rows: () =>
      page.selection
        .shown({ kinds: true })
        .map(account)
        .filter((row) => exists(row.before) || exists(row.hidden)),
    columns: [
      { label: "Variant", value: (row) => page.selection.title(row.variant) },
      column("Before", "before", bytes, "bytes of the numbers as they are"),
      column("After", "after", bytes, "bytes that were sent"),
      column("Encode", "encode", seconds),
      column("Decode", "decode", seconds),
      column("Hidden", "hidden", seconds, "exchange that went on beside backward"),
      column("Stops paying above", "even", bandwidth, "a rank's link that is faster is no gain"),
      column("Link", "link", bandwidth, "of a rank: as set, or what its messages moved at"),
      { label: "Did it pay?", value: verdict },
    ],
  });
  page.selection.onChange(() => shown.refresh());
  return shown.element;
}

/** [{bucket, numbers, encode, exchange, decode, hidden}] of a step, means over runs. */
function bucketsOf(variant) {
  const first = variant.done.find(({ result }) => result.buckets_detail?.length);
  return (first?.result.buckets_detail ?? []).map(({ numbers }, i) => {
    const of = (key) => perStep(variant, (result) => result.buckets_detail?.[i]?.[key]);
    const parts = Object.fromEntries(PARTS.map(([part]) => [part, of(`${part}_seconds`) ?? 0]));
    return { bucket: i + 1, numbers, ...parts, hidden: of("hidden_seconds") ?? 0 };
  });
}

const whole = (bucket) => PARTS.reduce((sum, [part]) => sum + bucket[part], 0);

function byBucket(page) {
  return figure(page, {
    title: "Encode, exchange and decode, bucket by bucket",
    command: page.report.command,
    caption:
      "Seconds a step of all ranks together, in the order in which buckets are sent; exchange holds waiting for other ranks. The figure behind a bar says how much of it went on beside backward.",
    draw: (width) => {
      const rows = [];
      for (const variant of page.selection.shown())
        for (const bucket of leading(bucketsOf(variant), whole)) {
          let from = 0;
          for (const [part] of PARTS) {
            const to = from + bucket[part];
            const last = part === PARTS.at(-1)[0];
            rows.push({
              panel: page.selection.title(variant),
              variant: variant.label,
              rank: `bucket ${bucket.bucket}`,
              part,
              numbers: bucket.numbers,
              hidden: bucket.hidden,
              from,
              to,
              label: last && bucket.hidden > 0 ? `${seconds.one(bucket.hidden)} hidden` : "",
              title: `${page.selection.title(variant)}, bucket ${bucket.bucket} of ${bucket.numbers} numbers\n${part}: ${seconds.one(bucket[part])} a step`,
            });
            from = to;
          }
        }
      if (!rows.length) return null;
      const svg = rankBars(rows, {
        width,
        fill: (row) => PARTS.find(([part]) => part === row.part)[1],
        legendRoom: true,
        labelled: true,
        x: { label: "time a step, all ranks", tick: seconds.tick },
      });
      return {
        svg: withLegend(svg, PARTS),
        rows: rows.map((r) => ({
          variant: r.variant,
          bucket: r.rank,
          numbers: r.numbers,
          part: r.part,
          seconds_per_step: r.to - r.from,
          hidden_seconds_per_step: r.hidden,
        })),
      };
    },
  }).element;
}

export function compression(page) {
  const rows = page.report.variants.map(account);
  const coded = rows.some((row) => exists(row.before) || exists(row.hidden));
  const cut = page.report.variants.some((variant) => bucketsOf(variant).length);
  if (!coded && !cut) return null;
  return {
    id: "compression",
    title: "Compression and overlap",
    content: [
      h(
        "p",
        { class: "lead" },
        "Of a step and all ranks together; mean over seeds. Compression stops paying where a rank's link is so fast that sending what is saved would take no longer than encoding and decoding.",
      ),
      coded ? figures(page) : null,
      cut ? byBucket(page) : null,
    ].filter(Boolean),
  };
}
