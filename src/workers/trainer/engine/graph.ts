/**
 * One graph for rows of a fixed length, in two halves: forward, from which log-probabilities are read, and backward,
 * into which the weights of the tokens go that were computed from them. Both halves share their memory.
 */
import { ptr } from "bun:ffi";
import {
  allocate,
  type Context,
  getFloats,
  newContext,
  newTensor,
  OutOfMemory,
  putBytes,
  TYPE,
} from "../../../native/ggml.ts";
import { must } from "../../../native/llama_symbols.ts";
import { type Targets, tokenLogps } from "./head.ts";
import { Tape, type Tensor } from "./tape.ts";
import { hidden, type Inputs, type Model, outputLayer } from "./transformer.ts";

export type GraphShape = {
  /** Tokens of a row, rows. */
  tokens: number;
  rows: number;
  trains: boolean;
  checkpoints: boolean;
  /** Queries that attend at once. */
  attentionBlock: number;
  /** Tokens whose probabilities exist at once. */
  headChunk: number;
};

/** All of `tokens · rows`, row by row. */
export type Batch = {
  ids: Int32Array;
  positions: Int32Array;
  /** Which sequence a token belongs to, counted in its row; -1: padding. Tokens see their own sequence. */
  sequences: Int32Array;
  /** The token that is to be scored at each place; -1: none. */
  targets: Int32Array;
};

const NODES_PER_LAYER = 600;
const NODES_MORE = 4096;
const GRAPH_BYTES = 256; // struct ggml_cgraph, with room

export type Graph = {
  /** Log-probability of each target; what has no target has 0. */
  forward: (batch: Batch) => Float32Array;
  /** Adds the gradient of Σ weight · -log p to the sums. After `forward` of the same batch. */
  backward: (weights: Float32Array) => void;
  readonly bytes: number;
  free: () => void;
};

export function buildGraph(model: Model, shape: GraphShape): Graph {
  const { weights, architecture } = model;
  const { backend } = weights;
  const { ggml } = backend;
  const given = newInputs(model, shape);
  const size = NODES_PER_LAYER * architecture.layers * blocksOf(shape) + NODES_MORE * chunksOf(shape);
  const context = newContext(ggml, size * 2, size);
  const graph = must(ggml.ggml_new_graph_custom(context.at, size, false), "graph");
  const gradients = new Map(weights.trainable.map(({ tensor, gradient }) => [tensor, gradient]));
  const plan = { transposed: weights.transposed, multipliesOuter: backend.kind === "cuda" };
  const tape = new Tape({ ggml, context: context.at, graph, gradients, ...plan }, shape.trains);
  const x = hidden(tape, model, given.inputs, shape.checkpoints);
  const logps = tokenLogps(tape, x, given.targets, outputLayer(model));
  for (const logp of logps) ggml.ggml_set_output(logp);
  const middle = ggml.ggml_graph_n_nodes(graph);
  tape.backward();
  const end = ggml.ggml_graph_n_nodes(graph);
  const allocator = must(ggml.ggml_gallocr_new(ggml.ggml_backend_get_default_buffer_type(backend.at)), "allocator");
  if (!ggml.ggml_gallocr_alloc_graph(allocator, graph)) throw new OutOfMemory("The device has no memory for the graph");
  const half = (from: number, to: number) => {
    const view = new Uint8Array(GRAPH_BYTES);
    ggml.ggml_graph_view(ptr(view), graph, from, to);
    return () => {
      if (ggml.ggml_backend_graph_compute(backend.at, ptr(view)) !== 0) throw new Error("The device could not compute");
    };
  };
  const runForward = half(0, middle);
  const runBackward = shape.trains ? half(middle, end) : undefined;
  return {
    forward(batch) {
      given.put(batch);
      runForward();
      return given.masked(batch, logps);
    },
    backward(tokenWeights) {
      if (!runBackward) throw new Error("This graph does not train");
      given.putWeights(tokenWeights);
      runBackward();
    },
    bytes: given.bytes + Number(ggml.ggml_gallocr_get_buffer_size(allocator, 0)),
    free() {
      ggml.ggml_gallocr_free(allocator);
      context.free();
      given.free();
    },
  };
}

