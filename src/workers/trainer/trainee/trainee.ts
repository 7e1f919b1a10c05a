/** Assembles the trainee: one model on one device, with trainable adapters or weights. */
import type { Header } from "../../../lib/gguf/parse.ts";
import { openRandom } from "../../../lib/random.ts";
import { ggufTargets, type LoraSettings } from "../../../lib/training/lora.ts";
import { IN_4_BIT } from "../../../lib/training/memory.ts";
import { type Backend, openBackend, putBytes } from "../../../native/ggml/ggml.ts";
import type { WeightPlaces } from "../../../native/llama/weights.ts";
import { WorkerError } from "../../protocol.ts";
import { type Architecture, architectureOf, targetsIn } from "../engine/architecture.ts";
import { openPatterns, type Patterns } from "../engine/dropout.ts";
import { canFuse } from "../engine/fused/fused.ts";
import { packingOf } from "../engine/fused/packed.ts";
import { type Merger, openMerger } from "../engine/fused/sampler/merge.ts";
import { tapeReason } from "../engine/fused/unsupported.ts";
import { keepOnlyFused } from "../engine/fused/weights.ts";
import { openOptimizer } from "../engine/optimizer.ts";
import type { Model } from "../engine/transformer.ts";
import { frozenPlaces, type Lora, loadWeights, type Weights } from "../engine/weights.ts";
import { readModelFile } from "../model_file.ts";
import { gatherScores, type SpreadGradients, shareOf, spreadGradients } from "../ranks/spread_trainee.ts";
import { adapterOf, trainedRows } from "../results/adapter.ts";
import { type AdapterSlot, openSlot } from "./adapter_slot.ts";
import { batchOf, cut, type MicroBatch, microBatches, noiseOf, weightsOf } from "./batches.ts";
import { loadMoments, loadTrained, saveTrained } from "./files.ts";
import { openGraphs } from "./graphs.ts";
import { type MicroPlan, planMicro } from "./plan.ts";
import type { Piece, Scores, Trainee, TraineeOptions } from "./types.ts";

export async function openTrainee(options: TraineeOptions): Promise<Trainee> {
  const file = await readModelFile(options.modelPath);
  const architecture = architectureOf(file.header);
  if (architecture.experts && !options.lora)
    throw new Error(
      `The experts of ${architecture.name} models are frozen: set lora to train an adapter of the attention`,
    );
  const own = options.kernels ? { kernels: options.kernels } : {};
  const backend = { ...openBackend(options.dataDir, options.device), ...own };
  const lora = options.lora && engineLora(options.lora, architecture);
  const weights = loadWeights(
    backend,
    file,
    lora,
    packingFor(backend, { architecture, header: file.header, lora }, options),
  );
  drawAdapters(weights, options.seed);
  const optimizer = openOptimizer(weights, options.optim ? { optim: options.optim } : {});
  const patterns = options.lora && dropoutPatterns(backend, weights, options.lora, options.seed);
  const model: Model = { architecture, weights, longest: options.maxLength };
  const isFused = !options.noiseAlpha && canFuse(model, options.maxLength);
  const run = { trainsAll: lora === null, hasNoise: !!options.noiseAlpha, hasKernels: backend.kernels !== null };
  const isSlow = backend.kind === "cuda" && !isFused;
  // A graph of another length may need the tape if queries grow with the position.
  const only = isFused && architecture.temperature === null ? keepOnlyFused(architecture, weights) : null;
  const canMerge = lora !== null && !weights.packed && canFuse(model, options.maxLength);
  const isExact = options.exact === true && canMerge && isFused && patterns === null;
  const plan = planMicro(options, { architecture, header: file.header, isFused, isExact });
  const graphs = openGraphs(model, plan.keptBytes);
  let merger: Merger | null = null;
  let mergedAt = -1; // the step of the weights at model.merged
  const merge = (locations: WeightPlaces, exact = true): boolean => {
    if (!canMerge) return false;
    merger ??= openMerger(architecture, weights);
    const isMerged = merger.merge(locations, optimizer.steps);
    if (!isMerged || !isExact || !exact) return isMerged;
    model.merged = locations;
    mergedAt = optimizer.steps;
    return true;
  };
  const exact = () => {
    if (!model.merged) return false;
    return mergedAt === optimizer.steps || merge(model.merged);
  };
  const forgetMerged = () => {
    delete model.merged; // the adapter is another one
    graphs.free();
  };
  const slot = openSlot(weights);
  const gradients = options.ranks ? spreadGradients(weights, options.ranks) : null;
  const width = architecture.width;
  const opened: Opened = { options, plan, patterns, slot, width, graph: graphs.get, gradients, exact };
  return {
    file,
    architecture,
    tapeReason: isSlow ? tapeReason(architecture, { ...run, longest: options.maxLength }) : null,
    trainableParameters: weights.trainable.reduce((sum, { shape }) => sum + shape.reduce((a, b) => a * b, 1), 0),
    get memoryBytes() {
      return (
        weights.bytes +
        optimizer.bytes +
        (patterns?.bytes ?? 0) +
        (merger?.bytes ?? 0) +
        (only?.bytes ?? 0) +
        graphs.largestBytes
      );
    },
    score: (pieces, how) => score(opened, pieces, how ?? {}),
    learn: (units, weigh, how) => learn(opened, units, weigh, how),
    step(how) {
      const norm = optimizer.step(how);
      weights.clearGradients();
      return norm;
    },
    get steps() {
      return optimizer.steps;
    },
    canMerge,
    frozen: frozenPlaces(weights),
    isExact,
    merge,
    startFrom(adapter) {
      forgetMerged();
      opened.slot.startFrom(adapter);
    },
    adapter: () => adapterOf(weights, architecture.name),
    rows() {
      if (lora) throw new Error("Only an adapter was trained; the weights are those of the file");
      return trainedRows(weights);
    },
    save: (dir) => saveTrained(dir, weights, optimizer),
    async load(dir, { moments }) {
      forgetMerged();
      loadTrained(dir, weights);
      if (moments) loadMoments(dir, weights, optimizer);
    },
    close() {
      merger?.free();
      graphs.free();
      only?.free();
      patterns?.free();
      optimizer.free();
      weights.free();
      backend.close();
    },
  };
}

