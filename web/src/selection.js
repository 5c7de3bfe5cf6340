// What the reader has chosen to see. One object; figures draw themselves again when it changes.

/** The value of an axis to begin with: the baseline's, else that of most measured variants. */
function firstChoice(report, axis) {
  const ofBaseline = report.variants
    .filter((v) => v.isBaseline && v.label === report.baseline)
    .map((v) => v.group[axis.name]);
  if (axis.name !== "tuning" && ofBaseline[0] !== undefined) return ofBaseline[0];
  const counted = axis.values.map(
    (value) => report.variants.filter((v) => !v.simulated && v.group[axis.name] === value).length,
  );
  return axis.values[counted.lastIndexOf(Math.max(...counted))] ?? null;
}

export class Selection {
  constructor(report) {
    this.report = report;
    this.hidden = new Set();
    this.simulated = !report.mixed;
    // With one name, variants differ by axes alone: all of them are the comparison.
    const several = new Set(report.variants.map((v) => v.name)).size > 1;
    this.axes = new Map(
      report.axes.map((axis) => [axis.name, several ? firstChoice(report, axis) : null]),
    );
    this.listeners = [];
  }

  onChange(listener) {
    this.listeners.push(listener);
  }

  changed() {
    for (const listener of this.listeners) listener();
  }

  toggle(key) {
    if (!this.hidden.delete(key)) this.hidden.add(key);
    this.changed();
  }

  only(key) {
    const alone = this.report.keys.every((other) => this.hidden.has(other) === (other !== key));
    this.hidden = new Set(alone ? [] : this.report.keys.filter((other) => other !== key));
    this.changed();
  }

  choose(axis, value) {
    this.axes.set(axis, value);
    this.changed();
  }

  showSimulated(on) {
    this.simulated = on;
    this.changed();
  }

  /**
   * Variants to draw. `free`: axes whose choice does not count; `kinds`: measured and simulated alike;
   * `off`: also those whose chips are off.
   */
  shown({ free = [], kinds = false, off = false } = {}) {
    return this.report.variants.filter(
      (variant) =>
        (off || !this.hidden.has(variant.key)) &&
        (kinds || this.simulated || !variant.simulated) &&
        [...this.axes].every(
          ([axis, value]) =>
            value === null ||
            free.includes(axis) ||
            variant.group[axis] === undefined ||
            variant.group[axis] === value,
        ),
    );
  }

  /** What to call it here: without the values of axes that are the same for all that is shown. */
  title(variant) {
    const settled = [...this.axes.values()].every((value) => value !== null);
    const text = settled && this.axes.size ? variant.name : variant.short;
    return variant.dashed && !/simulat/i.test(text) ? `${text} (simulated)` : text;
  }
}
