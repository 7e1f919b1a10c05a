/** The answer to "would this work?" in words. */
import { formatBytes } from "../../lib/bytes.ts";
import { formatDuration } from "../../lib/time.ts";
import { shortNumber } from "./view.ts";

type Fault = string | { message: string; param?: string | null };
export type Validation = {
  object: "training_job.validation";
  valid: boolean;
  errors: readonly Fault[];
  warnings: readonly Fault[];
  resolved_hyperparameters: Record<string, unknown> | null;
  estimate: { vram_bytes_peak: number | null; duration_seconds: number | null; cost_usd: number | null } | null;
  reward_preview: {
    mean: number | null;
    std: number | null;
    frac_zero_std: number | null;
    latency_ms_p50: number | null;
    samples: readonly { completion: string; reward: number | null; error?: string | null }[];
  } | null;
};

const SAMPLES = 5;

export function validationLines(said: Validation): string[] {
  return [
    said.valid ? "This would work." : "This would not work.",
    ...said.errors.map((fault) => `  error: ${wordsOf(fault)}`),
    ...said.warnings.map((fault) => `  warning: ${wordsOf(fault)}`),
    ...estimateLines(said.estimate),
    ...previewLines(said.reward_preview),
  ];
}

const wordsOf = (fault: Fault) =>
  typeof fault === "string" ? fault : `${fault.param ? `${fault.param}: ` : ""}${fault.message}`;

function estimateLines(estimate: Validation["estimate"]): string[] {
  if (!estimate) return [];
  const { vram_bytes_peak, duration_seconds, cost_usd } = estimate;
  const facts = [
    ...(vram_bytes_peak === null ? [] : [`${formatBytes(vram_bytes_peak)} of memory`]),
    ...(duration_seconds === null ? [] : [formatDuration(duration_seconds * 1000)]),
    ...(cost_usd === null ? [] : [`$${cost_usd.toFixed(2)}`]),
  ];
  return facts.length > 0 ? [`  about ${facts.join(", ")}`] : [];
}

function previewLines(preview: Validation["reward_preview"]): string[] {
  if (!preview) return [];
  const { mean, std, frac_zero_std: same, latency_ms_p50: ms, samples } = preview;
  const number = (value: number | null) => (value === null ? "-" : shortNumber(value));
  const learnable = same === null ? "" : `, ${Math.round((1 - same) * 100)} % of the groups differ in reward`;
  const speed = ms === null ? "" : `, ${formatDuration(ms)} each`;
  return [
    `  reward now: mean ${number(mean)}, spread ${number(std)}${learnable}${speed}`,
    ...samples.slice(0, SAMPLES).map(({ completion, reward, error }) => {
      return `    ${error ? `no reward (${error})` : number(reward)}  ${JSON.stringify(completion).slice(0, 100)}`;
    }),
  ];
}
