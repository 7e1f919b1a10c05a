/**
 * A whole step of GRPO against a plain loop in PyTorch and transformers, in the same run: 256 completions of 128 tokens
 * after prompts of 128, in groups of 8, an adapter of rank 16 on all seven matrices of a BF16 model of the shape of
 * Qwen2.5-0.5B, AdamW. Ours is the trainer's own loop: rollouts, rewards, gradients, the step, and the adapter's way to
 * the sampler, with our own kernels as the sampler and with the library; then small steps of 64 completions of 64
 * tokens in F16 and BF16. Rewards are trivial on both sides. Without a GPU a small model shows that it works. VERK_PYTHON names
 * another python3. `bun bench/grpo_step.ts` does the same without the table of scripts/bench.ts; `--wide off,128,128/0`
 * measures nothing but our own kernels, with cuBLAS from so many rows and multiplications on; `--exact [256x128,32x1024]` the
 * usual step and one with exact_sampling, for so many completions of so many tokens.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { WIDE_ROLLOUTS, type Wide } from "../src/workers/decoder/plan.ts";
import type { Opened } from "../src/workers/trainer/open.ts";
import { planOf, runTraining, scoring } from "../test/trainer_kit.ts";
import { wideOf } from "./decode/compare_wide.ts";
import { HALF_BILLION, type RolloutShape, SMALL, writeRolloutModel } from "./peers/rollout_model.ts";
import { median, type Row, remove, tempDir } from "./tools.ts";
import { learnSeconds } from "./training/shared.ts";

/** `prompt`: its tokens; by default as many as those of a completion. */
type Size = { shape: RolloutShape; name: string; prompts: number; group: number; steps: number } & Lengths;
type Lengths = { tokens: number; prompt?: number };
const WHOLE: Size = { shape: HALF_BILLION, name: "0.5B", prompts: 32, group: 8, tokens: 128, steps: 4 };
const SMALL_STEP: Size = { shape: HALF_BILLION, name: "0.5B", prompts: 8, group: 8, tokens: 64, steps: 8 };
const FEW: Size = { shape: SMALL, name: "small", prompts: 2, group: 4, tokens: 32, steps: 2 };

const SCRIPT = process.env["VERK_GRPO_PEER"] ?? join(import.meta.dir, "peers/grpo_torch.py");
const PYTHON = process.env["VERK_PYTHON"] ?? "python3";
const LORA = { r: 16, alpha: 32, dropout: 0 };
const AIM = 3;
const SECONDS = 0.55; // of a whole step on an H200
const SMALL_SECONDS = 0.25;

/** Seconds of a step. `rest`: prompts, rewards, metrics. */
type Phases = { total: number; rollouts: number; sync: number; learn: number; update: number; rest: number };
type Peer = { what: string; total: number; generate: number; learn: number; update: number };

type Variant = { type: "F16" | "BF16"; kernels: boolean; wide?: Wide | null; exact?: boolean };
const OWN: Variant = { type: "BF16", kernels: true };

export async function run({ quick }: { quick: boolean }): Promise<Row[]> {
  const gpu = Bun.which("nvidia-smi") !== null;
  const size = gpu ? { ...WHOLE, steps: quick ? 2 : WHOLE.steps } : FEW;
  const ours = await measure(size, gpu, OWN);
  const rows = rowsOf(size, OWN, ours, gpu ? SECONDS : null);
  if (gpu) {
    const library = { ...OWN, kernels: false };
    rows.push(...rowsOf(size, library, await measure(size, gpu, library), null));
    for (const type of ["F16", "BF16"] as const) {
      const variant = { type, kernels: true };
      rows.push(...rowsOf(SMALL_STEP, variant, await measure(SMALL_STEP, gpu, variant), SMALL_SECONDS));
    }
  }
  rows.push(await sharing(size, gpu));
  const peers = await torch(size, gpu);
  const best = typeof peers === "string" ? null : peers.reduce((a, b) => (b.total < a.total ? b : a));
  const ratio = best ? best.total / ours.phases.total : null;
  rows.push({
    bench: "grpo_step",
    what: "against the fastest loop of transformers",
    value: ratio === null ? "" : `${ratio.toFixed(2)}×`,
    target: typeof peers === "string" ? peers : `≥ ${AIM}×`,
    ok: gpu && ratio !== null ? ratio >= AIM : null,
  });
  if (typeof peers === "string") return rows;
  const theirs = peers.map(({ what, total, generate, learn, update }) => ({
    bench: "grpo_step",
    what,
    target: "",
    ok: null,
    value: `${total.toFixed(3)} s (generate ${generate.toFixed(3)}, learn ${learn.toFixed(3)}, update ${update.toFixed(3)})`,
  }));
  return [...rows, ...theirs];
}

