/**
 * Weights in the layout of the fused passes. Matrices with the same input are stacked: W over W over W. Each adapter's B
 * is to the right of its W, and its A is below all of them:
 *
 *     W₁  s·B₁  0          x · [W B]ᵀ with x = [x, x·A₁ᵀ, x·A₂ᵀ] is the product including the adapters.
 *     W₂  0     s·B₂       dy · [W; A] with dy = [dy, dy·s·B₁, dy·s·B₂] is the gradient of x.
 *     A₁                   Adapters therefore need no separate pass over memory.
 *     A₂
 */

import type { Matrix } from "../../../../native/cuda/kernel_products.ts";
import type { Kernels } from "../../../../native/cuda/kernels.ts";
import { putBytes, TYPE } from "../../../../native/ggml/ggml.ts";
import { shapeOf, typeOf } from "../../../../native/ggml/symbols.ts";
import type { Architecture } from "../architecture.ts";
import { loraNames, type Weights } from "../weights.ts";
import { addressOf, COPY_INTS, copiesOf, packed } from "./adapters.ts";
import { decodeRows } from "./decode.ts";
import { Arena, type Buffer, past, type Region } from "./memory.ts";
import { fillRoom, packedTables, type Room } from "./packed.ts";
import { rowThreads } from "./project.ts";

const EXTRA = 64; // columns of adapters are a multiple of this, so that rows begin at multiples of 128 bytes

/** An adapter of a group: `rank` columns from `column` on, and `rows` rows of its weight from `firstRow` on. */
export type Adapter = { name: string; column: number; rank: number; firstRow: number; rows: number };

/** A matrix of a group: `outputs` rows from `firstRow` on, and the number of its adapter. */
export type Part = { name: string; outputs: number; firstRow: number; adapter: number | null };

export type Group = {
  readonly parts: readonly Part[];
  readonly adapters: readonly Adapter[];
  readonly inputs: number;
  readonly outputs: number;
  /** Columns of all adapters, 0 if there are none. Columns without an adapter are zero. */
  readonly extra: number;
  /** Length of a row in elements. */
  readonly stride: number;
  /** All packed groups have the same buffer. */
  readonly matrix: Buffer;
  readonly a: Region;
  readonly b: Region;
  /** Call it before a product with `matrix`: a packed group is decoded into it. */
  ready: () => void;
  /** F32 gradients of this micro-batch: [extra, inputs] and [outputs, extra]. */
  readonly ofA: Buffer;
  readonly ofB: Buffer;
};

export type FusedLayer = { qkv: Group; output: Group; gateUp: Group; down: Group };

/** The matrix of the output layer. */
export type Table = {
  /** Rows that are in BF16 at once. */
  readonly most: number;
  /** Returns rows in BF16. They are valid until the next call, or until a group is ready. */
  rows: (first: number, count: number) => Matrix;
};

export type FusedWeights = {
  readonly layers: readonly FusedLayer[];
  /** Writes the embeddings of `count` tokens to `x`, in F32. */
  embed: (ids: Buffer, x: Buffer, count: number) => void;
  readonly output: Table;
  /** Copies the current adapters into these matrices. */
  refresh: () => void;
  /** Adds the gradients of the last backward pass to the sums. */
  addGradients: () => void;
  readonly bytes: number;
  free: () => void;
};

const held = new WeakMap<Weights, { fused: FusedWeights; users: number }>();

/** One object serves all graphs of a model. Its bytes count for the graph that made it, and the last user frees it. */
export function fusedWeights(kernels: Kernels, architecture: Architecture, weights: Weights): FusedWeights {
  const shared = held.get(weights);
  const { fused } = shared ?? { fused: make(kernels, architecture, weights) };
  const of = shared ?? { fused, users: 0 };
  of.users++;
  held.set(weights, of);
  return {
    ...fused,
    bytes: shared ? 0 : fused.bytes,
    free() {
      if (--of.users > 0) return;
      held.delete(weights);
      fused.free();
    },
  };
}

/** Makes the fused copy the only one on the device. The result must be freed after everything else that uses the model. */
export function keepOnlyFused(architecture: Architecture, weights: Weights): Pick<FusedWeights, "bytes" | "free"> {
  const kernels = weights.backend.kernels as Kernels;
  kernels.enter();
  const fused = fusedWeights(kernels, architecture, weights);
  if (!weights.packed) weights.drop();
  return fused;
}

const namesOf = ({ joins }: Pick<Architecture, "joins">, layer: number) => {
  const of = (...parts: string[]) => parts.map((part) => `blk.${layer}.${part}.weight`);
  return {
    qkv: joins.attention ? of("attn_qkv") : of("attn_q", "attn_k", "attn_v"),
    output: of("attn_output"),
    gateUp: joins.forward ? of("ffn_up") : of("ffn_gate", "ffn_up"), // gates precede ups in a joined matrix
    down: of("ffn_down"),
  };
};

/** Names of all matrices that the fused passes multiply by. */
export const matricesOf = (of: Architecture): string[] =>
  Array.from({ length: of.layers }, (_, i) => Object.values(namesOf(of, i)).flat()).flat();

