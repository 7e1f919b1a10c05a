/** Writes one batch into a graph and reads the results. */
import type { Divergence } from "../../../lib/training/loss/divergence.ts";
import {
  allocate,
  type Context,
  type Ggml,
  getFloats,
  newContext,
  newTensor,
  putBytes,
  TYPE,
} from "../../../native/ggml/ggml.ts";
import type { Architecture } from "./architecture.ts";
import { choices, dropping, type Patterns } from "./dropout.ts";
import type { Targets } from "./head.ts";
import { copyOf, isSame, maskOf, narrow, type Packing } from "./masks.ts";
import type { UsedRows } from "./ops.ts";
import type { Tensor } from "./tape.ts";
import type { Inputs, Model } from "./transformer.ts";
import type { Weights } from "./weights.ts";

export type GraphShape = {
  /** Tokens of a row, and number of rows. */
  tokens: number;
  rows: number;
  trains: boolean;
  checkpoints: boolean;
  /** Queries per attention block. */
  attentionBlock: number;
  /** Tokens whose probabilities exist at once. */
  headChunk: number;
  /** Maximum number of positions with a target; absent: all. The output layer skips the others. */
  scored?: number;
  /** Logits are divided by it. */
  temperature?: number;
  entropies?: boolean;
  /** Learn from the teacher of the model. The fused path has no such graph. */
  divergence?: Divergence;
  /** Keep the inputs of the output layer. The fused path has no such graph. */
  states?: boolean;
  /** Compute the model without its adapters. */
  reference?: boolean;
  /** Multiply by the weights of the sampler, as the sampler does. Only the fused path has such a graph. */
  exact?: boolean;
  /** Dropout of adapter inputs. */
  dropout?: Patterns;
  /** Noise is added to the embeddings. The fused path has no such graph. */
  noise?: boolean;
  /** The sums get only the first gradient of each weight; the graph keeps the others apart. */
  apart?: boolean;
};

/** All `tokens · rows` positions, row by row. */
export type Batch = {
  ids: Int32Array;
  positions: Int32Array;
  /** The sequence of each token, counted in its row; -1: padding. Tokens attend to their own sequence. */
  sequences: Int32Array;
  /**
   * Branch of each token: all of the sequence sees branch 0, and no other branch sees this one. Absent: no branches.
   */
  branches?: Int32Array;
  /** The token to score at each position; -1: none. */
  targets: Int32Array;
  /** Dropout seed of each position, if the graph has dropout. */
  dropSeeds?: Uint32Array;
  /** `width` numbers for each position, if the graph has noise. Absent: zeros. */
  noise?: Float32Array;
  /** Inputs of the teacher's output layer and weights of the divergence, one row and one number for each position. */
  taught?: Taught;
};

/** `states`: inputs of the teacher's output layer, one row for each token. `weights`: of the divergence at each token. */
export type Taught = { states: Float32Array; weights: Float32Array };

export const scoredOf = ({ tokens, rows, scored }: GraphShape) => scored ?? tokens * rows;
export const blocksOf = ({ tokens, attentionBlock }: GraphShape) => Math.ceil(tokens / attentionBlock);
export const chunksOf = (shape: GraphShape) => Math.ceil(scoredOf(shape) / shape.headChunk);

const pieces = (total: number, piece: number) =>
  Array.from({ length: Math.ceil(total / piece) }, (_, i) => Math.min(piece, total - i * piece));

type Of = Pick<Model, "architecture" | "weights" | "teacher">;

