/** Times each kind of kernel and product of one training step alone. */
import type { Kernels } from "../../src/native/cuda/kernels.ts";
import type { Device } from "../../src/native/ggml/ggml.ts";
import { openBackend } from "../../src/native/ggml/ggml.ts";
import { architectureOf } from "../../src/workers/trainer/engine/architecture.ts";
import { keepOnlyFused } from "../../src/workers/trainer/engine/fused/weights.ts";
import { openOptimizer } from "../../src/workers/trainer/engine/optimizer.ts";
import { loadWeights } from "../../src/workers/trainer/engine/weights.ts";
import { readModelFile } from "../../src/workers/trainer/model_file.ts";
import { batchOf, type MicroBatch, microBatches, weightsOf } from "../../src/workers/trainer/trainee/batches.ts";
import { openGraphs } from "../../src/workers/trainer/trainee/graphs.ts";
import { planMicro } from "../../src/workers/trainer/trainee/plan.ts";
import { LORA as SETTINGS, STEP } from "../../test/ml/trainee/kit.ts";
import { LORA } from "./gradients.ts";
import { piecesOf, type Size } from "./shared.ts";

/** `ms` of one step; `launches` of one step. */
export type Part = { what: string; launches: number; ms: number };
export type Profile = { phases: Part[]; kernels: Part[] };

/** Null without kernels for the device. */
export async function learnProfile(
  dir: string,
  modelPath: string,
  device: Device,
  size: Size,
): Promise<Profile | null> {
  const file = await readModelFile(modelPath);
  const architecture = architectureOf(file.header);
  const backend = openBackend(dir, device);
  const { kernels } = backend;
  if (!kernels) {
    backend.close();
    return null;
  }
  const weights = loadWeights(backend, file, LORA);
  const optimizer = openOptimizer(weights);
  const only = keepOnlyFused(architecture, weights);
  const lora = { ...SETTINGS, r: LORA.rank, alpha: LORA.alpha };
  const maxLength = 2 * size.tokens;
  const plan = planMicro(
    { device, maxLength, temperature: 1, microDivisor: 1 },
    { lora, checkpointing: false },
    { architecture, header: file.header, isFused: true },
  );
  const graphs = openGraphs({ architecture, weights, longest: maxLength }, plan.keptBytes);
  const units = piecesOf(size, true).map((piece) => [piece]);
  const times = newTimes();
  const learn = () => {
    const batches = times.of("host: micro-batches", () => microBatches(units, plan.sizes));
    for (const micro of batches) pass(micro);
    times.of("optimizer", () => optimizer.step({ ...STEP, learningRate: 1e-5 }));
    weights.clearGradients();
  };
  const pass = (micro: MicroBatch) => {
    const graph = graphs.get({ ...plan.shape(micro, true), entropies: true });
    const batch = times.of("host: batch", () => batchOf(micro, null));
    times.of(`forward ${micro.rows} × ${micro.tokens}, ${micro.scored} scored`, () => graph.forward(batch));
    times.of("entropies", () => graph.entropies());
    const given = weightsOf(micro, (_, scores) => scores.map(({ logps }) => logps.map(() => 1e-4)), scoresOf(micro));
    times.of("backward", () => graph.backward(given));
  };
  for (let i = 0; i < WARM; i++) learn();
  times.clear();
  const waits = watchWaits(kernels, times);
  learn();
  waits.restore();
  const phases = times.take();
  const restore = timeEach(kernels, times);
  learn();
  restore();
  const timed = times.take().filter(({ what }) => what.startsWith("kernel: "));
  graphs.free();
  only.free();
  optimizer.free();
  weights.free();
  backend.close();
  return { phases, kernels: timed.sort((a, b) => b.ms - a.ms) };
}

const WARM = 3;
const scoresOf = ({ pieces }: MicroBatch) =>
  pieces.map(({ piece }) => ({ logps: new Float32Array(piece.tokens.length - piece.from), entropies: null }));

function newTimes() {
  const all = new Map<string, Part>();
  return {
    of<T>(what: string, act: () => T): T {
      const begun = performance.now();
      const result = act();
      const part = all.get(what) ?? { what, launches: 0, ms: 0 };
      part.launches++;
      part.ms += performance.now() - begun;
      all.set(what, part);
      return result;
    },
    clear: () => all.clear(),
    take() {
      const parts = [...all.values()];
      all.clear();
      return parts;
    },
  };
}
type Times = ReturnType<typeof newTimes>;

/** The time in which the host only waits for the device: the rest of a pass is work of the host. */
function watchWaits(kernels: Kernels, times: Times) {
  const { wait } = kernels;
  Object.assign(kernels, { wait: () => times.of("waiting for the device", wait) });
  return { restore: () => void Object.assign(kernels, { wait }) };
}

/** Each launch is waited for, so a time includes some microseconds of the host. */
function timeEach(kernels: Kernels, times: Times): () => void {
  const { launch, products, wait } = kernels;
  const old = { ...products };
  const waited = <A extends unknown[]>(what: (...args: A) => string, call: (...args: A) => void) => {
    return (...args: A) =>
      times.of(`kernel: ${what(...args)}`, () => {
        call(...args);
        wait();
      });
  };
  type Product = typeof products.byRows;
  const size =
    (name: string) =>
    (...[, , to, of]: Parameters<Product>) =>
      `${name} ${of.rows} × ${of.columns} × ${of.depth}${to.f32 ? " to F32" : ""}`;
  Object.assign(kernels, { launch: waited((name) => name, launch) });
  Object.assign(products, {
    byRows: waited(size("a·bᵀ"), old.byRows),
    plain: waited(size("a·b"), old.plain),
    byColumns: waited(size("aᵀ·b"), old.byColumns),
  });
  return () => {
    Object.assign(kernels, { launch });
    Object.assign(products, old);
  };
}