function make(kernels: Kernels, architecture: Architecture, weights: Weights): FusedWeights {
  const { backend } = weights;
  const arena = new Arena(backend);
  const planned: Group[] = [];
  const room = weights.packed ? wantRoom(arena, architecture, weights) : null;
  const plan = (names: readonly string[]) => {
    const group = planGroup(arena, weights, names, room);
    if (room) group.ready = () => fillRoom(kernels, backend, room, { group, get: weights.get });
    planned.push(group);
    return group;
  };
  const layers = Array.from({ length: architecture.layers }, (_, i) => {
    const { qkv, output, gateUp, down } = namesOf(architecture, i);
    return { qkv: plan(qkv), output: plan(output), gateUp: plan(gateUp), down: plan(down) };
  });
  const adapters = planned.flatMap(({ parts }) => parts).filter(({ adapter }) => adapter !== null).length;
  const listInts = Math.max(1, adapters * 2 * COPY_INTS);
  const lists = { put: arena.want("i32", listInts), add: arena.want("i32", listInts) };
  const tables = room
    ? packedTables(kernels, architecture, weights, room)
    : planTables(kernels, arena, architecture, weights);
  arena.allocate();
  try {
    if (!room) for (const group of planned) placeMatrices(kernels, weights, group);
    tables.place();
  } catch (error) {
    arena.free();
    throw error;
  }
  const copies = planned.flatMap((group) => copiesOf(weights, group));
  if (copies.length > 0) {
    putBytes(backend.ggml, lists.put.tensor, packed(copies.map(({ put }) => put)));
    putBytes(backend.ggml, lists.add.tensor, packed(copies.map(({ add }) => add)));
  }
  const run = (name: "put_adapters" | "add_gradients", list: Buffer) => {
    if (copies.length > 0) kernels.launch(name, { grid: [16, copies.length, 1], threads: 256 }, [list.at]);
  };
  kernels.wait();
  return {
    layers,
    ...tables.used(),
    refresh: () => run("put_adapters", lists.put),
    addGradients: () => run("add_gradients", lists.add),
    bytes: arena.bytes,
    free: () => arena.free(),
  };
}

function groupSize(weights: Weights, names: readonly string[]) {
  let [firstRow, adapters] = [0, 0];
  const parts = names.map((name): Part => {
    const outputs = shapeOf(weights.get(name))[1];
    const adapter = weights.lora && weights.has(loraNames(name).a) ? adapters++ : null;
    const part = { name, outputs, firstRow, adapter };
    firstRow += outputs;
    return part;
  });
  const inputs = shapeOf(weights.get(names[0] as string))[0];
  const rank = weights.lora?.rank ?? 0;
  const extra = Math.ceil((adapters * rank) / EXTRA) * EXTRA;
  return { parts, inputs, outputs: firstRow, extra, stride: inputs + extra, rank };
}

function wantRoom(arena: Arena, architecture: Architecture, weights: Weights): Room {
  const groups = Array.from({ length: architecture.layers }, (_, i) => Object.values(namesOf(architecture, i))).flat();
  const sizes = groups.map((names) => groupSize(weights, names));
  const elements = Math.max(...sizes.map(({ outputs, extra, stride }) => (outputs + extra) * stride));
  return { buffer: arena.want("bf16", elements), elements };
}

function planGroup(arena: Arena, weights: Weights, names: readonly string[], room: Room | null): Group {
  const { parts, inputs, outputs, extra, stride, rank } = groupSize(weights, names);
  const matrix = room?.buffer ?? arena.want("bf16", (outputs + extra) * stride);
  const apart = (rows: number, stride: number): Region => {
    return { buffer: arena.want("bf16", Math.max(1, rows * stride)), first: 0, stride };
  };
  return {
    parts,
    adapters: parts.flatMap(({ name, adapter, firstRow, outputs: rows }) =>
      adapter === null ? [] : [{ name, column: adapter * rank, rank, firstRow, rows }],
    ),
    inputs,
    outputs,
    extra,
    stride,
    matrix,
    a: room ? apart(extra, inputs) : { buffer: matrix, first: outputs * stride, stride },
    b: room ? apart(outputs, extra) : { buffer: matrix, first: inputs, stride },
    ready() {},
    ofA: arena.want("f32", Math.max(1, extra * inputs)),
    ofB: arena.want("f32", Math.max(1, outputs * extra)),
  };
}

/** BF16 tables are used in place. */
function planTables(kernels: Kernels, arena: Arena, { tied, width, vocab }: Architecture, weights: Weights) {
  const { backend } = weights;
  const tableOf = (name: string) => {
    const tensor = weights.get(name);
    const [width, rows] = shapeOf(tensor);
    const copy = typeOf(tensor) === TYPE.BF16 ? null : arena.want("bf16", width * rows);
    return {
      at: () => copy?.at ?? addressOf(backend, tensor),
      place: () => copy && decodeRows(backend, tensor, { tensor: copy.tensor, first: 0, stride: width }),
    };
  };
  const embeddings = tableOf("token_embd.weight");
  const output = tied ? embeddings : tableOf("output.weight");
  return {
    used: () => {
      const embed: FusedWeights["embed"] = (ids, x, count) =>
        kernels.launch("embed", { grid: [count, 1, 1], threads: rowThreads(width) }, [
          ...[embeddings.at(), ids.at, x.at, width],
        ]);
      const rows = (first: number) => ({ at: past("bf16", output.at(), first * width), stride: width });
      return { embed, output: { most: vocab, rows } };
    },
    place() {
      embeddings.place();
      if (!tied) output.place();
    },
  };
}

function placeMatrices(kernels: Kernels, weights: Weights, { parts, inputs, stride, matrix }: Group) {
  for (const { name, outputs, firstRow } of parts) {
    const tensor = weights.get(name);
    const first = firstRow * stride;
    if (typeOf(tensor) !== TYPE.BF16) {
      decodeRows(weights.backend, tensor, { tensor: matrix.tensor, first, stride });
      continue;
    }
    const values = [addressOf(weights.backend, tensor), past("bf16", matrix.at, first), inputs, stride];
    kernels.launch("place_matrix", { grid: [outputs, 1, 1], threads: 128 }, values);
  }
}