export function newInputs({ architecture, weights, teacher }: Of, shape: GraphShape) {
  const { ggml } = weights.backend;
  const { tokens, rows, attentionBlock, headChunk } = shape;
  const [count, scored] = [tokens * rows, scoredOf(shape)];
  const window = windowOf(architecture, shape);
  const tensors = makeTensors({ architecture, weights, ...(teacher ? { teacher } : {}) }, shape);
  const { inputs, targets, choice, names } = tensors;
  const width = teacher?.architecture.width ?? 0;
  const nothingTaught = {
    states: new Float32Array(targets.taught ? count * width : 0),
    weights: new Float32Array(count),
  };
  let masksOf: Packing | undefined; // masks have T² numbers and are rebuilt only when the packing changes
  let indexes: Int32Array = new Int32Array(); // batch position of each scored row
  const inChunks = <T extends Int32Array | Float32Array>(values: T, to: readonly Tensor[]) =>
    to.forEach((tensor, i) => {
      putBytes(ggml, tensor, values.subarray(i * headChunk, (i + 1) * headChunk));
    });
  function putMasks(packing: Packing) {
    masksOf = copyOf(packing);
    for (const [i, mask] of inputs.masks.of.entries()) {
      const from = i * attentionBlock;
      const values = maskOf(masksOf, shape, from);
      putBytes(ggml, mask, values);
      const narrower = inputs.windowMasks.of[i] as Tensor;
      if (window !== null) putBytes(ggml, narrower, narrow(values, masksOf, shape, { window, from }));
    }
  }
  function putTaught(to: NonNullable<Targets["taught"]>, { states, weights: all }: Taught) {
    const rows = new Float32Array(scored * width);
    indexes.forEach((place, i) => {
      if (place >= 0) rows.set(states.subarray(place * width, (place + 1) * width), i * width);
    });
    to.states.forEach((tensor, i) => {
      putBytes(ggml, tensor, rows.subarray(i * headChunk * width, (i + 1) * headChunk * width));
    });
    inChunks(
      Float32Array.from(indexes, (place) => (place < 0 ? 0 : (all[place] as number))),
      to.weights,
    );
  }
  return {
    inputs,
    targets,
    drop: choice && shape.dropout ? dropping(shape.dropout, choice, { names, tokens: count }) : null,
    bytes: tensors.bytes,
    free: tensors.free,
    put(batch: Batch) {
      putBytes(ggml, inputs.ids, batch.ids);
      putBytes(ggml, inputs.positions, batch.positions);
      if (inputs.usedRows) putUsedRows(ggml, inputs.usedRows, batch.ids, architecture.vocab);
      if (inputs.queryFactors) putBytes(ggml, inputs.queryFactors, queryFactors(batch.positions, architecture));
      if (inputs.noise) putBytes(ggml, inputs.noise, batch.noise ?? new Float32Array(count * architecture.width));
      if (!masksOf || !isSame(masksOf, batch, window)) putMasks(batch);
      indexes = scoredPositions(batch.targets, scored);
      if (targets.chosen) putBytes(ggml, targets.chosen.indexes, indexes.map(atLeast0));
      if (targets.chosen) putBytes(ggml, targets.chosen.back, wayBack(indexes, count));
      inChunks(targetIndexes(indexes, batch.targets, { headChunk, vocab: architecture.vocab }), targets.indexes);
      if (targets.taught) putTaught(targets.taught, batch.taught ?? nothingTaught);
      if (choice) putBytes(ggml, choice, choices(batch.dropSeeds ?? new Uint32Array(count), names.length));
    },
    /** Returns a row for each position of the batch; zeros without a target. */
    readRows(from: Tensor): Float32Array {
      const packed = getFloats(ggml, from);
      const width = packed.length / scored;
      const all = new Float32Array(count * width);
      indexes.forEach((place, i) => {
        if (place >= 0) all.set(packed.subarray(i * width, (i + 1) * width), place * width);
      });
      return all;
    },
    /** One weight for each position of the batch. */
    putWeights(values: Float32Array) {
      const chosen = Float32Array.from(indexes, (place) => (place < 0 ? 0 : (values[place] as number)));
      inChunks(chosen, targets.weights);
    },
    /** Returns a value for each position of the batch; 0 without a target. */
    read({ targets: wanted }: Batch, from: readonly Tensor[]): Float32Array {
      const scores = new Float32Array(scored);
      for (const [i, each] of from.entries())
        getFloats(ggml, each, scores.subarray(i * headChunk, Math.min(scored, (i + 1) * headChunk)));
      return spread(scores, indexes, wanted);
    },
  };
}

type Table = { headChunk: number; vocab: number };
const targetIndexes = (indexes: Int32Array, wanted: Int32Array, { headChunk, vocab }: Table) =>
  indexes.map((place, i) => (i % headChunk) * vocab + atLeast0(wanted[place] ?? 0));

function spread(packed: Float32Array, indexes: Int32Array, wanted: Int32Array): Float32Array {
  const all = new Float32Array(wanted.length);
  indexes.forEach((place, i) => {
    if (place >= 0 && (wanted[place] as number) >= 0) all[place] = packed[i] as number;
  });
  return all;
}

