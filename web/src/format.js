// Numbers as people read them: 1.2 MB, 3.4 s, 98.31 %. The column's unit decides.

const MINUS = "\u2212";
const NARROW_SPACE = "\u202f";
const STEPS = {
  B: [
    [1e12, "TB"],
    [1e9, "GB"],
    [1e6, "MB"],
    [1e3, "kB"],
    [1, "B"],
  ],
  "B/s": [
    [1e12, "TB/s"],
    [1e9, "GB/s"],
    [1e6, "MB/s"],
    [1e3, "kB/s"],
    [1, "B/s"],
  ],
  "bit/s": [
    [1e12, "Tbit/s"],
    [1e9, "Gbit/s"],
    [1e6, "Mbit/s"],
    [1e3, "kbit/s"],
    [1, "bit/s"],
  ],
  s: [
    [1, "s"],
    [1e-3, "ms"],
    [1e-6, "µs"],
    [1e-9, "ns"],
  ],
  us: [
    [1e6, "s"],
    [1e3, "ms"],
    [1, "µs"],
  ],
};
STEPS["µs"] = STEPS.us;

export const exists = (value) => typeof value === "number" && Number.isFinite(value);

function decimals(value, digits) {
  if (value !== 0 && Math.abs(value) < 1e-4)
    return value.toExponential(1).replace(".0e", "e").replaceAll("-", MINUS);
  const text = Math.abs(value).toLocaleString("en-GB", {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
  return (value < 0 && Number(text.replace(/,/g, "")) !== 0 ? MINUS : "") + text;
}

// Three figures that count, and none behind the point from 100 on.
const naturalDigits = (value) =>
  value === 0 || !exists(value)
    ? 0
    : Math.min(6, Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value)) + 1e-9)));

/** How to write values of the size of `value`: what to divide by and the unit behind. */
function stepFor(unit, value, key) {
  if (unit === "%") return [key?.endsWith("_percent") ? 1 : 0.01, "%"];
  const steps = STEPS[unit];
  if (!steps) return [1, unit ?? ""];
  return (
    steps.find(([size]) => Math.abs(value) >= size * 0.9995) ??
    (value === 0 ? [1, unit] : steps.at(-1))
  );
}

const join = (text, suffix) => (suffix ? text + NARROW_SPACE + suffix : text);

/**
 * Writers for one column {key, unit, digits}. A unit of "%" means a fraction, unless the key ends in
 * `_percent`. `digits` count in the unit itself, so they say nothing where another is written (ms for s).
 */
export function formatOf(column) {
  const { key = "", unit = "", digits } = column;
  const step = (value) => stepFor(unit, value, key);
  const places = (scaled) =>
    digits === undefined || digits === null || STEPS[unit] ? naturalDigits(scaled) : digits;
  const one = (value) => {
    if (!exists(value)) return "–";
    const [size, suffix] = step(value);
    return join(
      decimals(value / size, unit === "B" && size === 1 ? 0 : places(value / size)),
      suffix,
    );
  };
  return {
    one,
    /** mean ± half the interval, in the mean's unit */
    withInterval(figure) {
      if (!exists(figure?.mean)) return { mean: "–", interval: "" };
      if (!exists(figure.low) || !exists(figure.high))
        return { mean: one(figure.mean), interval: "" };
      const [size] = step(figure.mean);
      const half = (figure.high - figure.low) / 2 / size;
      if (half === 0) return { mean: one(figure.mean), interval: "± 0" };
      return {
        mean: one(figure.mean),
        interval:
          "± " +
          decimals(half, Math.max(places(figure.mean / size), half < 1 && STEPS[unit] ? 1 : 0)),
      };
    },
    /** a difference to the baseline, with its sign; percentages in points */
    difference(value) {
      const [size, suffix] = step(value);
      const text = decimals(value / size, places(value / size));
      const sign = value > 0 ? "+" : "";
      return join(sign + text, unit === "%" ? "points" : suffix);
    },
    /** on an axis: short, without digits that say nothing */
    tick(value) {
      if (value === 0) return unit === "%" ? join("0", "%") : "0";
      const [size, suffix] = step(value);
      const scaled = value / size;
      return join(decimals(scaled, usefulDigits(scaled)), suffix);
    },
  };
}

function usefulDigits(value) {
  for (let digits = 0; digits < 6; ++digits)
    if (Math.abs(value - Number(value.toFixed(digits))) <= Math.abs(value) * 1e-6) return digits;
  return 6;
}

export const bytes = formatOf({ unit: "B" });
export const seconds = formatOf({ unit: "s" });
export const percent = formatOf({ unit: "%", digits: 1 });
export const plain = formatOf({});

/** 1.23 -> "× 1.23" */
export const ratio = (value) => `×${NARROW_SPACE}${decimals(value, value >= 10 ? 1 : 2)}`;

/** "1 run", "3 runs" */
export const count = (n, word) => `${decimals(n, 0)} ${word}${n === 1 ? "" : "s"}`;