function rowsOf(size: Size, { type, kernels, exact }: Variant, found: Measurement, aim: number | null): Row[] {
  const { phases, gap, memoryBytes } = found;
  const { name, prompts, group, tokens, prompt = tokens } = size;
  const by = kernels ? `own kernels${exact ? ", exact" : ""}` : "the library";
  const split = Object.entries(phases).filter(([part]) => part !== "total");
  const parts = split.map(([part, seconds]) => `${part} ${seconds.toFixed(3)}`).join(", ");
  const rate = Math.round((prompts * group * tokens) / phases.rollouts);
  const memory = memoryBytes > 0 ? `, ${Math.round(memoryBytes / 2 ** 20)} MiB` : "";
  return [
    {
      bench: "grpo_step",
      what: `a step: ${name} ${type}, ${prompts * group} samples of ${tokens} tokens after ${prompt} by ${by}`,
      value: `${phases.total.toFixed(3)} s (${parts}); rollouts ${rate} tok/s; logps apart ${gap}${memory}`,
      target: aim === null ? "" : `≤ ${aim} s`,
      ok: aim === null ? null : phases.total <= aim,
    },
  ];
}

/** The same learning, where every answer has a question of its own. */
async function sharing({ shape, prompts, group, tokens }: Size, gpu: boolean): Promise<Row> {
  const dir = tempDir();
  const model = join(dir, "model.gguf");
  await writeRolloutModel(model, shape, "BF16");
  const device = gpu ? ({ kind: "cuda", index: 0 } as const) : ({ kind: "cpu", threads: 1 } as const);
  const { shared, apart } = await learnSeconds(dir, model, device, { prompts, group, tokens, vocab: shape.vocab });
  remove(dir);
  const ratio = apart / shared;
  const value = `${shared.toFixed(3)} s, each with its own ${apart.toFixed(3)} s: ${ratio.toFixed(2)}×`;
  return {
    bench: "grpo_step",
    what: `learning where ${group} answers share their prompt`,
    value,
    target: "",
    ok: null,
  };
}

type Measurement = { phases: Phases; gap: string; memoryBytes: number };

async function measure(
  size: Size,
  gpu: boolean,
  { type, kernels, wide = WIDE_ROLLOUTS, exact = false }: Variant,
): Promise<Measurement> {
  const dir = tempDir();
  const model = join(dir, "model.gguf");
  await writeRolloutModel(model, size.shape, type);
  const plan = await planOf({
    dir,
    model,
    method: "grpo",
    lora: LORA,
    context: 4 * Math.max(size.tokens, size.prompt ?? 0),
    rows: promptsOf(size),
    given: {
      num_generations: size.group,
      per_device_train_batch_size: size.prompts * size.group,
      max_completion_length: size.tokens,
      max_steps: size.steps + 1,
      learning_rate: 1e-5,
      temperature: 1,
      gradient_checkpointing: false,
      exact_sampling: exact,
    },
  });
  const times: Omit<Phases, "total" | "rest">[] = [];
  const { steps, error } = await runTraining({
    plan,
    dir,
    checkpoints: join(dir, "checkpoints"),
    samplesPerStep: 0,
    machine: gpu ? { threads: 8, gpus: [0] } : { threads: 1, gpus: [] },
    score: scoring((text) => (text.length % 17) / 17),
    sampler: { kernels, wide },
    onOpened: (opened) => watch(opened, times),
  });
  remove(dir);
  if (error) throw error;
  const phases = steps.slice(1).map(({ values }, i): Phases => {
    const parts = times[i + 1]!; // the first step loads kernels
    const total = values["step_time"] ?? Number.NaN;
    return { total, ...parts, rest: total - parts.rollouts - parts.sync - parts.learn - parts.update };
  });
  const middle = (name: keyof Phases) => median(phases.map((each) => each[name]));
  const last = steps.at(-1)!.values;
  const [mean = Number.NaN, max = Number.NaN] = ["mean", "max"].map(
    (which) => last[`sampling/sampling_logp_difference/${which}`],
  );
  return {
    phases: {
      total: middle("total"),
      rollouts: middle("rollouts"),
      sync: middle("sync"),
      learn: middle("learn"),
      update: middle("update"),
      rest: middle("rest"),
    },
    gap: mean === 0 && max === 0 ? "by nothing" : `${mean.toFixed(4)} in the mean, ${max.toFixed(3)} at most`,
    memoryBytes: last["gpu_memory_peak_bytes"] ?? 0,
  };
}

