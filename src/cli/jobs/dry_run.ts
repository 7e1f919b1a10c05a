/** Formats the result of `verk jobs create --dry-run`. */
import { formatBytes } from "../../lib/bytes.ts";
import { formatUsd } from "../../lib/money.ts";
import { formatDuration } from "../../lib/time.ts";
import type { JobValidation } from "../../resources/training/training_jobs/admission/validation_schema.ts";
import { inCliWords, type Vocabulary } from "../text/api_words.ts";
import { shortNumber } from "./view.ts";

export type Validation = Pick<JobValidation, "valid" | "errors" | "warnings" | "estimate" | "reward_preview"> &
  Partial<Pick<JobValidation, "data_resolver_preview">>;
type Fault = Validation["warnings"][number] & { place?: string };

const SAMPLES = 5;

export function validationLines(result: Validation, vocabulary: Vocabulary): string[] {
  const textOf = (fault: Fault) => inCliWords(fault, vocabulary);
  return [
    headOf(result),
    ...result.errors.map((fault) => `  error: ${textOf(fault)}`),
    ...result.warnings.map((fault) => `  warning: ${textOf(fault)}`),
    ...estimateLines(result.estimate),
    ...resolverLines(result.data_resolver_preview ?? null),
    ...previewLines(result.reward_preview),
  ];
}

const headOf = ({ valid, errors }: Validation) =>
  valid ? "Valid." : `${errors.length} ${errors.length === 1 ? "error" : "errors"}:`;

function estimateLines(estimate: Validation["estimate"]): string[] {
  const { vram_bytes_peak, duration_seconds, cost_usd } = estimate;
  const facts = [
    ...(vram_bytes_peak === null ? [] : [`${formatBytes(vram_bytes_peak)} of memory`]),
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