const engineLora = (given: LoraSettings, architecture: Architecture): Lora => ({
  rank: given.r,
  alpha: given.alpha,
  rslora: given.use_rslora,
  targets: targetsIn(architecture, ggufTargets(given)),
});

type Base = { architecture: Architecture; header: Header; lora: Lora | null };

function packingFor(backend: Backend, base: Base, { maxLength: longest, noiseAlpha, in4Bit = false }: TraineeOptions) {
  const packing = noiseAlpha ? "no" : packingOf(backend, { ...base, longest, in4Bit });
  if (in4Bit && packing === "no") {
    backend.close();
    throw new WorkerError(
      "config",
      `load_in_4bit: the matrices of this ${base.architecture.name} model cannot be NF4 here. ${IN_4_BIT}`,
    );
  }
  return packing;
}

/** Like PEFT: A is uniform within ±1/√inputs (Kaiming with a = √5), B is zero, so that nothing changes at first. */
function drawAdapters({ trainable, backend }: Weights, seed: number) {
  if (trainable.length === 0)
    throw new Error("Nothing would be trained: the model has none of the lora target_modules. Choose others");
  trainable.forEach(({ name, shape, tensor }, i) => {
    if (!name.endsWith(".lora_a")) return;
    const [inputs = 1, rank = 1] = shape;
    const random = openRandom(seed, i);
    const bound = 1 / Math.sqrt(inputs);
    putBytes(
      backend.ggml,
      tensor,
      Float32Array.from({ length: inputs * rank }, () => (2 * random() - 1) * bound),
    );
  });
}

function dropoutPatterns(backend: Backend, { trainable }: Weights, lora: LoraSettings, seed: number): Patterns | null {
  if (lora.dropout === 0) return null;
  const widths = trainable.filter(({ name }) => name.endsWith(".lora_a")).map(({ shape }) => shape[0] ?? 1);
  return openPatterns(backend, widths, { rate: lora.dropout, seed });
}