/** Letters are tokens of their own to this model, and every prompt is another. */
const promptsOf = ({ prompts, tokens, prompt = tokens }: Size) =>
  Array.from({ length: prompts }, (_, p) => ({
    prompt: Array.from({ length: prompt }, (_, i) => String.fromCharCode(99 + ((p * 7 + i * (1 + p)) % 24))).join(""),
  }));

/** Times what the loop calls, a step after the other; a step begins with `sync` and ends with `step`. */
function watch({ trainee, roller }: Opened, times: Omit<Phases, "total" | "rest">[]) {
  if (!roller) throw new Error("GRPO has a sampler");
  const now = () => performance.now() / 1000;
  let current = { rollouts: 0, sync: 0, learn: 0, update: 0 };
  const timed = <A extends unknown[], R>(phase: keyof typeof current, call: (...given: A) => Promise<R>) => {
    return async (...given: A): Promise<R> => {
      const begun = now();
      const result = await call(...given);
      current[phase] += now() - begun;
      return result;
    };
  };
  const [adapter, step] = [trainee.adapter.bind(trainee), trainee.step.bind(trainee)];
  roller.roll = timed("rollouts", roller.roll);
  roller.sync = timed("sync", roller.sync);
  roller.merge = timed("sync", roller.merge);
  trainee.learn = timed("learn", trainee.learn.bind(trainee));
  trainee.adapter = () => {
    const begun = now();
    const read = adapter();
    current.sync += now() - begun;
    return read;
  };
  trainee.step = (how) => {
    const begun = now();
    const norm = step(how);
    current.update += now() - begun;
    times.push(current);
    current = { rollouts: 0, sync: 0, learn: 0, update: 0 };
    return norm;
  };
}

/** A line of JSON for each way that was tried, or why there is none. */
async function torch({ name, prompts, group, tokens, steps }: Size, gpu: boolean): Promise<Peer[] | string> {
  if (!existsSync(SCRIPT)) return "the script of the reference is not here";
  if (Bun.which(PYTHON) === null) return `no ${PYTHON} here`;
  const sizes = [name, prompts, group, tokens, steps].map(String);
  const child = Bun.spawn([PYTHON, SCRIPT, gpu ? "cuda" : "cpu", ...sizes], { stderr: "pipe" });
  const [told, complaints] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  const lines = told.split("\n").filter((line) => line.startsWith("{"));
  if ((await child.exited) === 0 && lines.length > 0) return lines.map((line) => JSON.parse(line) as Peer);
  return `no reference: ${complaints.trim().split("\n").at(-1) || "it said nothing"}`;
}

const print = ({ what, value, target, ok }: Row) =>
  console.log([what, value, target, ok === null ? "" : ok ? "yes" : "NO"].join(" | "));

/** 32x1024: so many completions of so many tokens. */
function sizeOf(text: string, gpu: boolean): Size {
  const [samples = 0, tokens = 0] = text.split("x").map(Number);
  const size = gpu ? { ...WHOLE, steps: 3 } : FEW;
  return { ...size, prompts: samples / size.group, tokens, prompt: 128 };
}

if (import.meta.main) {
  const gpu = Bun.which("nvidia-smi") !== null;
  const at = process.argv.indexOf("--wide");
  for (const text of at < 0 ? [] : process.argv[at + 1]!.split(",")) {
    const variant = { ...OWN, wide: wideOf(text) };
    for (const row of rowsOf(WHOLE, variant, await measure(WHOLE, true, variant), SECONDS))
      print({ ...row, what: `${row.what}, cuBLAS ${text}` });
  }
  const exact = process.argv.includes("--exact");
  const sizes = exact ? (process.argv[process.argv.indexOf("--exact") + 1] ?? "256x128").split(",") : [];
  for (const size of sizes.map((text) => sizeOf(text, gpu)))
    for (const variant of [OWN, { ...OWN, exact }])
      for (const row of rowsOf(size, variant, await measure(size, gpu, variant), null)) print(row);
  if (at < 0 && !exact) for (const row of await run({ quick: process.argv.includes("--quick") })) print(row);
  process.exit(0); // native threads may still run
}
