/**
 * A checkpoint is a directory that appears whole: made under a temporary name, flushed file by file, renamed. In it lie
 * the weights and the moments (safetensors), what the loop must know to go on (state.json), what is left of the last
 * generation, and what can be served (adapter.gguf, model.gguf).
 */
import { mkdir, open, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { METHODS } from "../../lib/training/hyperparameters.ts";
import { LoraSettings } from "../../lib/training/lora.ts";
import { errorCode, renameDurably, syncDir, tempPath } from "../../platform/files.ts";
import { WorkerError } from "../protocol.ts";
import type { TrainPlan } from "../protocol_trainer.ts";
import { ALARMS } from "./loop/alarms.ts";

const VERSION = 1;
export const STATE_FILE = "state.json";
export const GENERATION_FILE = "generation.json";
export const ADAPTER_FILE = "adapter.gguf";
export const MODEL_FILE = "model.gguf";

const number = z.number().nullable(); // JSON has no NaN

const LoopState = z.strictObject({
  version: z.literal(VERSION),
  /** Completed. */
  step: z.int().min(0),
  total_steps: z.int().positive(),
  method: z.enum(METHODS),
  seed: z.int(),
  lora: LoraSettings.nullable(),
  /** That the model has been trained on so far. */
  tokens: z.int().min(0),
  order: z.strictObject({ seed: z.int(), epoch: z.int(), position: z.int() }),
  /** Of the steps so far, what the alarms look at. */
  history: z.array(z.strictObject({ step: z.int(), values: z.record(z.string(), z.number()) })),
  raised: z.array(z.enum(ALARMS)),
  /** Whether any of them taught the model something. */
  learned: z.boolean(),
  /** The last of them. */
  effects: z.array(
    z.strictObject({
      step: z.int(),
      learning_rate: z.number(),
      max_advantage: number,
      grad_norm: number,
      changed: z.boolean(),
    }),
  ),
  /** Whether generation.json lies beside it. */
  generation: z.boolean(),
});
export type LoopState = z.infer<typeof LoopState>;

export const checkpointName = (step: number) => `step-${String(step).padStart(6, "0")}`;

/** `fill` writes the files; one that is there already under this name is replaced. */
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

/** The bytes of all files, which are on the disk now. */
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

/** A directory cannot be renamed over another. One that nobody was told of, or that is made again after a crash. */
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

/** What a killed run left half-made. One worker at a time writes here. */
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
    const gone = errorCode(cause) === "ENOENT" && !(await stat(path).catch(() => null));
    throw new WorkerError("data", `The checkpoint ${path} ${gone ? "is gone" : "cannot be read"}`, { cause });
  }
  let raw: unknown;
  try {
    raw = JSON.parse(text);
  } catch (cause) {
    throw new WorkerError("data", `The checkpoint ${path} is damaged: ${STATE_FILE} is no JSON`, { cause });
  }
  const version = (raw as { version?: unknown } | null)?.version;
  if (version !== VERSION)
    throw new WorkerError(
      "data",
      `The checkpoint ${path} is of version ${String(version)}: this program reads ${VERSION}`,
    );
  const read = LoopState.safeParse(raw);
  if (!read.success) throw new WorkerError("data", `The checkpoint ${path} is damaged: ${z.prettifyError(read.error)}`);
  return read.data;
}

/** Going on in the middle needs the very same training. */
export function mustContinue(state: LoopState, plan: TrainPlan, path: string) {
  const differs = (what: string, was: unknown, is: unknown) =>
    new WorkerError(
      "config",
      `The checkpoint ${path} cannot be continued: its ${what} is ${say(was)}, the job's ${say(is)}`,
    );
  if (state.method !== plan.method) throw differs("method", state.method, plan.method);
  if (state.seed !== plan.seed) throw differs("seed", state.seed, plan.seed);
  mustFit(state, plan.lora, path);
}

/** Weights alone need the same places. */
export function mustFit(state: LoopState, lora: LoraSettings | null, path: string) {
  const shape = (given: LoraSettings | null) =>
    given && { r: given.r, alpha: given.alpha, target_modules: given.target_modules, use_rslora: given.use_rslora };
  const [was, is] = [say(shape(state.lora)), say(shape(lora))];
  if (was !== is)
    throw new WorkerError(
      "config",
      `The checkpoint ${path} does not fit: it was trained with lora ${was}, the job has ${is}`,
    );
}

const say = (value: unknown) => JSON.stringify(value);
