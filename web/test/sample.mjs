// A made-up study for the tests: its numbers mean nothing. The same at every call.

const WORKERS = 3;
const SEEDS = [1, 2, 3];
const EPOCHS = 5;
const STEPS = 157; // an epoch

// [name, final score, seconds an epoch, bytes a step and rank, consensus distance]
const VARIANTS = [
  ["ring all-reduce", 0.9812, 6.4, [1.77e6, 1.77e6, 1.77e6], 0],
  ["ring reduce", 0.9809, 7.1, [2.66e6, 2.66e6, 1.33e6], 0],
  ["parameter server", 0.9811, 8.3, [1.33e6, 1.33e6, 1.33e6, 3.99e6], 0],
  ["step-wise chunked", 0.9786, 5.9, [0.89e6, 0.89e6, 0.89e6], 0.031],
  ["step-wise token", 0.9724, 6.6, [0.89e6, 0.89e6, 0.89e6], 0.118],
  ["local SGD, period 2", 0.9801, 5.6, [0.885e6, 0.885e6, 0.885e6], 0.0125],
];

function random(seed) {
  // mulberry32
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const figure = (values) => {
  const n = values.length,
    mean = values.reduce((a, b) => a + b, 0) / n;
  if (n < 2) return { mean, low: null, high: null, n, values };
  const half = 4.303 * Math.sqrt(values.reduce((a, v) => a + (v - mean) ** 2, 0) / (n - 1) / n);
  return { mean, low: mean - half, high: mean + half, n, values };
};

function resourceSamples(next, ranks, seconds) {
  return Array.from({ length: ranks }, (_, rank) => {
    const server = rank >= WORKERS;
    const t = Array.from({ length: 60 }, (_, i) => +(((i + 1) * seconds) / 60).toFixed(3));
    const series = (base, spread) => t.map(() => +(base + spread * (next() - 0.5)).toFixed(1));
    return {
      rank,
      role: server ? "server" : "worker",
      host: "sample",
      t,
      cpu_percent: series(server ? 22 : 63, 20),
      cpu_user_percent: series(server ? 12 : 55, 14),
      cpu_system_percent: series(9, 6),
      private_bytes: t.map((_, i) => Math.round(1.9e8 + 4e7 * Math.min(1, i / 12) + 2e6 * next())),
      shared_bytes: series(9.2e7, 2e5),
      threads: series(3, 0),
      network_sent_bytes_per_second: series(4.4e7, 1.2e7),
      network_received_bytes_per_second: series(4.2e7, 1.2e7),
      disk_read_bytes_per_second: t.map((_, i) => (i < 4 ? 2.2e7 * next() : 0)),
      disk_written_bytes_per_second: t.map((_, i) => (i % 12 === 11 ? 3e6 : 2e4)),
    };
  });
}

function makeRun(label, [name, score, epochSeconds, bytes, distance], workers, seed, simulated) {
  const next = random(seed * 1000 + workers * 100 + name.length * 7 + (simulated ? 1 : 0));
  const slow = 1 + 0.05 * (next() - 0.5);
  const seconds =
    epochSeconds * EPOCHS * slow * (simulated ? 0.95 : 1) * (1 + 0.04 * (workers - 3));
  const steps = Math.round((STEPS * EPOCHS * 3) / workers);
  const ranks = bytes.length - WORKERS + workers;
  const final = score + 0.0016 * (next() - 0.5);
  const scoreAt = (epoch) =>
    final -
    0.055 * Math.exp(-0.9 * (epoch - 1)) +
    0.055 * Math.exp(-0.9 * (EPOCHS - 1)) +
    0.001 * (next() - 0.5) * (epoch < EPOCHS);
  const sent = (rank) =>
    Math.round((bytes[Math.min(rank, bytes.length - 1)] * (workers - 1)) / 2) * steps;
  const all = Array.from({ length: ranks }, (_, rank) => sent(rank)).reduce((a, b) => a + b, 0);
  const curve = Array.from({ length: EPOCHS }, (_, i) => ({
    epoch: i + 1,
    step: Math.round((steps * (i + 1)) / EPOCHS),
    seconds: (seconds * (i + 1)) / EPOCHS,
    bytes: (all * (i + 1)) / EPOCHS,
    score: i + 1 === EPOCHS ? final : scoreAt(i + 1),
    loss: 0.3 / (i + 1),
    train_loss: 0.33 / (i + 1),
    consensus_distance: distance * (0.7 + 0.5 * next()) * Math.exp(-0.12 * i),
  }));
  const details = Array.from({ length: ranks }, (_, rank) => {
    const server = rank >= workers;
    const part = (share) => seconds * share * (0.96 + 0.08 * next());
    return {
      rank,
      role: server ? "server" : "worker",
      host: "sample",
      samples_per_second: (10000 * EPOCHS) / seconds / workers,
      cpu_percent: 64,
      peak_rss_bytes: 3.2e8,
      shared_bytes: 9.2e7,
      bytes_sent: sent(rank),
      bytes_received: Math.round(all / ranks),
      messages_sent: 4 * steps,
      bytes_other: 2e6,
      compute_seconds: server ? part(0.08) : part(rank === 1 ? 0.66 : 0.55),
      communicate_seconds: part(0.2),
      hidden_seconds: 0,
      wait_seconds: server ? part(0.7) : part(rank === 1 ? 0.11 : 0.24),
      waited_for_steps: server
        ? 0
        : Math.round(steps * (rank === 1 ? 0.62 : 0.38 / (workers - 1 || 1))),
      waited_for_seconds: part(rank === 1 ? 0.2 : 0.06),
    };
  });
  const id = (
    random([...`${label} ${seed}`].reduce((sum, c) => (sum * 31 + c.charCodeAt(0)) | 0, 7))() *
    2 ** 48
  )
    .toString(16)
    .padStart(12, "0")
    .slice(0, 12);
  const command = `lockstep train --workers ${workers} --strategy ${name.replace(/\W+/g, "-")} --data digits --epochs ${EPOCHS} --seed ${seed}`;
  return {
    id,
    variant: label,
    seed,
    status: "done",
    reason: null,
    command: `${command} --out runs/${id}`,
    folder: `runs/${id}`,
    seconds: seconds + 3,
    result: {
      schema_version: 1,
      status: "done",
      score: final,
      steps,
      train_seconds: seconds,
      samples_per_second: (((10000 * EPOCHS) / seconds) * workers ** 0.8) / 2.4,
      bytes_total: all,
      target_seconds: seconds * (0.985 - final + 0.02) * 20,
      workers_detail: details,
    },
    curve,
    workers: simulated ? [] : resourceSamples(next, ranks, seconds),
  };
}

const COLUMNS = [
  { key: "score", label: "accuracy", unit: "%", better: "high", digits: 2 },
  { key: "target_seconds", label: "time to 97 %", unit: "s", better: "low" },
  { key: "train_seconds", label: "training time", unit: "s", better: "low" },
  { key: "samples_per_second", label: "samples/s", unit: "/s", better: "high" },
  { key: "seconds_per_step", label: "time a step", unit: "s", better: "low" },
  { key: "bytes_per_step", label: "bytes a step", unit: "B", better: "low" },
];

function makeVariant(spec, workers, runs, simulated = false) {
  const [name] = spec;
  const done = runs.filter((run) => run.status === "done");
  const of = (value) => figure(done.map(value));
  const curve = done[0].curve.map((point, i) => ({
    ...point,
    ...Object.fromEntries(
      ["seconds", "bytes", "consensus_distance"].map((key) => [
        key,
        figure(done.map((run) => run.curve[i][key])).mean,
      ]),
    ),
    ...(({ mean, low, high, n }) => ({ score: mean, low, high, n }))(
      figure(done.map((run) => run.curve[i].score)),
    ),
  }));
  return {
    label: runs[0].variant,
    name,
    group: { workers: String(workers) },
    flags: { strategy: name },
    command: runs[0].command.replace(/ --out.*/, ""),
    simulated,
    oversubscribed: !simulated && workers > 2,
    tuned: name.startsWith("step-wise") ? { optimizer: "sgd:lr=0.03,momentum=0.5" } : null,
    twin: null,
    figures: {
      score: of((r) => r.result.score),
      target_seconds: of((r) => r.result.target_seconds),
      train_seconds: of((r) => r.result.train_seconds),
      samples_per_second: of((r) => r.result.samples_per_second),
      seconds_per_step: of((r) => r.result.train_seconds / r.result.steps),
      bytes_per_step: of((r) => r.result.bytes_total / r.result.steps),
    },
    curve,
    runs: runs.map((run) => run.id),
  };
}

function compareWith(baseline, variant) {
  const paired = (key, op) =>
    figure(variant.figures[key].values.map((v, i) => op(v, baseline.figures[key].values[i])));
  const as = (name, { mean, low, high, n }) => ({ [name]: mean, low, high, n });
  variant.against_baseline = {
    score: as(
      "difference",
      paired("score", (a, b) => a - b),
    ),
    ...Object.fromEntries(
      [
        "target_seconds",
        "train_seconds",
        "samples_per_second",
        "seconds_per_step",
        "bytes_per_step",
      ].map((key) => [
        key,
        as(
          "ratio",
          paired(key, (a, b) => a / b),
        ),
      ]),
    ),
  };
}

function benchRows() {
  const rows = [];
  for (const [collective, factor] of [
    ["ring", 1],
    ["halving-doubling", 0.8],
    ["tree", 1.6],
    ["shared", 0.5],
  ])
    for (const ranks of [2, 4])
      for (let bytes = 1024; bytes <= 16 * 1024 * 1024; bytes *= 4) {
        const time = 6 * ranks * factor + (bytes / 3000) * factor;
        const total = 2 * (ranks - 1) * bytes;
        rows.push({
          variant: "ring all-reduce",
          collective,
          engine: "lockstep",
          transport: "shm",
          ranks,
          bytes,
          type: "fp32",
          time_us: { mean: time, low: time * 0.95, high: time * 1.06, n: 5 },
          busbw_GBps: {
            mean: ((bytes / time / 1000) * 2 * (ranks - 1)) / ranks,
            low: null,
            high: null,
            n: 5,
          },
          bytes_sent_total: total,
          bytes_sent_busiest: total / ranks,
          formula_total: total,
          formula_busiest: total / ranks,
          wrong: 0,
          command: `lockstep bench allreduce -n ${ranks} -b ${bytes}`,
        });
      }
  return rows;
}

/** 6 variants x 3 seeds on 2, 3 and 4 workers; a failed run, a simulated twin, benchmarks. */
export function sampleStudy() {
  const runs = [],
    variants = [];
  const add = (spec, workers, label, simulated = false) => {
    const made = SEEDS.map((seed) => makeRun(label, spec, workers, seed, simulated));
    if (spec[0] === "parameter server" && workers === 3)
      Object.assign(made[2], {
        status: "failed",
        reason: "rank 1 was killed by signal 9 in step 212",
        result: {},
        curve: [],
        workers: [],
      });
    runs.push(...made);
    variants.push(makeVariant(spec, workers, made, simulated));
    return variants.at(-1);
  };
  for (const spec of VARIANTS)
    for (const workers of [2, 3, 4]) add(spec, workers, `${spec[0]}, workers ${workers}`);
  const twin = add(VARIANTS[0], 3, "ring all-reduce, workers 3, simulated", true);
  const baseline = variants.find((v) => v.label === "ring all-reduce, workers 3");
  baseline.twin = twin.label;
  for (const v of variants)
    if (v.group.workers === "3" && v !== baseline && v !== twin && v.figures.score.n === 3)
      compareWith(baseline, v);
  return {
    schema_version: 1,
    kind: "study",
    title: "A sample of averaging",
    question:
      "Which way of averaging weights should 3 workers use, and what does it cost? (Made-up numbers.)",
    about: "A made-up study for tests.\n\nIt has two paragraphs.",
    size: "quick",
    size_note: "10,000 images, 5 epochs, 3 seeds",
    made_at: "2026-11-16T03:00:00Z",
    version: "0.1.0",
    machine: {
      host: "sample",
      cpu: "Sample CPU 3.0 GHz",
      cores: 2,
      memory_bytes: 8.2e9,
      os: "Sample OS 12",
      kernel: "6.1.0",
    },
    command: "lockstep study studies/sample.toml --quick",
    findings: [
      "Local SGD of period 2 is the cheapest that keeps the accuracy: half the bytes of ring all-reduce, 13 % less time, and no difference in accuracy shown.",
      "Step-wise token loses 0.9 points of accuracy against ring all-reduce, beyond the interval, for the same bytes as local SGD.",
      "Parameter server's busiest rank sends 2.3 times as much as any rank of the ring.",
    ],
    notes: [
      "3 workers × 1 thread on 2 cores: wall times are contention; simulated seconds stand beside them.",
      "1 of 57 runs failed: parameter server, workers 3, seed 3 (rank 1 was killed by signal 9 in step 212).",
    ],
    baseline: baseline.label,
    metric: "accuracy",
    target: 0.97,
    axes: [{ name: "workers", values: ["2", "3", "4"] }],
    columns: COLUMNS,
    variants,
    runs,
    bench: benchRows(),
    tuning: VARIANTS.flatMap(([name, score]) =>
      [0.01, 0.03, 0.1].map((lr, i) => ({
        variant: name,
        value: `sgd:lr=${lr},momentum=0.5`,
        score: score - [0.004, 0, 0.011][i],
        seed: 100,
        chosen: i === 1,
      })),
    ),
  };
}

/** What `lockstep report RUN_DIR` would show: one variant, one run. */
export function sampleRun() {
  const study = sampleStudy();
  const variant = { ...study.variants[1], group: {}, against_baseline: undefined };
  const run = study.runs.find((one) => one.variant === variant.label);
  variant.figures = Object.fromEntries(
    Object.entries(variant.figures).map(([key, f]) => [key, figure(f.values.slice(0, 1))]),
  );
  variant.curve = run.curve;
  return {
    ...study,
    kind: "run",
    title: "One run",
    baseline: null,
    axes: [],
    variants: [variant],
    runs: [run],
    bench: [],
    tuning: [],
    findings: [],
    notes: [],
    size: "full",
    size_note: null,
  };
}

/**
 * As studies come out that tune and simulate: measured on 3 workers as given and tuned, simulated
 * without scores on 2 to 24; the baseline by its name alone; many columns.
 */
export function sampleTunedAndSimulated() {
  const study = sampleStudy();
  const tuned = { optimizer: "sgd:lr=0.03,momentum=0.5" };
  const measured = study.variants
    .filter((v) => v.group.workers === "3" && !v.simulated)
    .map((v) => ({ ...v, tuned: null, twin: `${v.label} (simulated)` }));
  const better = measured.map((v) => ({
    ...v,
    label: `${v.label}, tuned`,
    tuned,
    twin: null,
    figures: { ...v.figures, score: figure(v.figures.score.values.map((value) => value + 0.004)) },
  }));
  const counts = [2, 3, 6, 12, 24];
  const simulated = measured.flatMap((v, i) =>
    counts.map((workers) => ({
      ...v,
      label: `${v.name}, workers ${workers} (simulated)`,
      group: { workers: String(workers) },
      simulated: true,
      oversubscribed: false,
      twin: null,
      curve: [],
      against_baseline: {},
      figures: Object.fromEntries(
        Object.entries({
          train_seconds: 90 / workers + 3 + i,
          samples_per_second: (500 * workers) / (1 + 0.02 * i * workers),
          seconds_per_step: 0.03 + 0.0004 * i * workers,
          communicate_seconds_per_step: 0.002 + 0.0004 * i * workers,
        }).map(([key, value]) => [key, figure([value])]),
      ),
    })),
  );
  measured.forEach(
    (v, i) =>
      (v.figures = {
        ...v.figures,
        communicate_seconds_per_step: figure([0.004 + 0.001 * i, 0.0042 + 0.001 * i]),
      }),
  );
  const more = [
    "communicate_seconds_per_step",
    "wait_seconds_per_step",
    "messages_per_step",
    "cpu_cores",
    "peak_rss_bytes",
    "disk_read_bytes",
  ];
  measured.forEach((v) =>
    more.slice(1).forEach((key, i) => (v.figures[key] = figure([i + 1, i + 1.5]))),
  );
  return {
    ...study,
    title: "Tuned and simulated",
    baseline: "ring all-reduce",
    variants: [...measured, ...better, ...simulated],
    axes: [{ name: "workers", values: counts.map(String) }],
    columns: [
      ...COLUMNS,
      ...more.map((key) => ({
        key,
        label: key.replaceAll("_", " "),
        unit: key.includes("bytes") ? "B" : key.includes("seconds") ? "s" : "",
        better: "low",
        digits: 4,
      })),
    ],
  };
}

/** The same study where two variants compress, one of them beside backward. */
export function sampleCompressed() {
  const study = sampleStudy();
  const compress = (name, ratio, link, overlaps) => {
    for (const { result } of study.runs.filter((run) => run.variant.startsWith(name))) {
      const { steps } = result;
      if (!steps) continue;
      const before = 2e5 * steps;
      result.compression = {
        compressor: "any",
        encode_seconds: 2e-3 * steps,
        decode_seconds: 1e-3 * steps,
        bytes_before: before,
        bytes_after: ratio * before,
        break_even_bits_per_second: (8 * (1 - ratio) * 2e5) / 3e-3,
        link_bits_per_second: link,
        link_is_measured: false,
      };
      result.overlap = overlaps ? { hidden_seconds: 4e-3 * steps } : null;
      result.buckets_detail = [10, 5000].map((numbers, i) => ({
        numbers,
        encode_seconds: 1e-3 * steps,
        exchange_seconds: 3e-3 * steps,
        decode_seconds: 0.5e-3 * steps,
        hidden_seconds: overlaps && i === 0 ? 4e-3 * steps : 0,
        bytes_before: before / 2,
        bytes_after: (ratio * before) / 2,
      }));
    }
  };
  compress("ring all-reduce", 0.5, 1e8, true);
  compress("local SGD", 0.01, 1e10, false);
  return study;
}
