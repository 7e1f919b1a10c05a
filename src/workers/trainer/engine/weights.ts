/** The tensors of a model on a device: frozen ones in the file's type, trainable ones in F32 with their gradients. */
import type { Header, Tensor as Stored } from "../../../lib/gguf/parse.ts";
import { holdsTurned } from "../../../lib/training/memory.ts";
import { must } from "../../../native/ffi.ts";
import {
  allocate,
  type Backend,
  type Context,
  isQuantized,
  newContext,
  newTensor,
  TYPE,
} from "../../../native/ggml/ggml.ts";
import { shapeOf, typeOf } from "../../../native/ggml/symbols.ts";
import type { WeightPlaces } from "../../../native/llama/weights.ts";
import type { Tensor } from "./tape.ts";
import { fillWeights, frozenType, type Packing } from "./weights_fill.ts";

export type Lora = {
  rank: number;
  alpha: number;
  /** alpha / √rank instead of alpha / rank. */
  rslora: boolean;
  /** Names of layers without the number, such as attn_q. */
  targets: readonly string[];
};

export type Trainable = { name: string; shape: readonly number[]; tensor: Tensor; gradient: Tensor };

export type Weights = {
  readonly backend: Backend;
  get: (name: string) => Tensor;
  has: (name: string) => boolean;
  /** Kept in the file's order, so that two runs sum in the same order. */
  readonly trainable: readonly Trainable[];
  /** Transposed copies of frozen matrices, if the device gains from them; made on first use. */
  readonly transposed: ReadonlyMap<Tensor, Tensor>;
  readonly lora: Lora | null;
  readonly bytes: number;
  /** True if quantized matrices stay so on the device. Only the fused passes may run. */
  readonly packed: boolean;
  /** True after `drop`. */
  readonly dropped: boolean;
  /** Frees the frozen matrices of the layers. Afterwards only passes with copies of their own may run. */
  drop: () => void;
  clearGradients: () => void;
  free: () => void;
};

export type ModelFile = { path: string; header: Header };

export const loraScale = ({ rank, alpha, rslora }: Lora) => alpha / (rslora ? Math.sqrt(rank) : rank);
export const loraNames = (name: string) => ({ a: `${name}.lora_a`, b: `${name}.lora_b` });

/** `lora` null: every weight is trained. A and B are zero until they are filled. */
export function loadWeights(backend: Backend, file: ModelFile, lora: Lora | null, packing: Packing = "no"): Weights {
  const { ggml } = backend;
  const stored = [...file.header.tensors.values()];
  const tensors = new Map<string, Tensor>();
  const planned: { name: string; shape: readonly number[] }[] = [];
  const main = newContext(ggml, stored.length * 4);
  const body = newContext(ggml, stored.length); // frozen matrices of layers
  for (const tensor of stored) {
    const trains = lora === null && isTrained(tensor.name);
    const type = trains ? TYPE.F32 : frozenType(backend, tensor, packing);
    const home = !trains && isInLayer(tensor) ? body : main;
    tensors.set(tensor.name, newTensor(ggml, home, type, tensor.dims));
    if (trains) planned.push({ name: tensor.name, shape: tensor.dims });
    else if (lora && isTarget(tensor, lora)) planned.push(...addAdapter(backend, main, tensor, lora, tensors));
  }
  const sums = newContext(ggml, planned.length);
  const trainable = planned.map(({ name, shape }) => ({
    name,
    shape,
    tensor: tensors.get(name) as Tensor,
    gradient: newTensor(ggml, sums, TYPE.F32, shape),
  }));
  const held = allocate(backend, main);
  const matrices = lora === null ? NOTHING_HELD : allocate(backend, body);
  const gradients = planned.length === 0 ? NOTHING_HELD : allocate(backend, sums);
  fillWeights(backend, file, tensors);
  let dropped = false;
  let turned: Copies | undefined; // our own kernels need no transposed copies
  const isWorth = holdsTurned(backend.kind, file.header.dataBytes);
  const turn = () => (isWorth ? transposedCopies(backend, frozenMatrices(file, tensors, trainable)) : NONE);
  return {
    backend,
    lora,
    trainable,
    packed: packing !== "no",
    get transposed() {
      turned ??= turn();
      return turned.copies;
    },
    get: (name) => tensors.get(name) ?? missing(name),
    has: (name) => tensors.has(name),
    get bytes() {
      return held.bytes + (dropped ? 0 : matrices.bytes) + gradients.bytes + (turned?.bytes ?? 0);
    },
    get dropped() {
      return dropped;
    },
    drop() {
      if (!dropped) matrices.free();
      dropped = true;
    },
    clearGradients: gradients.clear,
    free() {
      turned?.free();
      held.free();
      if (!dropped) matrices.free();
      gradients.free();
      main.free();
      body.free();
      sums.free();
    },
  };
}

