/** Copies the learned weights to the sampling engine and into the files of a checkpoint. */
import { open } from "node:fs/promises";
import { join } from "node:path";
import { describe } from "../../lib/gguf/describe.ts";
import { openBackend } from "../../native/ggml/ggml.ts";
import type { TrainPlan } from "../protocol_trainer.ts";
import { ADAPTER_FILE, MODEL_FILE } from "./checkpoint.ts";
import type { Machine } from "./open.ts";
import { adapterBytes, writeAdapterGguf } from "./results/adapter_gguf.ts";
import { type MergedType, mergedChunks, writeMergedGguf } from "./results/merged_gguf.ts";
import type { Roller } from "./rollouts/types.ts";
import type { Trainee } from "./trainee/trainee.ts";

type Learner = { trainee: Trainee; machine: Machine; plan: TrainPlan };

/** Copies the adapter after every step, or all weights. Does nothing if the sampler already has these weights. */
export function createSync({ trainee, roller, machine, plan, fresh }: Learner & { roller: Roller; fresh: boolean }) {
  let held = fresh && plan.lora === null ? 0 : null; // step of the weights that the sampler has
  return async () => {
    if (held === trainee.steps) return;
    if (!plan.lora) await roller.reload((path) => writeWhole(path, { trainee, machine, plan }));
    else if (!(await roller.merge((at) => trainee.merge(at, roller.isExact))))
      await roller.sync(await adapterBytes(trainee.adapter()));
    held = trainee.steps;
  };
}

/** Weights are merged on the CPU: a GPU cannot decode every type. */
export const openMerger = ({ data_dir, threads, gpus }: Machine) =>
  openBackend(data_dir, { kind: "cpu", threads, ...(gpus.length > 0 ? { beside: "cuda" as const } : {}) });

/** Overwrites the file in place: the path may exist only for this process, where rename does not work. */
async function writeWhole(path: string, { trainee, machine, plan }: Learner) {
  const backend = openMerger(machine);
  const file = await open(path, "w");
  try {
    const options = { base: plan.model_path, type: wholeType(trainee), learned: { weights: trainee.rows() } };
    for await (const chunk of mergedChunks(backend, options))
      for (let at = 0; at < chunk.byteLength; ) at += (await file.write(chunk, at)).bytesWritten;
  } finally {
    await file.close();
    backend.close();
  }
}

/** The type of a complete model: the base's precision, or half precision for a quantized base. */
function wholeType({ file }: Pick<Trainee, "file">): MergedType {
  const { quantization } = describe(file.header);
  return quantization === "F32" || quantization === "BF16" ? quantization : "F16";
}

/** Writes files that can be served. A complete model is large, so it is written only where it may become the result. */
export function createResultWriter({ trainee, machine, plan }: Learner) {
  return async (dir: string, isResult: boolean) => {
    if (plan.lora) return void (await writeAdapterGguf(join(dir, ADAPTER_FILE), trainee.adapter()));
    if (!isResult) return;
    const backend = openMerger(machine);
    try {
      const path = join(dir, MODEL_FILE);
      const learned = { weights: trainee.rows() };
      await writeMergedGguf(backend, { base: plan.model_path, path, type: wholeType(trainee), learned });
    } finally {
      backend.close();
    }
  };
}
