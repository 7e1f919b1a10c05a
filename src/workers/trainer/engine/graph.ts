/**
 * One graph for rows of a fixed length, in two halves. The forward half yields log-probabilities; the backward half
 * takes the token weights computed from them. Both halves share their memory.
 */
import { ptr } from "bun:ffi";
import { must } from "../../../native/ffi.ts";
import { newContext, OutOfMemory } from "../../../native/ggml/ggml.ts";
import { GRAPH_WORDS } from "../../../native/shim/shim.ts";
import { buildFused, canFuse } from "./fused/fused.ts";
import { tokenScores } from "./head.ts";
import { type Batch, blocksOf, chunksOf, type GraphShape, newInputs } from "./inputs.ts";
import { Tape, type Tensor } from "./tape.ts";
import { hidden, type Model, outputLayer } from "./transformer.ts";
import type { Weights } from "./weights.ts";

export type { Batch, GraphShape } from "./inputs.ts";

const NODES_PER_LAYER = 600;
const NODES_MORE = 4096;

export type Graph = {
  /** Log-probability of each target; 0 without a target. */
  forward: (batch: Batch) => Float32Array;
  /** Entropies of the last `forward` in nats, if the shape has them. */
  entropies: () => Float32Array;
  /** Divergences from the teacher of the last `forward`, if the shape has them. */
  divergences: () => Float32Array;
  /** Inputs of the output layer of the last `forward`, one row for each position, if the shape has `states`. */
  states: () => Float32Array;
  /** Adds the gradient of Σ weight · -log p, and that of the divergences, to the sums. Call it after `forward` of the same batch. */
  backward: (weights: Float32Array) => void;
  /** Gradients that `backward` keeps apart, by the sum that they belong to. Empty unless the shape says `apart`. */
  readonly later: ReadonlyMap<Tensor, readonly Tensor[]>;
  readonly bytes: number;
  free: () => void;
};

export function buildGraph(model: Model, shape: GraphShape): Graph {
  const needsTape = shape.noise || shape.states || shape.divergence;
  if (!needsTape && canFuse(model, shape.tokens)) return buildFused(model, shape);
  const { backend } = model.weights;
  const { ggml } = backend;
  const io = newInputs(model, shape);
  const planned = nodes(model, shape, io);
  const allocator = must(ggml.ggml_gallocr_new(ggml.ggml_backend_get_default_buffer_type(backend.at)), "allocator");
  const free = () => {
    ggml.ggml_gallocr_free(allocator);
    planned.context.free();
    io.free();
  };
  if (!ggml.ggml_gallocr_alloc_graph(allocator, planned.graph)) {
    free();
    throw new OutOfMemory("The device has no memory for the graph");
  }
  const half = (from: number, to: number) => {
    const view = new BigUint64Array(GRAPH_WORDS);
    ggml.ggml_graph_view(view, planned.graph, from, to);
    return () => {
      if (ggml.ggml_backend_graph_compute(backend.at, ptr(view)) !== 0) throw new Error("The device could not compute");
    };
  };
  const runForward = half(0, planned.middle);
  const runBackward = shape.trains ? half(planned.middle, planned.end) : undefined;
  let last: Batch | undefined;
  return {
    forward(batch) {
      io.put(batch);
      runForward();
      last = batch;
      return io.read(batch, planned.logps);
    },
    entropies() {
      if (!shape.entropies || !last) throw new Error("This graph computes no entropies");
      return io.read(last, planned.entropies);
    },
    divergences() {
      if (!shape.divergence || !last) throw new Error("This graph has no teacher");
      return io.read(last, planned.divergences);
    },
    states() {
      if (!shape.states) throw new Error("This graph keeps no inputs of the output layer");
      return io.readRows(planned.states);
    },
    backward(tokenWeights) {
      if (!runBackward) throw new Error("This graph has no backward pass");
      io.putWeights(tokenWeights);
      runBackward();
    },
    later: planned.apart ?? new Map(),
    bytes: io.bytes + Number(ggml.ggml_gallocr_get_buffer_size(allocator, 0)),
    free,
  };
}

/** Describes both halves; nothing is allocated yet. */
function nodes(base: Model, shape: GraphShape, io: ReturnType<typeof newInputs>) {
  const { weights, architecture } = base;
  const { ggml } = weights.backend;
  const model: Model = {
    ...base,
    weights: shape.reference ? withoutAdapters(weights) : weights,
    ...(io.drop ? { drop: io.drop } : {}),
  };
  const size = NODES_PER_LAYER * architecture.layers * blocksOf(shape) + NODES_MORE * chunksOf(shape);
  const context = newContext(ggml, size * 2, size);
  const graph = must(ggml.ggml_new_graph_custom(context.at, size, false), "graph");
  const gradients = new Map(weights.trainable.map(({ tensor, gradient }) => [tensor, gradient]));
  const apart = shape.apart ? new Map<Tensor, Tensor[]>() : null;
  const plan = { apart, transposed: weights.transposed, multipliesOuter: weights.backend.kind === "cuda" };
  const tape = new Tape({ ggml, context: context.at, graph, gradients, ...plan }, shape.trains);
  const x = hidden(tape, model, io.inputs, shape.checkpoints);
  const output = (of: Model) => ({ project: outputLayer(of), cap: of.architecture.caps.logits });
  const { teacher } = base;
  const head = {
    ...output(model),
    temperature: shape.temperature ?? 1,
    entropies: shape.entropies ?? false,
    teacher: shape.divergence && teacher ? { ...output(teacher), divergence: shape.divergence } : null,
  };
  const scores = tokenScores(tape, x, io.targets, head);
  const results = [...scores.logps, ...scores.entropies, ...scores.divergences];
  for (const each of shape.states ? [...results, scores.states] : results) ggml.ggml_set_output(each);
  const middle = ggml.ggml_graph_n_nodes(graph);
  tape.backward();
  return { context, graph, middle, end: ggml.ggml_graph_n_nodes(graph), apart, ...scores };
}

/** Not a copy of the fields: some are made when first read. */
const withoutAdapters = (weights: Weights): Weights => Object.create(weights, { lora: { value: null } });
