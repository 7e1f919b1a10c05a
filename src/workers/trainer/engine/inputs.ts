/** What the host puts into a graph for one batch, and what it reads back. */
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
import type { UsedRows } from "./ops.ts";
import type { Tensor } from "./tape.ts";
import type { Inputs } from "./transformer.ts";
import type { Weights } from "./weights.ts";

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
  /** Places that can have a target; absent: all. The others are no work for the output layer. */
  scored?: number;
  /** Logits are divided by it. */
  temperature?: number;
  entropies?: boolean;
  /** As the model was before its adapters. */
  reference?: boolean;
  /** Of what adapters read. */
  dropout?: Patterns;
};

/** All of `tokens · rows`, row by row. */
export type Batch = {
  ids: Int32Array;
  positions: Int32Array;
  /** Which sequence a token belongs to, counted in its row; -1: padding. Tokens see their own sequence. */
  sequences: Int32Array;
  /** Where a sequence branches: 0 is seen by all of it, what belongs to another branch is not. Absent: it does not. */
  branches?: Int32Array;
  /** The token that is to be scored at each place; -1: none. */
  targets: Int32Array;
  /** Of each place, for its dropout; only where the graph has one. */
  dropSeeds?: Uint32Array;
};

export const scoredOf = ({ tokens, rows, scored }: GraphShape) => scored ?? tokens * rows;
export const blocksOf = ({ tokens, attentionBlock }: GraphShape) => Math.ceil(tokens / attentionBlock);
export const chunksOf = (shape: GraphShape) => Math.ceil(scoredOf(shape) / shape.headChunk);

const pieces = (total: number, piece: number) =>
  Array.from({ length: Math.ceil(total / piece) }, (_, i) => Math.min(piece, total - i * piece));

type Of = { architecture: Architecture; weights: Weights };

export function newInputs({ architecture, weights }: Of, shape: GraphShape) {
  const { ggml } = weights.backend;
  const { tokens, rows, attentionBlock, headChunk } = shape;
  const [count, scored] = [tokens * rows, scoredOf(shape)];
  const made = makeTensors(weights, shape, architecture.vocab);
  const { inputs, targets, choice, names } = made;
  let masksOf: Seen | undefined; // they are T² numbers: made anew only for another packing
  let places: Int32Array = new Int32Array(); // of the batch, for each scored one
  const inChunks = <T extends Int32Array | Float32Array>(values: T, to: readonly Tensor[]) =>
    to.forEach((tensor, i) => {
      putBytes(ggml, tensor, values.subarray(i * headChunk, (i + 1) * headChunk));
    });
  function putMasks({ sequences, branches }: Seen) {
    masksOf = { sequences: sequences.slice(), ...(branches ? { branches: branches.slice() } : {}) };
    for (const [i, mask] of inputs.masks.of.entries()) putBytes(ggml, mask, maskOf(masksOf, shape, i * attentionBlock));
  }
  return {
    inputs,
    targets,
    drop: choice && shape.dropout ? dropping(shape.dropout, choice, { names, tokens: count }) : null,
    bytes: made.bytes,
    free: made.free,
    put(batch: Batch) {
      putBytes(ggml, inputs.ids, batch.ids);
      putBytes(ggml, inputs.positions, batch.positions);
      if (inputs.usedRows) putUsedRows(ggml, inputs.usedRows, batch.ids, architecture.vocab);
      if (!masksOf || !isSame(masksOf, batch)) putMasks(batch);
      places = placesOf(batch.targets, scored);
      if (targets.chosen) putBytes(ggml, targets.chosen.places, places.map(atLeast0));
      if (targets.chosen) putBytes(ggml, targets.chosen.back, wayBack(places, count));
      inChunks(placesOfTargets(places, batch.targets, { headChunk, vocab: architecture.vocab }), targets.places);
      if (choice) putBytes(ggml, choice, choices(batch.dropSeeds ?? new Uint32Array(count), names.length));
    },
    /** One for each place of the batch. */
    putWeights(values: Float32Array) {
      const chosen = Float32Array.from(places, (place) => (place < 0 ? 0 : (values[place] as number)));
      inChunks(chosen, targets.weights);
    },
    /** Of each place of the batch; 0 where there is no target. */
    read({ targets: wanted }: Batch, from: readonly Tensor[]): Float32Array {
      const found = new Float32Array(scored);
      for (const [i, each] of from.entries())
        getFloats(ggml, each, found.subarray(i * headChunk, Math.min(scored, (i + 1) * headChunk)));
      return spread(found, places, wanted);
    },
  };
}

type Table = { headChunk: number; vocab: number };
const placesOfTargets = (places: Int32Array, wanted: Int32Array, { headChunk, vocab }: Table) =>
  places.map((place, i) => (i % headChunk) * vocab + atLeast0(wanted[place] ?? 0));

