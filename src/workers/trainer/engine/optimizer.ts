/**
 * AdamW over the summed gradients, on the device. The device also computes the norm of all gradients. The host reads
 * one number, decides the clipping factor, and writes a few numbers.
 */

import type { OptimizerName } from "../../../lib/training/fields.ts";
import { must } from "../../../native/ffi.ts";
import {
  allocate,
  type Context,
  type Ggml,
  getFloats,
  newContext,
  newTensor,
  OutOfMemory,
  putBytes,
  TYPE,
} from "../../../native/ggml/ggml.ts";
import { factorsOf, openByteMoments } from "./adam8/moments.ts";
import type { Tensor } from "./tape.ts";
import type { Trainable, Weights } from "./weights.ts";

export type Step = {
  learningRate: number;
  beta1: number;
  beta2: number;
  epsilon: number;
  weightDecay: number;
  /** Gradients are clipped to this norm; 0: no clipping. */
  maxNorm: number;
  /** Gradients are divided by this first: the number of summed micro-batches. */
  divisor: number;
};

export type Moments = { name: string; first: Float32Array; second: Float32Array };

export type Optimizer = {
  /** Returns the norm of the gradients before clipping. If it is not finite, nothing was changed. */
  step: (how: Step) => number;
  /** Number of completed steps. Together with the moments it is the whole state. */
  readonly steps: number;
  /** Yields moments one after the other: together they may be larger than memory. */
  moments: () => Iterable<Moments>;
  restore: (steps: number, moments: Iterable<Moments>) => void;
  readonly bytes: number;
  free: () => void;
};

type Which = (of: Trainable) => boolean;

/** Norms and biases have no weight decay, as in transformers. */
const isDecayed: Which = ({ shape }) => shape.length > 1;

type Kind = { decays?: Which; optim?: OptimizerName };

export function openOptimizer(weights: Weights, { decays = isDecayed, optim }: Kind = {}): Optimizer {
  const { backend, trainable } = weights;
  const { ggml } = backend;
  const bytes = optim === "adamw_8bit" ? openByteMoments(weights) : null;
  const exact = trainable.filter(({ name }) => !bytes?.has(name));
  const context = newContext(ggml, exact.length * 2 + 8);
  const moments = exact.map(({ name, shape }) => ({
    name,
    first: newTensor(ggml, context, TYPE.F32, shape),
    second: newTensor(ggml, context, TYPE.F32, shape),
  }));
  const parameters = newTensor(ggml, context, TYPE.F32, [7]);
  const undecayed = newTensor(ggml, context, TYPE.F32, [7]);
  const factor = newTensor(ggml, context, TYPE.F32, [1]);
  const held = allocate(backend, context);

  const norm = normGraph(weights);
  const ofStep = (each: Trainable) => (decays(each) ? parameters : undecayed);
  const update = exact.length > 0 ? updateGraph(weights, exact, moments, { factor, ofStep }) : null;
  const momentsByName = new Map(moments.map((each) => [each.name, each]));

  let steps = 0;
  return {
    step(how) {
      const { learningRate, beta1, beta2, epsilon, weightDecay, maxNorm, divisor } = how;
      norm.run();
      const length = Math.sqrt(getFloats(ggml, norm.results[0] as Tensor)[0] as number) / divisor;
      if (!Number.isFinite(length)) return length;
      steps++;
      const clip = maxNorm > 0 && length > maxNorm ? maxNorm / length : 1;
      putBytes(ggml, factor, Float32Array.of(clip / divisor));
      const corrections = [1 / (1 - beta1 ** steps), 1 / (1 - beta2 ** steps)];
      const put = (into: Tensor, decay: number) =>
        putBytes(ggml, into, Float32Array.of(learningRate, beta1, beta2, epsilon, decay, ...corrections));
      put(parameters, weightDecay);
      put(undecayed, 0);
      update?.run();
      const factorsWith = (decay: number) => factorsOf(how, { steps, scale: clip / divisor, decay });
      const [withDecay, without] = [factorsWith(weightDecay), factorsWith(0)];
      bytes?.step((each) => (decays(each) ? withDecay : without));
      return length;
    },
    get steps() {
      return steps;
    },
    *moments() {
      for (const { name } of trainable)
        yield bytes?.has(name) ? bytes.read(name) : readMoments(ggml, momentsByName.get(name)!);
    },
    restore(done, saved) {
      putMoments(trainable, saved, (each) => {
        if (bytes?.has(each.name)) bytes.put(each);
        else {
          putBytes(ggml, momentsByName.get(each.name)!.first, each.first);
          putBytes(ggml, momentsByName.get(each.name)!.second, each.second);
        }
      });
      steps = done;
    },
    bytes: held.bytes + (bytes?.bytes ?? 0),
    free() {
      norm.free();
      update?.free();
      bytes?.free();
      held.free();
      context.free();
    },
  };
}