const NOTHING_HELD = { bytes: 0, clear() {}, free() {} };
const isInLayer = ({ name, dims }: Stored) => dims.length > 1 && name.startsWith("blk.");

/** Rotation factors are constants. */
const isTrained = (name: string) => !name.startsWith("rope_");

const isTarget = ({ name, dims }: Stored, { targets }: Lora) => {
  const layer = /^blk\.\d+\.(\w+)\.weight$/.exec(name)?.[1] ?? name.replace(/\.weight$/, "");
  return dims.length === 2 && targets.includes(layer);
};

function addAdapter(backend: Backend, context: Context, of: Stored, { rank }: Lora, tensors: Map<string, Tensor>) {
  const [inputs = 1, outputs = 1] = of.dims;
  const { a, b } = loraNames(of.name);
  const parts = [
    { name: a, shape: [inputs, rank] },
    { name: b, shape: [rank, outputs] },
  ];
  for (const { name, shape } of parts) tensors.set(name, newTensor(backend.ggml, context, TYPE.F32, shape));
  return parts;
}

function missing(name: string): never {
  throw new Error(`The model has no tensor ${name}`);
}

type Copies = { copies: ReadonlyMap<Tensor, Tensor>; bytes: number; free: () => void };
const NONE: Copies = { copies: new Map(), bytes: 0, free() {} };

function frozenMatrices({ header }: ModelFile, tensors: ReadonlyMap<string, Tensor>, trainable: readonly Trainable[]) {
  const trained = new Set(trainable.map(({ name }) => name));
  return [...header.tensors.values()]
    .filter(({ name, dims }) => dims.length === 2 && !trained.has(name))
    .map(({ name, dims }) => ({ tensor: tensors.get(name) as Tensor, dims }))
    .filter(({ tensor }) => !isQuantized(typeOf(tensor)));
}

/** Made once: transposing a matrix in every backward pass takes longer than the product itself. */
function transposedCopies(backend: Backend, matrices: readonly { tensor: Tensor; dims: readonly number[] }[]): Copies {
  if (matrices.length === 0) return NONE;
  const { ggml } = backend;
  const context = newContext(ggml, matrices.length);
  const copies = new Map(
    matrices.map(({ tensor, dims: [rows = 1, columns = 1] }) => [
      tensor,
      newTensor(ggml, context, typeOf(tensor), [columns, rows]),
    ]),
  );
  const held = allocate(backend, context);
  for (const [tensor, copy] of copies) {
    const work = newContext(ggml, 8, 8);
    const graph = must(ggml.ggml_new_graph_custom(work.at, 8, false), "graph");
    const turned = ggml.ggml_transpose(work.at, tensor);
    ggml.ggml_build_forward_expand(graph, must(ggml.ggml_cpy(work.at, turned, copy), "copy"));
    const failed = ggml.ggml_backend_graph_compute(backend.at, graph) !== 0;
    work.free();
    if (failed) throw new Error("The device could not transpose a matrix");
  }
  return {
    copies,
    bytes: held.bytes,
    free() {
      held.free();
      context.free();
    },
  };
}

/** Locations of frozen matrices without an adapter, as long as they are on the device. */
export function frozenPlaces(weights: Weights): WeightPlaces {
  const { backend, get, has, lora } = weights;
  return (name) => {
    if (!lora || !has(name) || has(loraNames(name).a)) return null;
    if (weights.dropped && name.startsWith("blk.")) return null;
    const tensor = get(name);
    const [columns, rows] = shapeOf(tensor);
    const address = Number(must(backend.ggml.ggml_get_data(tensor), "memory"));
    return { address, type: typeOf(tensor), columns, rows, onDevice: backend.kind === "cuda" };
  };
}