function spread(found: Float32Array, places: Int32Array, wanted: Int32Array): Float32Array {
  const all = new Float32Array(wanted.length);
  places.forEach((place, i) => {
    if (place >= 0 && (wanted[place] as number) >= 0) all[place] = found[i] as number;
  });
  return all;
}

function putUsedRows(ggml: Ggml, { used, among }: UsedRows, ids: Int32Array, vocab: number) {
  const places = new Map<number, number>();
  for (const id of ids) if (!places.has(id)) places.set(id, places.size);
  const all = new Int32Array(Math.min(ids.length, vocab));
  all.set([...places.keys()]);
  for (let at = places.size, row = 0; at < all.length; row++) if (!places.has(row)) all[at++] = row;
  putBytes(ggml, used, all);
  putBytes(
    ggml,
    among,
    ids.map((id) => places.get(id) as number),
  );
}

const atLeast0 = (value: number) => Math.max(0, value);

function makeTensors(weights: Weights, shape: GraphShape, vocab: number) {
  const { ggml } = weights.backend;
  const { tokens, rows, attentionBlock, headChunk } = shape;
  const [count, scored] = [tokens * rows, scoredOf(shape)];
  const names = shape.dropout ? adapted(weights) : [];
  const trainsTable = shape.trains && weights.trainable.some(({ name }) => name === "token_embd.weight");
  const context: Context = newContext(ggml, 16 + blocksOf(shape) + 2 * chunksOf(shape));
  const make = (type: number, ...size: number[]): Tensor => newTensor(ggml, context, type, size);
  const mask = (queries: number) => make(TYPE.F32, tokens, queries, 1, rows);
  const inputs: Inputs = {
    ids: make(TYPE.I32, count),
    usedRows: trainsTable ? { used: make(TYPE.I32, Math.min(count, vocab)), among: make(TYPE.I32, count) } : null,
    positions: make(TYPE.I32, count),
    masks: { block: attentionBlock, of: pieces(tokens, attentionBlock).map(mask) },
    tokens,
    rows,
  };
  const chunks = pieces(scored, headChunk);
  const targets: Targets = {
    chunk: headChunk,
    places: chunks.map((length) => make(TYPE.I32, length)),
    weights: chunks.map((length) => make(TYPE.F32, 1, length)),
    chosen: scored === count ? null : { places: make(TYPE.I32, scored), back: make(TYPE.I32, count) },
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

type Seen = Pick<Batch, "sequences" | "branches">;

const isSame = (a: Seen, b: Seen) =>
  a.sequences.every((value, i) => value === b.sequences[i] && (a.branches?.[i] ?? 0) === (b.branches?.[i] ?? 0));

/** Places of the batch that the output layer sees, in order; -1: none. All of them where all can be seen. */
function placesOf(targets: Int32Array, scored: number): Int32Array {
  if (scored === targets.length) return Int32Array.from(targets.keys());
  const places = new Int32Array(scored).fill(-1);
  let next = 0;
  targets.forEach((target, place) => {
    if (target < 0) return;
    if (next === scored) throw new RangeError(`More than ${scored} places of a batch have targets`);
    places[next++] = place;
  });
  return places;
}

/** For each place of the batch, its row among the scored; one behind the last where it has none. */
function wayBack(places: Int32Array, count: number): Int32Array {
  const back = new Int32Array(count).fill(places.length);
  places.forEach((place, i) => {
    if (place >= 0) back[place] = i;
  });
  return back;
}

/** [keys, queries, 1, rows]. Padding sees itself: a row of nothing but -∞ has no softmax. */
function maskOf({ sequences, branches }: Seen, { tokens, rows, attentionBlock }: GraphShape, from: number) {
  const queries = Math.min(attentionBlock, tokens - from);
  const mask = new Float32Array(tokens * queries * rows).fill(Number.NEGATIVE_INFINITY);
  for (let row = 0; row < rows; row++) {
    const branchOf = (place: number) => branches?.[row * tokens + place] ?? 0;
    let [start, end, branch] = [0, 0, 0]; // of what all of the query's sequence sees; where its branch begins
    for (let query = 0; query < from + queries; query++) {
      const own = sequences[row * tokens + query] as number;
      const isNew = own < 0 || own !== sequences[row * tokens + start];
      if (isNew) start = query;
      if (branchOf(query) === 0) end = query + 1;
      if (isNew || branchOf(query) !== branchOf(branch)) branch = query;
      const at = (row * queries + query - from) * tokens;
      if (query < from) continue;
      mask.fill(0, at + start, at + end);
      mask.fill(0, at + branch, at + query + 1);
    }
  }
  return mask;
}