function putUsedRows(ggml: Ggml, { used, among }: UsedRows, ids: Int32Array, vocab: number) {
  const indexes = new Map<number, number>();
  for (const id of ids) if (!indexes.has(id)) indexes.set(id, indexes.size);
  const all = new Int32Array(Math.min(ids.length, vocab));
  all.set([...indexes.keys()]);
  for (let at = indexes.size, row = 0; at < all.length; row++) if (!indexes.has(row)) all[at++] = row;
  putBytes(ggml, used, all);
  putBytes(
    ggml,
    among,
    ids.map((id) => indexes.get(id) as number),
  );
}

const atLeast0 = (value: number) => Math.max(0, value);

/** Positions that windowed layers see. Null: no row is longer. */
const windowOf = ({ window }: Architecture, { tokens }: GraphShape) =>
  window && window.size < tokens ? window.size : null;

function queryFactors(positions: Int32Array, { temperature }: Architecture): Float32Array {
  const { scale, length } = temperature as NonNullable<Architecture["temperature"]>;
  return Float32Array.from(positions, (position) => 1 + scale * Math.log(1 + Math.floor(position / length)));
}

function makeTensors({ architecture, weights, teacher }: Of, shape: GraphShape) {
  const { vocab, temperature } = architecture;
  const { ggml } = weights.backend;
  const { tokens, rows, attentionBlock, headChunk } = shape;
  const [count, scored] = [tokens * rows, scoredOf(shape)];
  const names = shape.dropout ? adapted(weights) : [];
  const trainsTable = shape.trains && weights.trainable.some(({ name }) => name === "token_embd.weight");
  const context: Context = newContext(ggml, 16 + 2 * blocksOf(shape) + 4 * chunksOf(shape));
  const make = (type: number, ...size: number[]): Tensor => newTensor(ggml, context, type, size);
  const mask = (queries: number) => make(TYPE.F32, tokens, queries, 1, rows);
  const masks = () => ({ block: attentionBlock, of: pieces(tokens, attentionBlock).map(mask) });
  const everything = masks();
  const inputs: Inputs = {
    ids: make(TYPE.I32, count),
    usedRows: trainsTable ? { used: make(TYPE.I32, Math.min(count, vocab)), among: make(TYPE.I32, count) } : null,
    positions: make(TYPE.I32, count),
    masks: everything,
    windowMasks: windowOf(architecture, shape) === null ? everything : masks(),
    noise: shape.noise ? make(TYPE.F32, architecture.width, count) : null,
    queryFactors: temperature && temperature.length < tokens ? make(TYPE.F32, 1, 1, count) : null,
    tokens,
    rows,
  };
  const chunks = pieces(scored, headChunk);
  const targets: Targets = {
    chunk: headChunk,
    indexes: chunks.map((length) => make(TYPE.I32, length)),
    weights: chunks.map((length) => make(TYPE.F32, 1, length)),
    chosen: scored === count ? null : { indexes: make(TYPE.I32, scored), back: make(TYPE.I32, count) },
    taught:
      shape.divergence && teacher
        ? {
            states: chunks.map((length) => make(TYPE.F32, teacher.architecture.width, length)),
            weights: chunks.map((length) => make(TYPE.F32, 1, length)),
          }
        : null,
  };
  const choice = names.length > 0 ? make(TYPE.I32, count, names.length) : null;
  const held = allocate(weights.backend, context);
  const free = () => {
    held.free();
    context.free();
  };
  return { inputs, targets, choice, names, bytes: held.bytes, free };
}

const adapted = ({ trainable }: Weights) =>
  trainable.flatMap(({ name }) => (name.endsWith(".lora_a") ? [name.slice(0, -".lora_a".length)] : []));

/** Returns the positions that the output layer sees, in order; -1: none. If all can be scored, returns all. */
function scoredPositions(targets: Int32Array, scored: number): Int32Array {
  if (scored === targets.length) return Int32Array.from(targets.keys());
  const indexes = new Int32Array(scored).fill(-1);
  let next = 0;
  targets.forEach((target, place) => {
    if (target < 0) return;
    if (next === scored) throw new RangeError(`More than ${scored} positions of a batch have targets`);
    indexes[next++] = place;
  });
  return indexes;
}

/** Returns for each position its row among the scored ones, or one past the last. */
function wayBack(indexes: Int32Array, count: number): Int32Array {
  const back = new Int32Array(count).fill(indexes.length);
  indexes.forEach((place, i) => {
    if (place >= 0) back[place] = i;
  });
  return back;
}