const normGraph = (weights: Weights) =>
  compiled(weights, (on) => {
    const { ggml } = weights.backend;
    const squares = weights.trainable.map(({ gradient }) =>
      must(ggml.ggml_sum(on, ggml.ggml_sqr(on, gradient)), "sum"),
    );
    const sum = squares.reduce((a, b) => must(ggml.ggml_add(on, a, b), "sum"));
    ggml.ggml_set_output(sum);
    return [sum];
  });

const updateGraph = (
  weights: Weights,
  trainable: readonly Trainable[],
  moments: MomentTensors,
  { factor, ofStep }: { factor: Tensor; ofStep: (each: Trainable) => Tensor },
) =>
  compiled(weights, (on) => {
    const { ggml } = weights.backend;
    return trainable.map((each, i) => {
      const { tensor, gradient } = each;
      const { first, second } = moments[i] as MomentTensors[number];
      ggml.ggml_set_param(tensor);
      const scaled = ggml.ggml_mul(on, gradient, factor);
      return must(ggml.ggml_opt_step_adamw(on, tensor, scaled, first, second, ofStep(each)), "step");
    });
  });

type MomentTensors = readonly { name: string; first: Tensor; second: Tensor }[];

const readMoments = (ggml: Ggml, { name, first, second }: MomentTensors[number]): Moments => ({
  name,
  first: getFloats(ggml, first),
  second: getFloats(ggml, second),
});

function putMoments(trainable: readonly Trainable[], saved: Iterable<Moments>, put: (moments: Moments) => void) {
  const left = new Set(trainable.map(({ name }) => name));
  for (const each of saved) {
    if (!left.delete(each.name))
      throw new Error(`The checkpoint has moments of ${each.name}, but that weight is not trained`);
    put(each);
  }
  const [missing] = left;
  if (missing !== undefined) throw new Error(`The checkpoint has no moments of ${missing}`);
}

/** A small separate graph that runs repeatedly. */
function compiled(weights: Weights, build: (context: Context["at"]) => Tensor[]) {
  const { backend, trainable } = weights;
  const ggml: Ggml = backend.ggml;
  const size = trainable.length * 8 + 16;
  const context = newContext(ggml, size, size);
  const graph = must(ggml.ggml_new_graph_custom(context.at, size, false), "graph");
  const results = build(context.at);
  for (const result of results) ggml.ggml_build_forward_expand(graph, result);
  const allocator = must(ggml.ggml_gallocr_new(ggml.ggml_backend_get_default_buffer_type(backend.at)), "allocator");
  if (!ggml.ggml_gallocr_alloc_graph(allocator, graph)) throw new OutOfMemory("The device has no memory for a step");
  return {
    results,
    run() {
      if (ggml.ggml_backend_graph_compute(backend.at, graph) !== 0) throw new Error("The device could not compute");
    },
    free() {
      ggml.ggml_gallocr_free(allocator);
      context.free();
    },
  };
}