type Opened = {
  options: TraineeOptions;
  plan: MicroPlan;
  patterns: Patterns | null;
  /** Numbers of an embedding. */
  width: number;
  slot: AdapterSlot;
  graph: ReturnType<typeof openGraphs>["get"];
  /** Null if this process trains alone. */
  gradients: SpreadGradients | null;
  /** True if passes forward are exact. The sampler's weights are then those of the current step. */
  exact: () => boolean;
};

type How = { reference?: boolean; entropies?: boolean; exact?: boolean };

async function score(opened: Opened, pieces: readonly Piece[], how: How): Promise<Scores[]> {
  const { options, slot } = opened;
  if (how.reference && !options.lora) throw new Error("The reference needs an adapter that can be switched off");
  if (!how.reference) return scoreNow(opened, pieces, { ...how, exact: opened.exact() });
  if (!slot.hasStart) return scoreNow(opened, pieces, how);
  return slot.withStart(() => scoreNow(opened, pieces, { ...how, reference: false }));
}

async function scoreNow(opened: Opened, pieces: readonly Piece[], how: How): Promise<Scores[]> {
  const { reference = false, entropies = false, exact = false } = how;
  const { ranks } = opened.options;
  const batches = microBatches(
    pieces.map((piece) => [piece]),
    opened.plan.sizes,
  );
  const own: Scores[][] = [];
  for (const micro of ownOf(opened, batches)) {
    await turn(opened);
    const shape = { ...opened.plan.shape(micro, false), reference, entropies, exact };
    const graph = opened.graph(shape);
    own.push(read(micro, graph.forward(batchOf(micro, null)), entropies ? graph.entropies() : null));
  }
  const scores = ranks ? await gatherScores(ranks, batches, { own, entropies }) : own;
  const all: Scores[] = [];
  batches.forEach((micro, b) => {
    micro.pieces.forEach(({ unit }, i) => {
      all[unit] = scores[b]![i]!;
    });
  });
  return all;
}

/** Micro-batches that this process computes. */
function ownOf({ options: { ranks } }: Opened, batches: readonly MicroBatch[]): readonly MicroBatch[] {
  if (!ranks) return batches;
  const { from, to } = shareOf(ranks, batches)[ranks.index]!;
  return batches.slice(from, to);
}

async function learn(opened: Opened, ...[units, weigh, how]: Parameters<Trainee["learn"]>) {
  const { plan, patterns, width, gradients } = opened;
  const { noiseAlpha: alpha, ranks } = opened.options;
  const { entropies = false, dropoutSeed } = how;
  const batches = microBatches(units, plan.sizes);
  const exact = opened.exact();
  const own: Scores[][] = [];
  for (const micro of ownOf(opened, batches)) {
    await turn(opened);
    const shape = { ...plan.shape(micro, true), entropies, exact, ...(gradients?.apart ? { apart: true } : {}) };
    const graph = opened.graph(patterns ? { ...shape, dropout: patterns } : shape);
    const batch = batchOf(micro, patterns ? dropoutSeed : null);
    const noise = alpha ? { noise: noiseOf(micro, { alpha, width, seed: dropoutSeed }) } : {};
    const logps = graph.forward({ ...batch, ...noise });
    const scores = read(micro, logps, entropies ? graph.entropies() : null);
    gradients?.before();
    graph.backward(weightsOf(micro, weigh, scores));
    gradients?.after(graph);
    if (ranks) own.push(scores);
  }
  if (!ranks) return;
  const scores = await gatherScores(ranks, batches, { own, entropies });
  batches.forEach((micro, b) => {
    if (!own.includes(scores[b] as Scores[])) weightsOf(micro, weigh, scores[b]!); // every rank needs the method's tallies
  });
  await gradients?.sum();
}

/** Limits entropies to the possible range: the device's are wrong if the target was nearly impossible. */
function read(micro: MicroBatch, logps: Float32Array, entropies: Float32Array | null): Scores[] {
  return micro.pieces.map((piece) => ({
    logps: cut(logps, piece),
    entropies: entropies && cut(entropies, piece).map((each) => Math.max(0, each)),
  }));
}

/** Lets the event loop run after native code blocked the thread. */
async function turn({ options }: Opened) {
  await new Promise<void>((resolve) => setImmediate(resolve));
  options.onTurn?.();
}
