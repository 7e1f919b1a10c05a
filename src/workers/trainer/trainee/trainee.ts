/** A model that learns, as methods use it: sequences in, log-probabilities out, token weights back. */
import { openRandom } from "../../../lib/random.ts";
import type { LoraSettings } from "../../../lib/training/lora.ts";
import { putBytes } from "../../../native/ggml/ggml.ts";
import type { WeightPlaces } from "../../../native/llama/weights.ts";
import type { Architecture } from "../engine/architecture.ts";
import { openPatterns, type Patterns } from "../engine/dropout.ts";
import type { Taught } from "../engine/inputs.ts";
import { type Optimizer, openOptimizer, type Step } from "../engine/optimizer.ts";
import type { Model } from "../engine/transformer.ts";
import { frozenPlaces, type ModelFile, type Weights } from "../engine/weights.ts";
import { readModelFile } from "../model_file.ts";
import { type SpreadGradients, spreadGradients } from "../ranks/spread_trainee.ts";
import { type Adapter, adapterOf, type ReadRows, trainedRows } from "../results/adapter.ts";
import { type AdapterSlot, openSlot } from "./adapter_slot.ts";
import { batchOf, type MicroBatch, microBatches, noiseOf, taughtOf, weightsOf } from "./batches.ts";
import { loadMoments, loadTrained, saveTrained } from "./files.ts";
import { MergedSampler } from "./merged_sampler.ts";
import { type LoadedModel, loadModel } from "./model.ts";
import { Passes } from "./passes.ts";
import { planMicro } from "./plan.ts";
import type { Piece, Scores, TraineeOptions } from "./types.ts";

/** Returns the weight of each scored token, by piece of the unit. */
export type Weigh = (unit: number, scores: readonly Scores[]) => readonly Float32Array[];

/** The teacher's view of a unit, which has one piece. */
export type TaughtOf = (unit: number) => Taught;

export async function openTrainee(options: TraineeOptions): Promise<Trainee> {
  return new Trainee(options, loadModel(options, await readModelFile(options.modelPath), options));
}

/** One model on one device, with trainable adapters or weights. */
export class Trainee {
  readonly file: ModelFile;
  readonly architecture: Architecture;
  /** Why a run on a GPU does not use our own kernels. Null if it uses them, or has no GPU. */
  readonly tapeReason: string | null;
  readonly trainableParameters: number;
  /** Matrices that training does not change: they have no adapter. */
  readonly frozen: WeightPlaces;
  private readonly weights: Weights;
  private readonly optimizer: Optimizer;
  /** Null if nothing is dropped out. */
  private readonly patterns: Patterns | null;
  private readonly passes: Passes;
  private readonly sampler: MergedSampler;
  private readonly slot: AdapterSlot;
  /** Null if this process trains alone. */
  private readonly gradients: SpreadGradients | null;

  /** The trainee frees `loaded` when it is closed. */
  constructor(
    private readonly options: TraineeOptions,
    private readonly loaded: LoadedModel,
  ) {
    const { file, model, isFused, canMerge } = loaded;
    const { architecture, weights } = model;
    this.file = file;
    this.architecture = architecture;
    this.tapeReason = loaded.tapeReason;
    this.trainableParameters = weights.trainable.reduce((sum, { shape }) => sum + elements(shape), 0);
    this.frozen = frozenPlaces(weights);
    this.weights = weights;
    drawAdapters(weights, options.seed);
    this.optimizer = openOptimizer(weights, options.optim ? { optim: options.optim } : {});
    this.patterns = options.lora && dropoutPatterns(weights, options.lora, options.seed);
    const isExact = options.exact === true && canMerge && isFused && this.patterns === null;
    const plan = planMicro(options, options, { architecture, header: file.header, isFused, isExact });
    this.passes = new Passes(loaded, plan, options);
    this.sampler = new MergedSampler(model, this.optimizer, { canMerge, isExact });
    this.slot = openSlot(weights);
    this.gradients = options.ranks ? spreadGradients(weights, options.ranks) : null;
  }

  /** Memory of this process on its device: weights, gradients, moments, the largest graph. */
  get memoryBytes(): number {
    const { loaded, optimizer, patterns, sampler, passes } = this;
    return loaded.bytes + optimizer.bytes + (patterns?.bytes ?? 0) + sampler.bytes + passes.bytes;
  }

  get steps(): number {
    return this.optimizer.steps;
  }

  /** True if the adapter can be merged into weights of half precision on the same device. */
  get canMerge(): boolean {
    return this.sampler.canMerge;
  }

  /** True if passes forward are exact after `merge`. */
  get isExact(): boolean {
    return this.sampler.isExact;
  }

  /**
   * Scores under the current model. `reference`, which needs `lora`: under the start adapter, or with the adapter off if
   * the training began without one.
   */
  async score(
    pieces: readonly Piece[],
    { reference = false, entropies = false }: { reference?: boolean; entropies?: boolean } = {},
  ): Promise<Scores[]> {
    const { passes, slot } = this;
    if (!reference) return passes.score(pieces, { entropies, exact: this.sampler.refresh() });
    if (!this.options.lora) throw new Error("The reference needs an adapter that can be switched off");
    if (!slot.hasStart) return passes.score(pieces, { entropies, reference: true });
    return slot.withStart(() => passes.score(pieces, { entropies }));
  }

