import { expect, test } from "bun:test";
import { faultLines, learnedText, type Validation, validationLines } from "./dry_run.ts";

const VOCABULARY = { flags: {} };
const ESTIMATE = { vram_bytes_peak: null, total_steps: null, duration_seconds: null, cost_usd: null };
const VALID = { valid: true, errors: [], warnings: [], estimate: ESTIMATE, reward_preview: null };
const fault = (message: string, param: string | null = null) => ({ code: "schema", message, param });
const linesOf = (more: object) => validationLines({ ...VALID, ...more } as unknown as Validation, VOCABULARY);

test("a request without faults is valid; faults are counted and listed", () => {
  expect(linesOf({})).toEqual(["Valid."]);
  expect(linesOf({ valid: false, errors: [fault("no rows")] })).toEqual(["1 error:", "  error: no rows"]);
  expect(linesOf({ valid: false, errors: [fault("a"), fault("b")], warnings: [fault("c")] })).toEqual([
    "2 errors:",
    "  error: a",
    "  error: b",
    "  warning: c",
  ]);
  expect(faultLines([fault("a"), fault("b")], VOCABULARY)).toBe("the job has 2 errors:\n  a\n  b");
});

test("an estimate has the figures that are known", () => {
  const estimate = { vram_bytes_peak: 2 ** 30, total_steps: 1, duration_seconds: 90, cost_usd: 0.5 };
  expect(linesOf({ estimate }).slice(1)).toEqual(["  estimate: 1 GiB of memory, 1 step, 1 min 30 s, $0.50"]);
  expect(linesOf({ estimate: { ...ESTIMATE, total_steps: 20 } }).slice(1)).toEqual(["  estimate: 20 steps"]);
});

test("a resolver shows rows before and after, and those that it leaves out", () => {
  const samples = [
    { before: { q: "x".repeat(200) }, after: [{ prompt: "a" }, { prompt: "b" }] },
    { before: { q: 2 }, after: [] },
  ];
  const preview = { rows_in: 2, rows_out: 2, total_rows: 2, samples };
  expect(linesOf({ data_resolver_preview: preview }).slice(1)).toEqual([
    "  resolver: 2 rows from 2 rows",
    `    {"q":"${"x".repeat(94)}`,
    '      → {"prompt":"a"}',
    '      → {"prompt":"b"}',
    '    {"q":2}',
    "      left out",
  ]);
  expect(linesOf({ data_resolver_preview: { ...preview, total_rows: 3 } })[1]).toBe(
    "  resolver: 2 rows from the first 2 of 3 rows",
  );
});

test("rows show what is learned of the first one", () => {
  const parts = [
    { text: "Q\u001b[31m\n", trained: false },
    { text: "A", trained: true },
  ];
  const preview = {
    rows: 3,
    measured_rows: 3,
    tokens: 1,
    cut_rows: 0,
    dropped_rows: 1,
    max_length: 512,
    first: { error: null, sequences: [{ name: "completion", tokens: 4, parts }] },
  };
  expect(learnedText(parts)).toBe("Q\u001b[31m\n«A»");
  const [counts, head, first = "", second] = linesOf({ rows_preview: preview }).slice(1);
  expect([counts, head, second]).toEqual([
    "  rows: 3, 1 token; 0 cut at max_length 512, 1 not used",
    "  first row, completion, 4 tokens; the text in «» is learned:",
    "    «A»",
  ]);
  expect(first).toStartWith("    Q");
  expect(first).not.toContain("\u001b");
  const failed = { ...preview, measured_rows: 2, first: { error: "no answer", sequences: [] } };
  expect(linesOf({ rows_preview: failed }).slice(1)).toEqual([
    "  rows: 3 (2 of them measured), 1 token; 0 cut at max_length 512, 1 not used",
    "  first row: no answer",
  ]);
  expect(linesOf({ rows_preview: { ...preview, first: null } })).toHaveLength(2);
});

test("a reward has its mean, what can be learned, its time and five samples", () => {
  const sample = (i: number) => ({ completion: `c${i}`, reward: i / 2, error: null });
  const samples = [{ completion: "x", reward: null, error: "timeout" }, ...[1, 2, 3, 4, 5].map(sample)];
  const preview = { mean: 0.5, std: null, frac_zero_std: 0.25, latency_ms_p50: 20, samples };
  const lines = linesOf({ reward_preview: preview }).slice(1);
  expect(lines[0]).toMatch(
    /^ {2}reward before training: mean 0\.5\d*, std -, 75 % of the groups have different rewards, .* per sample$/,
  );
  expect(lines).toHaveLength(6);
  expect(lines[1]).toBe('    no reward (timeout)  "x"');
  expect(lines[2]).toMatch(/^ {4}0\.5\d* {2}"c1"$/);
  const unknown = { mean: null, std: null, frac_zero_std: null, latency_ms_p50: null, samples: [] };
  expect(linesOf({ reward_preview: unknown }).slice(1)).toEqual(["  reward before training: mean -, std -"]);
});