const blocksOf = ({ tokens, attentionBlock }: GraphShape) => Math.ceil(tokens / attentionBlock);
const chunksOf = ({ tokens, rows, headChunk }: GraphShape) => Math.ceil((tokens * rows) / headChunk);

function newInputs({ architecture, weights }: Model, shape: GraphShape) {
  const { backend } = weights;
  const { ggml } = backend;
  const { tokens, rows, attentionBlock, headChunk } = shape;
  const count = tokens * rows;
  const context: Context = newContext(ggml, 16 + blocksOf(shape) + 2 * chunksOf(shape));
  const make = (type: number, ...size: number[]): Tensor => newTensor(ggml, context, type, size);
  const pieces = (total: number, piece: number) =>
    Array.from({ length: Math.ceil(total / piece) }, (_, i) => Math.min(piece, total - i * piece));
  const inputs: Inputs = {
    ids: make(TYPE.I32, count),
    positions: make(TYPE.I32, count),
    masks: {
      block: attentionBlock,
      of: pieces(tokens, attentionBlock).map((queries) => make(TYPE.F32, tokens, queries, 1, rows)),
    },
    tokens,
    rows,
  };
  const chunks = pieces(count, headChunk);
  const targets: Targets = {
    chunk: headChunk,
    places: chunks.map((length) => make(TYPE.I32, length)),
    weights: chunks.map((length) => make(TYPE.F32, 1, length)),
  };
  const held = allocate(backend, context);
  let masksOf: Int32Array | undefined; // they are T² numbers: made anew only for another packing
  const inChunks = <T extends Int32Array | Float32Array>(values: T, to: readonly Tensor[]) =>
    to.forEach((tensor, i) => {
      putBytes(ggml, tensor, values.subarray(i * headChunk, (i + 1) * headChunk));
    });
  return {
    inputs,
    targets,
    bytes: held.bytes,
    put(batch: Batch) {
      putBytes(ggml, inputs.ids, batch.ids);
      putBytes(ggml, inputs.positions, batch.positions);
      if (!masksOf || !isSame(masksOf, batch.sequences)) {
        for (const [i, mask] of inputs.masks.of.entries())
          putBytes(ggml, mask, maskOf(batch.sequences, shape, i * attentionBlock));
        masksOf = batch.sequences.slice();
      }
      const places = batch.targets.map((target, i) => (i % headChunk) * architecture.vocab + Math.max(0, target));
      inChunks(places, targets.places);
    },
    putWeights: (values: Float32Array) => inChunks(values, targets.weights),
    masked({ targets: wanted }: Batch, logps: readonly Tensor[]): Float32Array {
      const all = new Float32Array(count);
      for (const [i, logp] of logps.entries()) getFloats(ggml, logp, all.subarray(i * headChunk, (i + 1) * headChunk));
      for (let i = 0; i < count; i++) if ((wanted[i] as number) < 0) all[i] = 0;
      return all;
    },
    free() {
      held.free();
      context.free();
    },
  };
}

const isSame = (a: Int32Array, b: Int32Array) => a.every((value, i) => value === b[i]);

/** [keys, queries, 1, rows]. Padding sees itself: a row of nothing but -∞ has no softmax. */
function maskOf(sequences: Int32Array, { tokens, rows, attentionBlock }: GraphShape, from: number): Float32Array {
  const queries = Math.min(attentionBlock, tokens - from);
  const mask = new Float32Array(tokens * queries * rows).fill(Number.NEGATIVE_INFINITY);
  for (let row = 0; row < rows; row++) {
    let start = 0; // of the sequence that the query belongs to
    for (let query = 0; query < from + queries; query++) {
      const own = sequences[row * tokens + query] as number;
      if (own < 0 || own !== sequences[row * tokens + start]) start = query;
      const at = (row * queries + query - from) * tokens;
      if (query >= from) mask.fill(0, at + start, at + query + 1);
    }
  }
  return mask;
}