  /**
   * Runs forward, `weigh`, then backward, in micro-batches that fit the memory, and sums the gradients of Σ w · -log p.
   * The pieces of one unit are weighed together and stay in one micro-batch (a pair of DPO). Units are independent.
   * Dropout depends only on `dropoutSeed` and the unit. `taught` adds the gradient of Σ weight · divergence.
   */
  async learn(
    units: readonly (readonly Piece[])[],
    weigh: Weigh,
    { dropoutSeed, entropies = false, taught }: { dropoutSeed: number; entropies?: boolean; taught?: TaughtOf },
  ): Promise<void> {
    const { passes, patterns, gradients } = this;
    const batches = microBatches(units, passes.plan.sizes);
    const exact = this.sampler.refresh();
    const extras = { entropies, divergences: taught !== undefined };
    const ofRank = await passes.run(batches, {
      extras,
      shape: (micro) => ({
        ...passes.plan.shape(micro, true),
        entropies,
        exact,
        ...(gradients?.apart ? { apart: true } : {}),
        ...(patterns ? { dropout: patterns } : {}),
      }),
      batch: (micro) => ({
        ...batchOf(micro, patterns ? dropoutSeed : null),
        ...this.noise(micro, dropoutSeed),
        ...(taught ? { taught: this.taught(micro, taught) } : {}),
      }),
      onScores: (graph, micro, scores) => {
        gradients?.before();
        graph.backward(weightsOf(micro, weigh, scores));
        gradients?.after(graph);
      },
    });
    if (!gradients) return;
    const weighed = new Set<readonly Scores[]>(ofRank);
    const all = await passes.gather(batches, ofRank, extras);
    batches.forEach((micro, b) => {
      if (!weighed.has(all[b]!)) weightsOf(micro, weigh, all[b]!); // every rank needs the method's tallies
    });
    await gradients.sum();
  }

  /** Divergences of `learn` are from this model on the same device, which must stay open as long as this one. */
  learnFrom(teacher: Model): void {
    this.loaded.model.teacher = teacher;
  }

  private taught(micro: MicroBatch, of: TaughtOf): Taught {
    const { teacher } = this.loaded.model;
    if (!teacher) throw new Error("This model has no teacher to learn from");
    return taughtOf(micro, teacher.architecture.width, of);
  }

  /** NEFTune's noise on the embeddings of a micro-batch. */
  private noise(micro: MicroBatch, seed: number) {
    const { noiseAlpha: alpha } = this.options;
    return alpha ? { noise: noiseOf(micro, { alpha, width: this.architecture.width, seed }) } : {};
  }

  /**
   * One AdamW step over the gradients so far, which are cleared. Returns their norm. If it is not finite, nothing was
   * changed.
   */
  step(options: Step): number {
    const norm = this.optimizer.step(options);
    this.weights.clearGradients();
    return norm;
  }

  /**
   * Merges the adapter into the weights of a sampler on the same device. Returns false if that is impossible. An exact
   * trainee computes with these weights from here on, and merges again after each step, unless `exact` is false: the
   * sampler is not exact then.
   */
  merge(locations: WeightPlaces, exact = true): boolean {
    return this.sampler.merge(locations, exact);
  }

  /** Starts from the weights of an adapter with the same rank and targets. It is also the reference from here on. */
  startFrom(adapter: Adapter): void {
    this.forgetMerged();
    this.slot.startFrom(adapter);
  }

  /** Returns the current adapter. Throws for a full training. */
  adapter(): Adapter {
    return adapterOf(this.weights, this.architecture.name);
  }

  /** Returns the current weights. Throws for an adapter. */
  rows(): ReadRows {
    if (this.options.lora) throw new Error("Only an adapter was trained; the weights are those of the file");
    return trainedRows(this.weights);
  }

  /** Writes weights.safetensors and moments.safetensors into an existing directory. */
  save(dir: string): Promise<void> {
    return saveTrained(dir, this.weights, this.optimizer);
  }

  async load(dir: string, { moments }: { moments: boolean }): Promise<void> {
    this.forgetMerged();
    loadTrained(dir, this.weights);
    if (moments) loadMoments(dir, this.weights, this.optimizer);
  }

  close(): void {
    this.sampler.free();
    this.passes.free();
    this.patterns?.free();
    this.optimizer.free();
    this.loaded.free();
  }

  /** The adapter is another one: graphs that multiply by the merged weights are wrong from here on. */
  private forgetMerged(): void {
    this.sampler.forget();
    this.passes.free();
  }
}

const elements = (shape: readonly number[]) => shape.reduce((a, b) => a * b, 1);

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

function dropoutPatterns({ trainable, backend }: Weights, lora: LoraSettings, seed: number): Patterns | null {
  if (lora.dropout === 0) return null;
  const widths = trainable.filter(({ name }) => name.endsWith(".lora_a")).map(({ shape }) => shape[0] ?? 1);
  return openPatterns(backend, widths, { rate: lora.dropout, seed });
}
