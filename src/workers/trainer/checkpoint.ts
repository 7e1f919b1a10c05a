/**
 * A checkpoint is a directory that appears complete: it is made under a temporary name, flushed file by file, and
 * renamed. It contains the weights and the moments (safetensors), the loop's state (state.json), the reports of the
 * steps since the checkpoint before (steps.ndjson), the rest of the last generation, and files to serve (adapter.gguf,
 * model.gguf).
 */
import { mkdir, open, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { METHODS } from "../../lib/training/fields.ts";
import { LoraSettings } from "../../lib/training/lora.ts";
import { errorCode, renameDurably, syncDir, tempPath } from "../../platform/files.ts";
import { WorkerError } from "../protocol.ts";
import type { TrainPlan } from "../protocol_trainer.ts";
import { ALARMS } from "./loop/alarms.ts";

const VERSION = 1;
const STATE_FILE = "state.json";
export const STEPS_FILE = "steps.ndjson";
export const GENERATION_FILE = "generation.json";
export const ADAPTER_FILE = "adapter.gguf";
export const MODEL_FILE = "model.gguf";

const number = z.number().nullable(); // JSON has no NaN

const LoopState = z.strictObject({
  version: z.literal(VERSION),
  /** Number of completed steps. */
  step: z.int().min(0),
  total_steps: z.int().positive(),
  method: z.enum(METHODS),
  seed: z.int(),
  lora: LoraSettings.nullable(),
  /** Number of tokens that the model has been trained on. */
  tokens: z.int().min(0),
  order: z.strictObject({ seed: z.int(), epoch: z.int(), position: z.int() }),
  /** History of the prompts, from which the next ones are chosen. Checkpoints of older versions have none. */
  curriculum: z
    .strictObject({
      draws: z.int(),
      unchanged: z.int(),
      seen: z.array(
        z.tuple([
          z.int(),
          z.strictObject({
            visits: z.int(),
            mean: z.number(),
            variance: z.number(),
            solvedVisits: z.int(),
            solvedShare: z.number(),
          }),
        ]),
      ),
    })
    .nullable()
    .default(null),
  /** Metrics of earlier steps that the alarms need. */
  history: z.array(z.strictObject({ step: z.int(), values: z.record(z.string(), z.number()) })),
  raised: z.array(z.enum(ALARMS)),
  /** True if a step has changed the model. */
  learned: z.boolean(),
  /** Effects of the last steps. */
  effects: z.array(
    z.strictObject({
      step: z.int(),
      learning_rate: z.number(),
      max_advantage: number,
      grad_norm: number,
      changed: z.boolean(),
    }),
  ),
  /** The best evaluation so far. Checkpoints of older versions have none. */
  best: z
    .strictObject({ value: number, step: z.int(), waited: z.int(), stopped: z.string().nullable() })
    .nullable()
    .default(null),
  /** True if generation.json exists beside this file. */
  generation: z.boolean(),
});
export type LoopState = z.infer<typeof LoopState>;

const checkpointName = (step: number) => `step-${String(step).padStart(6, "0")}`;

/** `fill` writes the files. An existing checkpoint of this name is replaced. */
export async function writeCheckpoint(dir: string, state: LoopState, fill: (into: string) => Promise<void>) {
  const path = join(dir, checkpointName(state.step));
  const temp = tempPath(dir);
  await mkdir(temp, { mode: 0o700 });
  try {
    await fill(temp);
    await Bun.write(join(temp, STATE_FILE), JSON.stringify(state));
    const size = await settle(temp);
    await retire(dir, path);
    await renameDurably(temp, path);
    return { path, size };
  } catch (error) {
    await rm(temp, { recursive: true, force: true });
    throw error;
  }
}

/** Flushes all files to disk and returns their total size in bytes. */
async function settle(dir: string): Promise<number> {
  let size = 0;
  for (const name of await readdir(dir)) {
    const file = await open(join(dir, name), "r");
    try {
      await file.sync();
      size += (await file.stat()).size;
    } finally {
      await file.close();
    }
  }
  await syncDir(dir);
  return size;
}

/**
 * Removes the old directory, because rename cannot replace one. It was never reported, or is made again after a crash.
 */
async function retire(dir: string, path: string) {
  const aside = tempPath(dir);
  try {
    await rename(path, aside);
  } catch (error) {
    if (errorCode(error) !== "ENOENT") throw error;
    return;
  }
  await rm(aside, { recursive: true, force: true });
}

/** Removes incomplete checkpoints of a killed run. Only one worker at a time writes here. */
export async function clearHalves(dir: string) {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  for (const name of await readdir(dir))
    if (name.startsWith(".verk-tmp-")) await rm(join(dir, name), { recursive: true, force: true });
}

export async function readState(path: string): Promise<LoopState> {
  let text: string;
  try {
    text = await readFile(join(path, STATE_FILE), "utf8");
  } catch (cause) {
    const isMissing = errorCode(cause) === "ENOENT" && !(await stat(path).catch(() => null));
    throw new WorkerError("data", `The checkpoint ${path} ${isMissing ? "no longer exists" : "cannot be read"}`, {
      cause,
    });
  }
  let raw: unknown;
  try {
    raw = JSON.parse(text);
  } catch (cause) {
    throw new WorkerError("data", `The checkpoint ${path} is damaged: ${STATE_FILE} is not JSON`, { cause });
  }
  const version = (raw as { version?: unknown } | null)?.version;
  if (version !== VERSION)
    throw new WorkerError(
      "data",
      `The checkpoint ${path} has version ${String(version)}, but this program reads version ${VERSION}`,
    );
  const read = LoopState.safeParse(raw);
  if (!read.success) throw new WorkerError("data", `The checkpoint ${path} is damaged: ${z.prettifyError(read.error)}`);
  return read.data;
}

/** Resuming requires exactly the same training. */
export function mustContinue(state: LoopState, plan: TrainPlan, path: string) {
  const differs = (what: string, was: unknown, is: unknown) =>
    new WorkerError(
      "config",
      `The checkpoint ${path} cannot be continued: its ${what} is ${say(was)}, but the job's is ${say(is)}`,
    );
  if (state.method !== plan.method) throw differs("method", state.method, plan.method);
  if (state.seed !== plan.seed) throw differs("seed", state.seed, plan.seed);
  mustFit(state, plan.lora, path);
}

/** Weights alone require only the same LoRA settings. */
export function mustFit(state: LoopState, lora: LoraSettings | null, path: string) {
  const shape = (settings: LoraSettings | null) =>
    settings && {
      r: settings.r,
      alpha: settings.alpha,
      target_modules: settings.target_modules,
      use_rslora: settings.use_rslora,
    };
  const [was, is] = [say(shape(state.lora)), say(shape(lora))];
  if (was !== is)
    throw new WorkerError(
      "config",
      `The checkpoint ${path} does not fit: it was trained with lora ${was}, but the job has ${is}`,
    );
}

const say = (value: unknown) => JSON.stringify(value);
