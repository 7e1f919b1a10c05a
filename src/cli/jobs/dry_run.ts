/** Formats the result of `verk jobs create --dry-run`. */
import { formatBytes } from "../../lib/bytes.ts";
import { formatUsd } from "../../lib/money.ts";
import { formatDuration } from "../../lib/time.ts";
import type { JobValidation } from "../../resources/training/training_jobs/admission/validation_schema.ts";
import { count, plain } from "../output.ts";
import { inCliWords, type Vocabulary } from "../text/api_words.ts";
import { shortNumber } from "./view.ts";

export type Validation = Pick<JobValidation, "valid" | "errors" | "warnings" | "estimate" | "reward_preview"> &
  Partial<Pick<JobValidation, "data_resolver_preview" | "rows_preview">>;
type Fault = Validation["warnings"][number] & { place?: string };

const SAMPLES = 5;
const MOST_CHARS = 2_000;

export function validationLines(result: Validation, vocabulary: Vocabulary): string[] {
  const textOf = (fault: Fault) => inCliWords(fault, vocabulary);
  return [
    headOf(result),
    ...result.errors.map((fault) => `  error: ${textOf(fault)}`),
    ...result.warnings.map((fault) => `  warning: ${textOf(fault)}`),
    ...estimateLines(result.estimate),
    ...resolverLines(result.data_resolver_preview ?? null),
    ...rowsLines(result.rows_preview ?? null),
    ...previewLines(result.reward_preview),
  ];
}

/** All faults of a request that is rejected. */
export const faultLines = (errors: readonly Fault[], vocabulary: Vocabulary): string =>
  [`the job has ${errors.length} errors:`, ...errors.map((fault) => `  ${inCliWords(fault, vocabulary)}`)].join("\n");

const headOf = ({ valid, errors }: Validation) =>
  valid ? "Valid." : `${errors.length} ${errors.length === 1 ? "error" : "errors"}:`;

function estimateLines(estimate: Validation["estimate"]): string[] {
  const { vram_bytes_peak, total_steps, duration_seconds, cost_usd } = estimate;
  const facts = [
    ...(vram_bytes_peak === null ? [] : [`${formatBytes(vram_bytes_peak)} of memory`]),
    ...(total_steps === null ? [] : [count(total_steps, "step")]),
    ...(duration_seconds === null ? [] : [formatDuration(duration_seconds * 1000)]),
    ...(cost_usd === null ? [] : [formatUsd(cost_usd)]),
  ];
  return facts.length > 0 ? [`  estimate: ${facts.join(", ")}`] : [];
}

function resolverLines(preview: JobValidation["data_resolver_preview"]): string[] {
  if (!preview) return [];
  const { rows_in, rows_out, total_rows, samples } = preview;
  const short = (row: object) => JSON.stringify(row).slice(0, 100);
  const of = rows_in < total_rows ? `the first ${rows_in} of ${total_rows} rows` : `${rows_in} rows`;
  return [
    `  resolver: ${rows_out} rows from ${of}`,
    ...samples.flatMap(({ before, after }) => [
      `    ${short(before)}`,
      ...(after.length === 0 ? ["      left out"] : after.map((row) => `      → ${short(row)}`)),
    ]),
  ];
}

/** The text that is learned stands in «». */
export const learnedText = (parts: readonly { text: string; trained: boolean }[]) =>
  parts.map(({ text, trained }) => (trained ? `«${text}»` : text)).join("");

function rowsLines(preview: JobValidation["rows_preview"]): string[] {
  if (!preview) return [];
  const {
    rows,
    measured_rows: measured,
    tokens,
    cut_rows: cut,
    dropped_rows: dropped,
    max_length: most,
    first,
  } = preview;
  const of = measured < rows ? ` (${measured} of them measured)` : "";
  const texts = first?.sequences.flatMap(({ name, tokens: length, parts }) => [
    `  first row, ${name}, ${count(length, "token")}; the text in «» is learned:`,
    ...learnedText(parts)
      .slice(0, MOST_CHARS)
      .split("\n")
      .map((line) => `    ${plain(line)}`),
  ]);
  return [
    `  rows: ${rows}${of}, ${count(tokens, "token")}; ${cut} cut at max_length ${most}, ${dropped} not used`,
    ...(first?.error ? [`  first row: ${first.error}`] : (texts ?? [])),
  ];
}

function previewLines(preview: Validation["reward_preview"]): string[] {
  if (!preview) return [];
  const { mean, std, frac_zero_std: same, latency_ms_p50: ms, samples } = preview;
  const number = (value: number | null) => (value === null ? "-" : shortNumber(value));
  const learnable = same === null ? "" : `, ${Math.round((1 - same) * 100)} % of the groups have different rewards`;
  const speed = ms === null ? "" : `, ${formatDuration(ms)} per sample`;
  return [
    `  reward before training: mean ${number(mean)}, std ${number(std)}${learnable}${speed}`,
    ...samples.slice(0, SAMPLES).map(({ completion, reward, error }) => {
      return `    ${error ? `no reward (${error})` : number(reward)}  ${JSON.stringify(completion).slice(0, 100)}`;
    }),
  ];
}
